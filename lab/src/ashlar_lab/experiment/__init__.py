"""What to run: programs, variants, knob values, and when to stop."""
