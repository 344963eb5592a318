"""A Ruby heap's profile and live numbers, read from outside: image → profile → a form. docs/reference/heap-profile.md says what the image holds."""
