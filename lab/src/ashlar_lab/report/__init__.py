"""Estimates in, pages and tables out. Pure but for `write`, which puts finished files in place."""

FORMS = ("html", "md", "csv", "json", "svg", "png", "record")
