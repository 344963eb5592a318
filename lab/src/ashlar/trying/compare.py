"""What the runs come to: figures of both sides, their ratio, and whether it means anything. Nothing is started or read here."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ashlar import amounts
from ashlar.trying.rubies import ASHLAR, STOCK
from ashlar.trying.run import Run
from ashlar.trying.watch import Sample

NAMES = {STOCK: "stock", ASHLAR: "Ashlar"}
# By how much two runs of one and the same Ruby may differ, where there is only one run of each to go by.
ONE_RUN = {"memory": 0.05, "time": 0.10, "requests": 0.30}
# So many times the spread of so few runs of each Ruby are taken as noise, the fewer of the two counting: of two values a range shows little. The means of
# equal Rubies differ by more in 3 of 100 figures with two runs, in 1 with three, in fewer with more; 11 is for a side that was interrupted.
FEW_RUNS = {1: 11.0, 2: 3.0, 3: 1.5, 4: 1.2}
# From this share of the machine's processors on, other programs make times useless that nothing but a single run stands for.
OTHERS = 0.1


class Figure(NamedTuple):
    """A number of every run. `kind` is which of ONE_RUN it is judged by, none for what is only shown; `headline` is how the verdict calls it. `alike` says
    that the runs did the same work, as far as that can be seen: none was cut short, and all ended with status 0, or none by itself."""

    name: str
    label: str
    write: Callable[[float], str]
    values: dict[str, tuple[float, ...]]
    kind: str = ""
    headline: str = ""
    disturbed: bool = False
    alike: bool = True

    def mean(self, side: str) -> float | None:
        values = self.values.get(side, ())
        return sum(values) / len(values) if values else None

    @property
    def ratio(self) -> float | None:
        """Ashlar by stock."""
        stock, ashlar = self.mean(STOCK), self.mean(ASHLAR)
        return ashlar / stock if stock and ashlar is not None and math.isfinite(ashlar) and math.isfinite(stock) else None

    @property
    def spread(self) -> float | None:
        """The largest difference between two runs of the same Ruby, as a share of their mean. None where no Ruby ran twice."""
        found = [(max(v) - min(v)) / (sum(v) / len(v)) for v in self.values.values() if len(v) > 1 and sum(v) and math.isfinite(sum(v))]
        return max(found) if found else None

    @property
    def noise(self) -> float:
        """What a difference must be beyond to mean something. Several runs are believed only as far as they go: by no less than a tenth of what one is."""
        one = math.inf if self.disturbed and self.kind != "memory" and self.spread is None else ONE_RUN.get(self.kind, 0.0)
        if self.spread is None:
            return one
        fewest = min(len(v) for v in self.values.values() if v)
        return max(FEW_RUNS.get(fewest, 1.0) * self.spread, one / 10 if fewest > 1 else one)

    @property
    def differs(self) -> bool:
        return self.alike and self.ratio is not None and bool(self.kind) and abs(self.ratio - 1) > self.noise


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Those that some run can tell, the most important first. What grows with time is of runs that nobody has cut short."""
    usable = [run for run in runs if in_window(run)]
    whole, level = [run for run in usable if not run.interrupted], _with_a_level(usable)
    ended, asked = any(run.ended for run in usable), any(run.answered for run in usable)
    during = " while asked" if asked else ""

    def of(name: str, label: str, write: Callable[[float], str], value: Callable[[Run], float | None], kind: str = "", headline: str = "",
           of_runs: Sequence[Run] = whole) -> Figure:
        values = {side: tuple(v for run in of_runs if run.side == side and (v := value(run)) is not None) for side in (STOCK, ASHLAR)}
        alike = {run.status for run in of_runs} in ({None}, {0}) and not any(run.interrupted for run in of_runs)
        return Figure(name, label, write, values, kind, headline, any(run.others > OTHERS for run in of_runs), alike)

    made = [
        of("memory", "memory, mean" if ended else "memory, settled", amounts.memory, _mean_pss if ended else settled_pss, "memory", "memory", level),
        of("peak_memory", "memory, peak", amounts.memory, lambda run: max(s.pss_bytes for s in in_window(run)), "memory", "peak memory" if ended else ""),
        of("workers_dirty", "private dirty of workers", amounts.memory, _workers_dirty, "memory", "", level),
        of("cpu_s", f"CPU time{during}", _seconds, lambda run: run.cpu_s, "time", "CPU time"),
        of("wall_s", "time until it ended", _seconds, lambda run: run.wall_s if run.ended else None, "time", "time until it ended"),
        of("collector_s", f"time in GC{during}", _seconds, lambda run: run.collected.collector_s if _all_told(run) else None, "time"),
        of("collector_share", "GC's share of the CPU time", lambda v: amounts.percent(v, 1, 1),
           lambda run: run.collected.collector_s / run.cpu_s if _all_told(run) and run.cpu_s else None),
        of("collections", "collections", amounts.count, lambda run: run.collected.collections if _all_told(run) else None),
        of("major_collections", "of these major", amounts.count, lambda run: run.collected.major if _all_told(run) else None),
        of("full_collections", "of these full", amounts.count, lambda run: run.collected.full if _all_told(run) else None),
        of("p50_s", "p50 of requests", _milliseconds, _percentile(0.50), "requests", "p50", level),
        of("p90_s", "p90", _milliseconds, _percentile(0.90), "requests", "p90", level),
        of("p99_s", "p99", _milliseconds, _percentile(0.99), "requests", "p99", level),
        of("failed", "requests that failed", lambda v: f"{v:,.0f}", lambda run: run.answered.failed if run.answered else None),
        of("ready_s", "until it answered" if asked else "until it listened", _seconds, lambda run: run.ready_s, of_runs=usable),
    ]
    return [figure for figure in made if any(figure.values.values())]


def rounds(runs: Sequence[Run]) -> int:
    """How many runs of each Ruby the figures stand on, the fewer of the two counting. At least one: what was cut short is shown where there is nothing else."""
    return min(_whole(runs).values(), default=1)


def _whole(runs: Sequence[Run]) -> Counter[str]:
    """How many runs of each side have their whole window."""
    return Counter(run.side for run in runs if in_window(run) and not run.interrupted)


# ── Figures of one run ─────────────────────────────────────────────────────

def in_window(run: Run) -> list[Sample]:
    begin, end = run.window_s
    return [s for s in run.samples if begin <= s.at_s <= end]


def _with_a_level(usable: Sequence[Run]) -> list[Run]:
    """Those that memory and times of requests are taken of. One that was cut short stands for its side where nothing else does, but not beside a program that
    ended: how much was to come is unknown."""
    whole = [run for run in usable if not run.interrupted]
    sides = {run.side for run in whole}
    return whole if any(run.ended for run in whole) else [*whole, *(run for run in usable if run.side not in sides)]


def _last_half(run: Run) -> list:
    middle = sum(run.window_s) / 2
    found = in_window(run)
    return [s for s in found if s.at_s >= middle] or found[-1:]


def settled_pss(run: Run) -> float:
    half = _last_half(run)
    return sum(s.pss_bytes for s in half) / len(half)


def _mean_pss(run: Run) -> float:
    """Over time: between two samples memory is what the later one says."""
    found, at, whole = in_window(run), 0.0, 0.0
    for sample in found:
        whole, at = whole + sample.pss_bytes * (sample.at_s - at), sample.at_s
    return whole / at if at else found[-1].pss_bytes


def _workers_dirty(run: Run) -> float | None:
    half = _last_half(run)
    return sum(s.workers_dirty_bytes for s in half) / len(half) if any(s.workers for s in half) else None


def _all_told(run: Run) -> bool:
    return run.collected is not None and run.collected.silent == 0


def _percentile(share: float) -> Callable[[Run], float | None]:
    return lambda run: run.answered.percentile_s(share) if run.answered else None


# ── In words ───────────────────────────────────────────────────────────────

def verdict(found: Sequence[Figure], rounds: int) -> list[str]:
    """What a reader may believe, a sentence each."""
    both = [f for f in found if f.alike and f.headline and f.ratio is not None]
    better = [f for f in both if f.differs and f.ratio < 1]
    worse = [f for f in both if f.differs and f.ratio > 1]
    same = [f for f in both if not f.differs]
    sentences = _first_look([*better, *worse]) if rounds == 1 else _claims(better, worse)
    if failed := [_failed(f, side) for f in found for side in (STOCK, ASHLAR) if f.headline and math.inf in f.values.get(side, ())]:
        sentences.append(", ".join(failed))
    if same:
        what = "than runs of the same Ruby differ by" if rounds > 1 else "than one run each can tell"
        sentences.append(f"No difference larger {what}: " + ", ".join(f"{f.headline} ({signed(f.ratio)})" for f in same))
    return sentences


def _first_look(found: Sequence[Figure]) -> list[str]:
    """Figures side by side: how much of that is chance, one run of each Ruby cannot tell."""
    beside = ", ".join(f"{f.headline} {_instead(f)} ({signed(f.ratio)})" for f in found)
    return [f"With Ashlar, in one run each: {beside}; --rounds 3 tells whether that is more than runs of the same Ruby differ by"] if found else []


def _claims(better: Sequence[Figure], worse: Sequence[Figure]) -> list[str]:
    sentences = ["With Ashlar: " + ", ".join(map(_change, better))] if better else []
    return sentences + ([("But " if better else "With Ashlar: ") + ", ".join(map(_change, worse))] if worse else [])


def _change(figure: Figure) -> str:
    share = abs(figure.ratio - 1)
    amount = f"{100 * share:.0f} %" if figure.ratio < 2 else f"{figure.ratio:.1f} times the"
    more = "" if figure.ratio >= 2 else " less" if figure.ratio < 1 else " more"
    return f"{amount}{more} {figure.headline} ({_instead(figure)})"


def _instead(figure: Figure) -> str:
    return f"{figure.write(figure.mean(ASHLAR))} instead of {figure.write(figure.mean(STOCK))}"


def _failed(figure: Figure, side: str) -> str:
    """Of a percentile that stands at a request without an answer."""
    values = figure.values[side]
    times = values.count(math.inf)
    return f"{figure.headline} failed on {NAMES[side]}" + (f" in {times} of {len(values)} rounds" if times < len(values) else "")


def signed(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def warnings(runs: Sequence[Run]) -> list[str]:
    """What keeps the figures from being believed."""
    said, times = [], _whole(runs)
    sides, single = {run.side for run in runs}, max(times.values(), default=1) == 1
    if len(sides) == 2 and rounds(runs) == 1:
        kinds = [("memory", "memory"), ("time", "CPU time"), *([("requests", "the times of requests")] if any(run.answered for run in runs) else [])]
        limits = ", ".join(f"{100 * ONE_RUN[kind]:.0f} % of {name}" for kind, name in kinds)
        which = "One run each" if single else f"One whole run on {min(times, key=times.get)}"
        said.append(f"{which}: differences below about {limits} mean nothing; --rounds 3 finds out what does")
    if (most := max((run.others for run in runs), default=0)) > OTHERS:
        alone = ", so times of a single run say nothing" if single else ""
        said.append(f"Other programs used up to {100 * most:.0f} % of this machine's processors meanwhile{alone}: close them, or do more --rounds")
    for run in runs:
        said += run.warnings
    if any(run.interrupted for run in runs):
        last = [run for run in runs if run.interrupted][-1]
        begin, end = last.window_s
        among = (", too short to be among these figures" if not in_window(last)
                 else ", and is among these figures as far as they do not grow with time" if last in _with_a_level(list(filter(in_window, runs)))
                 else ", and is not among these figures")
        said.append(f"interrupted: the last run, on {last.side}, was measured for {max(end - begin, 0):.1f} s{among}")
    if any(figure.kind and figure.ratio is not None and not figure.alike for figure in figures(runs)):
        said.append("Not all runs did the same work: some failed, were cut short, or ended by themselves when others did not; they are not compared")
    for side in (STOCK, ASHLAR):
        of_side = [run for run in runs if run.side == side]
        if silent := sum(run.collected.silent for run in of_side if run.collected):
            whole = sum(run.collected.processes for run in of_side if run.collected)
            said.append(f"{silent} of {whole} Ruby processes on {side} did not say what their collector did (killed, or deaf to signals): "
                        "time in GC is not shown")
        elif of_side and all(run.collected is None and in_window(run) for run in of_side):
            said.append(f"no Ruby process on {side} said what its collector did (RUBYOPT did not reach it): time in GC is not shown")
        if (unreadable := sum(run.seen.unreadable for run in of_side)):
            said.append(f"the memory of a process on {side} could not be read {unreadable} times, and its RSS was counted; run as its user, or as root")
    return [*dict.fromkeys(said), *_of_requests(runs), *_of_printed(runs)]


def _of_requests(runs: Sequence[Run]) -> list[str]:
    said, statuses = [], {}
    for side in (STOCK, ASHLAR):
        asked = [run.answered for run in runs if run.side == side and run.answered]
        whole, counts = sum(len(a.latencies_s) for a in asked), sum((a.statuses for a in asked), Counter())
        if failed := sum(a.failed for a in asked):
            reasons = sum((a.failures for a in asked), Counter({f"status {s}": count for s, count in counts.items() if s >= 500}))
            why = ", ".join(f"{what}: {count}" for what, count in reasons.items())
            said.append(f"{failed} of {whole} requests failed on {side} ({why}); each counts as slower than all others")
        if counts:
            statuses[side] = counts
        if turned := {s: c for s, c in counts.items() if 300 <= s < 500}:
            hint = "; a redirect to https stops with --header 'X-Forwarded-Proto: https'" if any(s < 400 for s in turned) else ""
            which = ", ".join(f"{c} of {whole} answers had status {s}" for s, c in sorted(turned.items()))
            said.append(f"on {side} {which}: ask for paths that do the application's work{hint}")
    if len(statuses) == 2 and set(statuses[STOCK]) != set(statuses[ASHLAR]):
        said.append("the two sides answered with different statuses: " + "; ".join(f"{side} {', '.join(map(str, sorted(s)))}" for side, s in statuses.items()))
    return said


def _of_printed(runs: Sequence[Run]) -> list[str]:
    printed = {side: {run.printed for run in runs if run.side == side and run.ended} for side in (STOCK, ASHLAR)}
    if all(len(texts) == 1 for texts in printed.values()) and printed[STOCK] != printed[ASHLAR]:
        return ["the command printed other text on Ashlar than on stock: look whether it does the same work (times and random numbers are other ones each time)"]
    return []


# ── Numbers as text ────────────────────────────────────────────────────────

def _seconds(value: float) -> str:
    return amounts.duration(value * 1e9)


def _milliseconds(value: float) -> str:
    return "failed" if math.isinf(value) else f"{value * 1e3:.3g} ms" if value < 1 else f"{value * 1e3:,.0f} ms"
