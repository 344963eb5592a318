"""`python -m ashlar_lab` is the same as `ashlar-lab`."""

from ashlar_lab.cli import main

main()
