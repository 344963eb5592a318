"""What to run: programs, variants, knob values, and when to stop."""

from ashlar_lab.experiment.model import Arm, Experiment, Program, Server, Stop, Variant

__all__ = ["Arm", "Experiment", "Program", "Server", "Stop", "Variant"]
