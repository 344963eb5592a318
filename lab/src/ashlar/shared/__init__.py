"""What a tree of processes shares: the verb `ashlar shared`."""
