"""Estimates in, pages and tables out. Pure but for `write`, which puts finished files in place."""
