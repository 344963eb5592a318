"""Runs in, estimates with intervals out. Pure: nothing here reads a file, a clock or the environment."""
