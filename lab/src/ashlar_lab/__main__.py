"""`python -m ashlar_lab` is the same as `ashlar`."""

from ashlar_lab.cli import main

main()
