"""`python -m ashlar` is the same as `ashlar`."""

from ashlar.cli import main

main()
