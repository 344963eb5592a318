"""What to run: programs, variants, knob values, and when to stop."""

from ashlar_lab.experiment.model import Arm, Contrast, Experiment, Program, Server, Stop, Variant

__all__ = ["Arm", "Contrast", "Experiment", "Program", "Server", "Stop", "Variant"]
