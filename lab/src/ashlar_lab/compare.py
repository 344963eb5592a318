"""What `ashlar-lab compare` does: measure, store, fit, report."""

import dataclasses
import shlex
from pathlib import Path

from ashlar.errors import BadInput
from ashlar.files import file_name
from ashlar.said import say
from ashlar_lab.errors import Unfinished
from ashlar_lab.experiment import command_line, toml
from ashlar_lab.experiment.check import checked
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.measure import machine as this_machine
from ashlar_lab.measure.session import measure
from ashlar_lab.options import Question
from ashlar_lab.report import page, terminal
from ashlar_lab.report.write import check_can_write, write
from ashlar_lab.store.database import Store, read_all


def cluster_of(on: str | None, ship, there, *certificate: str | None) -> dict | None:
    """What `measure_on` takes beside the experiment; `certificate` is the authority, the certificate and its key."""
    if not on:
        if ship or there:
            raise BadInput("--ship and --there say what the machines of a cluster get; add --on SCHEDULER")
        if any(certificate):
            raise BadInput("--tls-ca-file, --tls-cert and --tls-key are for talking to a cluster; add --on tls://SCHEDULER:8786")
        return None
    from ashlar_lab.measure.cluster.engine import Tls

    return {"address": on, "ships": ship or [], "there": there or [], "tls": Tls(*certificate)}


def compare(question: Question, file: Path | None, programs, variants, store: Path | None, resume: Path | None, output: Path | None, forms: list[str],
            install: bool, cluster: dict | None, quiet: bool) -> int:
    """The exit status: 0, 130 when the measurement was interrupted, or 2 when it could not go on."""
    described = question.variant or question.command or question.program or question.server
    if (programs or variants) and not file:
        raise BadInput("--programs and --variants choose from an experiment file; add --experiment FILE, or use --variant for a command")
    if resume and (file or described):
        raise BadInput("--resume takes the experiment from the store; leave out --experiment, --variant and the command")
    if file and described:
        raise BadInput("--experiment describes variants and commands itself; leave out --variant and the command")
    if install:
        this_machine.install([command_line.base_of(v) for v in question.variant or []] + (toml.bases(str(file)) if file else []))
    if resume:
        with Store.open(resume) as opened:
            found = opened.experiment()
        chosen = checked(dataclasses.replace(found, stop=found.stop.extended(question.blocks, question.precision, question.budget)), "--resume")
    elif file:
        chosen = toml.load(str(file), blocks=question.blocks, precision=question.precision, budget_s=question.budget, seed=question.seed, programs=programs, variants=variants)
    else:
        chosen = question.experiment()
    before, fresh = _stores(chosen.name)
    store_path = resume or store or fresh
    status = run(chosen, store_path, output or store_path.with_suffix(""), forms, resume=bool(resume), quiet=quiet, cluster=cluster)
    if before and store_path == fresh and fresh.exists() and not quiet:
        say(f"{before} is as it was; these runs are in {fresh}. To compare: ashlar-lab diff {shlex.join([str(before), str(fresh)])}", error=True)
    return status


def _stores(name: str) -> tuple[Path | None, Path]:
    """The latest store that an experiment of this name has here, and the one that it gets next. The same line again measures anew: the program may
    have changed meanwhile, and runs of two programs are never mixed unless --resume says so."""
    before, fresh, number = None, Path(f"{file_name(name, 'experiment')}.ashlar"), 1
    while fresh.exists():
        number += 1
        before, fresh = fresh, Path(f"{file_name(name, 'experiment')}-{number}.ashlar")
    return before, fresh


def run(experiment, store_path: Path, output: Path, forms: list[str], resume: bool, quiet: bool, cluster: dict | None = None) -> int:
    """Measure, store, fit, report. The exit status is 0, 130 when the measurement was interrupted, or 2 when it could not go on. `cluster` has
    what `measure_on` takes beside these."""
    if not resume:
        Store.check_can_create(store_path)
    check_can_write(output, forms)
    status, why = 0, ""
    try:
        if cluster:
            from ashlar_lab.measure.cluster.session import measure_on

            finished = measure_on(experiment=experiment, store_path=store_path, resume=resume, quiet=quiet, **cluster)
        else:
            finished = measure(experiment, store_path, resume=resume, quiet=quiet)
        if not finished:
            status, why = 130, "interrupted"
    except Unfinished as error:
        status, why = 2, f"ashlar-lab: {error}"
    except KeyboardInterrupt:
        say("ashlar-lab: interrupted before the first block; nothing was written", error=True)
        return 130
    report_files([store_path], output, forms, quiet)
    if why:
        more = ["--resume", str(store_path), *(["--on", cluster["address"], *cluster["tls"].options()] if cluster else [])]
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
