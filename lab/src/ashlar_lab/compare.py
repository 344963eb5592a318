"""What `ashlar-lab compare` does: measure, store, fit, report."""

import dataclasses
import itertools
import shlex
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import file_name
from ashlar.forms import chosen
from ashlar.said import say
from ashlar_lab.errors import Unfinished
from ashlar_lab.experiment import command_line, toml
from ashlar_lab.experiment.check import checked
from ashlar_lab.experiment.model import Experiment
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.measure import machine as this_machine
from ashlar_lab.measure.session import measure
from ashlar_lab.options import Comparison
from ashlar_lab.report import FORMS, page, terminal
from ashlar_lab.report.write import check_can_write, write
from ashlar_lab.store.database import Store, read_all


def compare(asked: Comparison) -> int:
    """The exit status: 0, 130 when the measurement was interrupted, or 2 when it could not go on."""
    described = asked.variant or asked.command or asked.program or asked.server
    file = str(asked.experiment) if asked.experiment else ""
    if not asked.on and (asked.ship or asked.there):
        raise BadInput("--ship and --there say what the machines of a cluster get; add --on SCHEDULER")
    if not asked.on and asked.tls():
        raise BadInput("--tls-ca-file, --tls-cert and --tls-key are for talking to a cluster; add --on tls://SCHEDULER:8786")
    forms = chosen(asked.form, FORMS)
    if (asked.programs or asked.variants) and not file:
        raise BadInput("--programs and --variants choose from an experiment file; add --experiment FILE, or use --variant for a command")
    if asked.resume and (file or described):
        raise BadInput("--resume takes the experiment from the store; leave out --experiment, --variant and the command")
    if asked.resume and asked.turns is not None:
        raise BadInput("--turns says how runs are made, which a store keeps to; leave it out")
    if file and described:
        raise BadInput("--experiment describes variants and commands itself; leave out --variant and the command")
    if asked.install:
        this_machine.install([command_line.base_of(v) for v in asked.variant or []] + (toml.bases(file) if file else []))
    if asked.resume:
        with Store.open(asked.resume) as opened:
            found = opened.experiment()
        experiment = checked(dataclasses.replace(found, stop=found.stop.extended(asked.blocks, asked.precision, asked.budget)), "--resume")
    elif file:
        programs, variants = ([name.strip() for name in names.split(",") if name.strip()] if names else None for names in (asked.programs, asked.variants))
        experiment = toml.load(file, blocks=asked.blocks, precision=asked.precision, budget_s=asked.budget, seed=asked.seed, turns_s=asked.turns, programs=programs, variants=variants)
    else:
        experiment = asked.described()
    before, fresh = _stores(experiment.name)
    store = asked.resume or asked.store or fresh
    status = _run(asked, experiment, store, asked.output or store.with_suffix(""), forms)
    if before and store == fresh and fresh.exists() and not asked.quiet:
        to_compare = f" To compare: ashlar-lab diff {shlex.join([str(before), str(fresh)])}" if _holds(before, experiment) else ""
        say(f"{before} is as it was; these runs are in {fresh}.{to_compare}", error=True)
    return status


def _stores(name: str) -> tuple[Path | None, Path]:
    """The latest store that an experiment of this name has here, and the one that it gets next. The same line again measures anew: the program may
    have changed meanwhile, and runs of two programs are never mixed unless --resume says so."""
    before, fresh, number = None, Path(f"{file_name(name, 'experiment')}.ashlar"), 1
    while fresh.exists():
        number += 1
        before, fresh = fresh, Path(f"{file_name(name, 'experiment')}-{number}.ashlar")
    return before, fresh


def _holds(store: Path, experiment: Experiment) -> bool:
    """Whether a store has runs of this experiment."""
    try:
        with Store.open(store) as opened:
            return opened.experiment().identity() == experiment.identity()
    except BadInput:
        return False


def _run(asked: Comparison, experiment: Experiment, store: Path, output: Path, forms: list[str]) -> int:
    """Measure, store, fit, report."""
    if not asked.resume:
        Store.check_can_create(store)
    check_can_write(output, forms)
    status, why = 0, ""
    try:
        if asked.on:
            try:
                from ashlar_lab.measure.cluster.session import measure_on
            except ImportError:
                raise BadInput("--on needs Dask; pip install 'ashlar-lab[cluster]'") from None
            finished = measure_on(asked.on, experiment, store, bool(asked.resume), asked.quiet, asked.ship or (), asked.there or (), asked.tls())
        else:
            finished = measure(experiment, store, bool(asked.resume), asked.quiet)
        if not finished:
            status, why = 130, "interrupted"
    except Unfinished as error:
        status, why = 2, f"ashlar-lab: {error}"
    except KeyboardInterrupt:
        say("ashlar-lab: interrupted before the first block; nothing was written", error=True)
        return 130
    report_files([store], output, forms, asked.quiet)
    if why:
        sent = [("--ship", path) for path in asked.ship or ()] + [("--there", path) for path in asked.there or ()]
        more = ["--resume", str(store), *(["--on", asked.on, *itertools.chain(*asked.tls().items(), *sent)] if asked.on else [])]
        say(f"{why}; what was measured is kept. Go on with: ashlar-lab compare {shlex.join(more)}", error=True)
    return status


def report_files(stores: list[Path], output: Path, forms: list[str], quiet: bool) -> None:
    """The other three steps: read the store, fit, report."""
    check_can_write(output, forms)
    experiment, machine, runs = read_all(stores)
    analysis = analyse(experiment, runs)
    content = page.build(experiment, machine, runs, analysis)
    written = write(content, output, forms)
    if not quiet:
        terminal.show(content)
        say("\n" + "\n".join(f"wrote {path}" for path in written if path.suffix in (".html", ".md", ".json", ".csv")))
