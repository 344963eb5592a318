"""Memory of a command's processes, from outside: the launcher, and the verb `ashlar mem`."""
