"""Keep every run. Nothing else in the lab reads or writes result files."""
