"""The options of the verbs that measure, and those that several verbs share, each said once."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import typer

from ashlar.errors import BadInput
from ashlar_lab import variants
from ashlar_lab.experiment import command_line
from ashlar_lab.experiment.check import SPACE_METRICS, TIME_METRICS
from ashlar_lab.experiment.model import Experiment, Server, Stop
from ashlar_lab.report import FORMS


def one_of(values):
    """Completion by what an option can be."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def _no_negative(threshold: float) -> float:
    if threshold < 0:
        raise BadInput(f"--threshold {threshold} is negative; give a fraction such as 0.05")
    return threshold


_KNOBS = sorted({f"{name}=" for base in variants.BASES.values() for name in base.settings if name.isidentifier() and len(name) > 1})

Output = Annotated[Optional[Path], typer.Option(help="Reports are OUTPUT.html and so on; beside the store unless named.")]
Form = Annotated[str, typer.Option(autocompletion=one_of(FORMS), help="Which reports to write: html,md,csv,json,svg,png,record.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Threshold = Annotated[float, typer.Option(callback=_no_negative, help="How much worse is still allowed, as a fraction.")]
Metrics = Annotated[Optional[list[str]], typer.Option(help="Metrics to judge; the experiment's time and space unless named.")]


@dataclass(frozen=True)
class Question:
    """What `compare`, `init` and `ci` are told of an experiment."""

    command: Annotated[Optional[list[str]], typer.Argument(help="After --: the command to measure, {placeholders} allowed.")] = None
    variant: Annotated[Optional[list[str]], typer.Option("--variant", "-v", autocompletion=one_of(variants.BASES), help="BASE, BASE:setting=value,..., LABEL=BASE:..., LABEL=command:COMMAND.")] = None
    knob: Annotated[Optional[list[str]], typer.Option("--knob", "-k", autocompletion=one_of(_KNOBS), help="NAME=VALUE,VALUE,...; goes to every variant that understands it. NAME alone takes the values its base suggests.")] = None
    curves: Annotated[bool, typer.Option("--curves", help="Every variant over the knob of its base, where it has one: ruby-stock over growth, ruby-ashlar over space_overhead.")] = False
    program: Annotated[Optional[list[str]], typer.Option("--program", "-p", help="NAME=COMMAND: one more program, beside the command after --.")] = None
    server: Annotated[Optional[str], typer.Option(help="A server's command, with {port}: it is driven at --rate over loopback.")] = None
    rate: Annotated[Optional[float], typer.Option(help="With --server: requests a second, whatever the server does.")] = None
    duration: Annotated[float, typer.Option(help="With --server: seconds that are measured, after a second of warm-up.")] = 10.0
    connections: Annotated[int, typer.Option(help="With --server: connections that are kept open.")] = 32
    path: Annotated[Optional[list[str]], typer.Option("--path", help="With --server: a path to ask for, in turn with the others; / unless given.")] = None
    goal: Annotated[Optional[list[str]], typer.Option("--goal", help="METRIC<=RATIO, or VARIANT:METRIC<=RATIO: the most that a variant's ratio to the baseline may be.")] = None
    baseline: Annotated[Optional[str], typer.Option(help="The variant that is 1.00; the first one unless named.")] = None
    blocks: Annotated[Optional[int], typer.Option(help="Exactly this many blocks, whatever the precision; fewer than 5 give no intervals and no verdicts.")] = None
    precision: Annotated[Optional[float], typer.Option(help="Stop when every ratio is known to ± this fraction, after five blocks in a row; of curves, the mean ratio over their common space.")] = None
    budget: Annotated[Optional[float], typer.Option(help="Stop after this many seconds, at least one block done.")] = None
    turns: Annotated[Optional[float], typer.Option(help="The runs of a program in a block take turns of so many seconds, such as 0.5, instead of running one after another: for machines that others use, too.")] = None
    seed: Annotated[Optional[int], typer.Option(help="Shuffles the order of runs.")] = None
    time: Annotated[str, typer.Option(autocompletion=one_of(TIME_METRICS), help="Time that counts: cpu_s, wall_s or user_s; of servers also p50_ms, p90_ms, p99_ms (2000 requests a block), p999_ms (20000).")] = "cpu_s"
    space: Annotated[str, typer.Option(autocompletion=one_of(SPACE_METRICS), help="Space that counts: peak_mib, mean_mib, final_mib, peak_rss_mib or cgroup_peak_mib.")] = "peak_mib"
    timeout: Annotated[float, typer.Option(help="Seconds after which a run is killed.")] = 600.0
    ignore_output: Annotated[bool, typer.Option("--ignore-output", help="Do not require equal output.")] = False
    ignore_lines: Annotated[Optional[list[str]], typer.Option(help="Leave output lines matching this pattern out of the comparison.")] = None
    name: Annotated[Optional[str], typer.Option(help="What to call the experiment.")] = None

    def described(self) -> Experiment:
        return command_line.build(
            self.variant or [], self.knob or [], self.command or [], name=self.name, baseline=self.baseline,
            stop=Stop().extended(self.blocks, self.precision, self.budget), curves=self.curves, programs=self.program or [], server=self._server(),
            goals=self.goal or [], seed=1 if self.seed is None else self.seed, turns_s=self.turns, time_metric=self.time, space_metric=self.space, timeout_s=self.timeout,
            compare_output=not self.ignore_output, ignore_lines=self.ignore_lines or [])

    def _server(self) -> tuple[str, Server] | None:
        if not self.server:
            if told := next((name for name in ("rate", "path") if getattr(self, name) is not None), None):
                raise BadInput(f"--{told} says how a server is driven; add --server 'COMMAND {{port}}'")
            return None
        if self.rate is None:
            raise BadInput("--server needs --rate: how many requests a second, whatever the server does; for example --rate 200")
        return self.server, Server(0, self.rate, self.duration, paths=tuple(self.path or ("/",)), connections=self.connections)


@dataclass(frozen=True)
class Comparison(Question):
    """What `compare` is told besides."""

    experiment: Annotated[Optional[Path], typer.Option("--experiment", "-e", help="A TOML experiment instead of a command.")] = None
    programs: Annotated[Optional[str], typer.Option(help="With --experiment: only these of its programs, as NAME,NAME,....")] = None
    variants: Annotated[Optional[str], typer.Option(help="With --experiment: only these of its variants, as NAME,NAME,....")] = None
    store: Annotated[Optional[Path], typer.Option(help="A new result file; unless named NAME.ashlar in the current folder, or NAME-2.ashlar and so on after an earlier one.")] = None
    resume: Annotated[Optional[Path], typer.Option(help="Go on with this store; give --blocks for more blocks.")] = None
    output: Output = None
    form: Form = "html,md,json"
    install: Annotated[bool, typer.Option("--install", help="As root: install missing allocators from Debian.")] = False
    on: Annotated[Optional[str], typer.Option(autocompletion=one_of(("local:2", "tls://")), help="Measure on the machines of a Dask cluster: tls://SCHEDULER:8786, or local:N for trying it out.")] = None
    ship: Annotated[Optional[list[str]], typer.Option(help="With --on: a file or folder that travels too, beside those the command names.")] = None
    there: Annotated[Optional[list[str]], typer.Option(help="With --on: a file or folder that every machine has already; its files are checked, not sent.")] = None
    tls_ca_file: Annotated[Optional[str], typer.Option(help="With --on tls://: the authority that the cluster's certificates are of, in PEM form. As Dask's own option.")] = None
    tls_cert: Annotated[Optional[str], typer.Option(help="With --on tls://: the certificate to show.")] = None
    tls_key: Annotated[Optional[str], typer.Option(help="With --on tls://: the key of that certificate.")] = None
    quiet: Quiet = False

    def tls(self) -> dict[str, str]:
        """The files that options name."""
        options = {"--tls-ca-file": self.tls_ca_file, "--tls-cert": self.tls_cert, "--tls-key": self.tls_key}
        return {option: file for option, file in options.items() if file}


@dataclass(frozen=True)
class Judgement(Question):
    """What `ci` is told besides."""

    base: Annotated[Optional[str], typer.Option(help="The git revision to compare with, such as origin/main; measured beside the other one.")] = None
    stored: Annotated[Optional[Path], typer.Option("--baseline", help="Compare with this stored baseline instead; --save wrote it on this machine.")] = None
    head: Annotated[str, typer.Option(help="The git revision that is judged.")] = "HEAD"
    build: Annotated[Optional[str], typer.Option(help="A shell command that builds a revision in its folder.")] = None
    save: Annotated[Optional[Path], typer.Option(help="Store the runs of --head here, as a baseline for later; not with --base.")] = None
    threshold: Threshold = 0.05
    metric: Metrics = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 3 when a figure is undecided.")] = False
    markdown: Annotated[Optional[Path], typer.Option(help="Write the comment here as well; it is printed in any case.")] = None
    store: Annotated[Optional[Path], typer.Option(help="Keep the runs in this result file.")] = None
    quiet: Quiet = False


def asking(kind: type[Question], leave_out: Sequence[str] = ()) -> Callable:
    """Makes a verb of a function whose first parameter is of this kind: its options are the fields of that, but for some, then its own."""
    def parameters(of: Callable) -> list[inspect.Parameter]:
        return [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in inspect.signature(of).parameters.values()]

    def made(function):
        asked, own = [p for p in parameters(kind) if p.name not in leave_out], parameters(function)[1:]

        @functools.wraps(function)
        def verb(**given):
            return function(kind(**{p.name: given.pop(p.name) for p in asked}), **given)

        verb.__signature__ = inspect.Signature([*asked, *own])
        verb.__annotations__ = {p.name: p.annotation for p in (*asked, *own)}
        return verb
    return made
