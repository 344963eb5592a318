"""The report as content: what is said, shown and listed, before it takes a form."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ashlar.tables import Table
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import Analysis
from ashlar_lab.report import by_program, charts, contrasts, fleet, words
from ashlar_lab.report.charts import Figure
from ashlar_lab.report.tables import tables
from ashlar_lab.report.units import counted
from ashlar_lab.store.run import Run
from ashlar_lab.store.table import Table as RunTable


@dataclass(frozen=True)
class Page:
    """All parts of a report in reading order. `table` has every run by column, `runs` those that are listed."""

    title: str
    note: str
    facts: str
    verdict: tuple[str, ...]
    warnings: tuple[str, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    runs: tuple[Run, ...]
    table: RunTable
    machine: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    experiment: Experiment
    analysis: Analysis

    def headline(self) -> list[Table]:
        """The tables that the experiment asks to be shown first, and alone where there is little room."""
        return [t for t in self.tables if t.asked_by in self.experiment.headline]


def build(experiment: Experiment, machine: dict, runs: Sequence[Run], analysis: Analysis) -> Page:
    machines = machine.get("machines", {})
    on = f" on {len(analysis.machines.machines)} machines" if analysis.machines else ""
    turns = f" in turns of {experiment.turns_s:g} s" if experiment.turns_s else ""
    facts = (f"{counted(len(experiment.programs), 'program')}, {counted(len(experiment.variants), 'variant')}, {counted(analysis.blocks, 'block')}{on}, "
             f"{analysis.runs} runs{turns}, seed {experiment.seed}, {machine.get('time', 'time unknown')}")
    found = [contrasts.table(experiment, analysis), by_program.side_by_side(experiment, analysis), *by_program.tables(experiment, runs, analysis),
             *tables(experiment, analysis), *(fleet.tables(experiment, analysis.machines, machines) if analysis.machines else ())]
    asked = experiment.headline
    sampling = {"the lab's own sampling": words.sampling_cost(runs), "other processes": words.other_processes(runs)}
    return Page(
        title=experiment.title or experiment.name,
        note=experiment.note,
        facts=facts,
        verdict=tuple(words.verdict(experiment, analysis)),
        warnings=(*words.warnings(experiment, runs, analysis), *fleet.shared_kernels(machines)),
        figures=tuple(charts.figures(experiment, runs, analysis)),
        tables=tuple(sorted(filter(None, found), key=lambda t: asked.index(t.asked_by) if t.asked_by in asked else len(asked))),
        runs=tuple(runs),
        table=RunTable.of(runs),
        machine=(*_machine_rows(machine), *((name, text) for name, text in sampling.items() if text), *(("not measured", m) for m in words.missing(runs))),
        commands=tuple(_commands(experiment, runs)),
        experiment=experiment,
        analysis=analysis,
    )


def _machine_rows(machine: dict):
    for key, value in machine.items():
        if key not in ("contenders", "machines", "kernel_instance") and value is not None:
            yield key.replace("_", " "), str(value)
    for name, found in machine.get("contenders", {}).items():
        told = [e["version"] or (e["path"] or "").rpartition("/")[2] for e in found["executables"].values()]
        if found.get("package") or found.get("library"):
            told.append(found.get("package") or found["library"].rpartition("/")[2])
        yield f"variant {name}", "; ".join(dict.fromkeys(t for t in told if t)) or "–"


def _commands(experiment: Experiment, runs: Sequence[Run]):
    """The command line of each arm, environment included, as one could type it."""
    first: dict[tuple, Run] = {}
    for run in runs:
        first.setdefault(run.arm[:3], run)
    for run in first.values():
        environment = " ".join(f"{k}={shlex.quote(v)}" for k, v in run.environment.items())
        label = f"{run.program} · {run.variant}" + (f" · {experiment.variant(run.variant).knob}={run.value}" if run.value is not None else "")
        yield label, f"{environment} {shlex.join(run.command)}".strip()
