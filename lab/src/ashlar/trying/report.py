"""What was measured as tables and a small picture for the terminal, and as JSON."""

import json
import math
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from ashlar import amounts
from ashlar.chart import stretches
from ashlar.errors import BadInput
from ashlar.said import visible
from ashlar.tables import Table
from ashlar.trying import compare
from ashlar.trying.compare import NAMES, Figure
from ashlar.trying.rubies import ASHLAR, STOCK, Ruby
from ashlar.trying.run import ASK_S, BUSY, Plan, Run

# Why there are no more runs.
Stopped = KeyboardInterrupt | BadInput | None
_LEVELS = " ▁▂▃▄▅▆▇█"
_ROWS = 4


class Found(NamedTuple):
    """All that a report needs."""

    plan: Plan
    rubies: dict[str, Ruby]
    runs: Sequence[Run]
    preloaded: str = ""
    stopped: Stopped = None

    @property
    def figures(self) -> list[Figure]:
        return compare.figures(self.runs)

    @property
    def rounds(self) -> int:
        return compare.rounds(self.runs)

    @property
    def verdict(self) -> list[str]:
        return compare.verdict(self.figures, self.rounds)

    @property
    def warnings(self) -> list[str]:
        more = [f"LD_PRELOAD={self.preloaded} was set for both; Ashlar is its own malloc, so try it without"] if self.preloaded else []
        if isinstance(self.stopped, KeyboardInterrupt) and not any(run.interrupted for run in self.runs):
            more.append("interrupted: each of these runs is whole")
        if isinstance(self.stopped, BadInput):
            more.append(f"not all rounds were run: {self.stopped}")
        versions = {ruby.version for ruby in self.rubies.values()}
        more += [f"the two are different versions of Ruby, {' and '.join(sorted(versions))}: not all of the difference is the collector's"] if len(versions) > 1 else []
        return [*compare.warnings(self.runs), *more]

    @property
    def sides(self) -> list[str]:
        return [side for side in (STOCK, ASHLAR) if any(run.side == side for run in self.runs)]

    def first(self, side: str) -> Run | None:
        return next((run for run in self.runs if run.side == side and run.samples), None)


def facts(found: Found) -> list[str]:
    """What was done, a sentence each."""
    plan, lines = found.plan, [shlex.join(found.plan.command)]
    lines += [f"{NAMES[side]}: {ruby.description}, {ruby.program}" for side, ruby in found.rubies.items()]
    asked = [run for run in found.runs if run.answered]
    many = f" {found.rounds} times{' on each' if len(found.sides) > 1 else ''}" if found.rounds > 1 else ""
    if asked:
        chosen = f" (chosen so that the server is busy for about {100 * BUSY:.0f} % of the time; --rate sets it)" if plan.rate_was_chosen else ""
        whole = not all(run.interrupted for run in asked)
        seconds = plan.seconds or ASK_S if whole else max(run.window_s[1] - run.window_s[0] for run in asked)
        lines.append(f"asked{many} at {asked[0].address} for {_paths(plan.paths)}: {plan.rate_per_s:g} requests a second for {seconds:.0f} s{chosen}, "
                     f"after {plan.in_turn} one by one and {plan.warm_up_s:g} s to warm up")
    elif any(run.ready_s is not None for run in found.runs):
        seconds = max(run.window_s[1] - (run.ready_s or 0) for run in found.runs)
        lines.append(f"watched{many} for {seconds:.0f} s from when it listened, and asked nothing; add --get / to have it asked")
    elif any(run.ended for run in found.runs):
        lines.append(f"run to its end{many}")
    else:
        lines.append(f"watched{many} for {max(run.window_s[1] for run in found.runs):.0f} s")
    return lines


def _paths(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}"


def table(found: Found) -> Table:
    figures, sides = found.figures, found.sides
    both, twice = len(sides) == 2, any(f.spread is not None for f in figures)
    columns = [("", lambda f: f.label)]
    columns += [(NAMES[side], lambda f, side=side: "–" if (mean := f.mean(side)) is None else f.write(mean)) for side in sides]
    columns += [("difference", lambda f: compare.signed(f.ratio) if f.ratio is not None and f.kind and f.alike else "")] if both else []
    columns += [("same Ruby", lambda f: f"{100 * f.spread:.1f} %" if f.spread is not None and f.kind else "")] if twice else []
    notes = ["Memory is PSS, summed over all processes of the command."]
    if any(not run.ended for run in found.runs):
        notes.append("Settled is the mean over the last half.")
    if twice:
        notes.append("“same Ruby” is by how much runs of one Ruby differ.")
    asked = [run for run in found.runs if run.answered]
    if asked and not any(f.name == "p99_s" for f in figures):
        count = max(len(run.answered.latencies_s) for run in asked)
        notes.append(f"p99 takes 2,000 requests, and these were {count:,}: --rate and --seconds say how many.")
    return Table("figures", "", tuple(head for head, _ in columns), tuple(tuple(cell(f) for _, cell in columns) for f in figures), "\n".join(notes))


# ── A picture in the terminal ──────────────────────────────────────────────

def picture(found: Found, width: int) -> list[str]:
    """PSS over time of the first run of each side, on one scale."""
    runs = [run for side in found.sides if (run := found.first(side))]
    most = max((s.pss_bytes for run in runs for s in run.samples), default=0)
    last = max((run.samples[-1].at_s for run in runs), default=0.0)
    if not most or not last:
        return []
    columns = max(min(width - 12, 100), 20)
    lines = [f"memory over time, from 0 to {amounts.memory(most)}"]
    for run in runs:
        highest = stretches([(s.at_s, s.pss_bytes) for s in run.samples], last, columns)
        heights = [_ROWS * 8 * size / most if size is not None else None for size in highest]
        for row in reversed(range(_ROWS)):
            cells = "".join(" " if h is None else _LEVELS[min(max(math.ceil(h) - 8 * row, 0), 8)] for h in heights)
            lines.append(f"{NAMES[run.side] if row == 0 else '':>8} │{cells.rstrip()}")
        lines.append("")
    lines[-1] = f"{'':>8} └{_axis(runs, last, columns)}"
    return [visible(line) for line in lines]


def _axis(runs: Sequence[Run], last: float, columns: int) -> str:
    end = f" {last:.0f} s" if last >= 10 else f" {last:.1f} s"
    line = "─" * (columns - len(end))
    begun = [int(run.window_s[0] / last * columns) for run in runs if run.answered]
    if begun and max(begun) < columns - len(end) - 10:
        at = max(begun)
        line = line[:at] + "┴ asked" + line[at + 7:]
    return line + end


# ── JSON ───────────────────────────────────────────────────────────────────

def as_json(found: Found) -> str:
    """All figures, and every run with its samples. Sizes are in bytes, times in seconds; a request that failed has a latency of null. Of one round
    it is unknown what differs."""
    told = {
        "command": found.plan.command,
        "rubies": {side: {"program": str(r.program), "version": r.version, "description": r.description} for side, r in found.rubies.items()},
        "asked": {"paths": list(found.plan.paths), "rate_per_s": found.plan.rate_per_s} if found.plan.paths else None,
        "verdict": found.verdict, "warnings": found.warnings,
        "figures": {f.name: {"label": f.label, **{side: [_finite(v) for v in f.values.get(side, ())] for side in (STOCK, ASHLAR)}, "ratio": f.ratio,
                             "same_ruby_spread": f.spread, "differs": f.differs if f.kind and found.rounds > 1 else None} for f in found.figures},
        "runs": [_run(run) for run in found.runs],
    }
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


def _run(run: Run) -> dict:
    return {"side": run.side, "round": run.round, "window_s": run.window_s, "ready_s": run.ready_s, "cpu_s": run.cpu_s, "others": run.others,
            "status": run.status, "interrupted": run.interrupted,
            "programs": run.seen.programs, "collected": run.collected._asdict() if run.collected else None,
            "statuses": dict(run.answered.statuses) if run.answered else None, "failures": dict(run.answered.failures) if run.answered else None,
            "latencies_s": [_finite(v) for v in run.answered.latencies_s] if run.answered else None,
            "samples": [sample._asdict() for sample in run.samples]}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
