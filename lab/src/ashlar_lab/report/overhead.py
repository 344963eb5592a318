"""What the lab costs the measured program, in words."""

from ashlar_lab.fit.floor import largest, surely_above, surely_below
from ashlar_lab.measure.overhead import Overhead
from ashlar_lab.report import units

GOAL = 0.01


def text(found: Overhead) -> str:
    """The ratios, and whether the interval of CPU time keeps the overhead below the goal of 1 %, by more than the twin differs from 1."""
    floor = largest([found.cpu_twin], found.cpu_twin.n)
    # More digits than elsewhere: the question is about one per cent.
    cpu, wall, cpu_twin, wall_twin = (units.interval(e, "{:.4f}".format) for e in (found.cpu, found.wall, found.cpu_twin, found.wall_twin))
    lines = [f"watched / bare over {found.blocks} blocks: CPU time {cpu}, wall time {wall}",
             f"bare / bare, which differ by noise alone: CPU time {cpu_twin}, wall time {wall_twin}",
             f"the launcher itself uses {100 * found.launcher_share:.2g} % of one core"]
    if found.others_cores is not None:
        lines.append(f"other processes kept {found.others_cores:.2f} cores busy meanwhile")
    if found.cpu_twin.low > 1 + GOAL / 2 or found.cpu_twin.high < 1 - GOAL / 2:
        lines.append("nothing is decided: windows that are alike differ by more than noise; measure again on a quieter machine")
    elif surely_below(found.cpu, 1 + GOAL, floor):
        lines.append("the lab's overhead in CPU time is below 1 %: the whole interval is")
    elif surely_above(found.cpu, 1 + GOAL, floor):
        lines.append("the lab's overhead in CPU time is above 1 %: the whole interval is")
    else:
        lines.append("whether the lab's overhead is below 1 % is not decided: give more blocks, on a quieter machine")
    return "\n".join(lines)
