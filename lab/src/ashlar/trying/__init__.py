"""A user's own command on stock Ruby and on Ruby with Ashlar inside, side by side: the verb `ashlar try`."""
