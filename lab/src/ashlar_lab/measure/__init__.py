"""Start programs and watch them. Nothing else in the lab starts a process."""
