"""The command line. What it does is four lines: measure, store, fit, report; the rest is reading options."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from ashlar.cli import carried_out
from ashlar.said import say
from ashlar_lab import options
from ashlar_lab.errors import BadInput

app = typer.Typer(add_completion=True, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Compare allocators and collectors so that the answer can be trusted.")


@app.command(no_args_is_help=True)
def compare(
    command: options.Command = None,
    experiment: Annotated[Optional[Path], typer.Option("--experiment", "-e", help="A TOML experiment instead of a command.")] = None,
    variant: options.Variants = None,
    knob: options.Knobs = None,
    curves: options.Curves = False,
    program: options.Programs = None,
    server: options.Server = None,
    rate: options.Rate = None,
    duration: options.Duration = 10.0,
    connections: options.Connections = 32,
    path: options.Paths = None,
    goal: options.Goals = None,
    baseline: options.Baseline = None,
    blocks: options.Blocks = None,
    precision: options.Precision = None,
    budget: options.Budget = None,
    programs: Annotated[Optional[str], typer.Option(help="With --experiment: only these of its programs, as NAME,NAME,....")] = None,
    variants: Annotated[Optional[str], typer.Option(help="With --experiment: only these of its variants, as NAME,NAME,....")] = None,
    seed: options.Seed = None,
    time: options.Time = "cpu_s",
    space: options.Space = "peak_mib",
    timeout: options.Timeout = 600.0,
    ignore_output: options.IgnoreOutput = False,
    ignore_lines: options.IgnoreLines = None,
    name: options.Name = None,
    store: options.Store = None,
    resume: Annotated[Optional[Path], typer.Option(help="Go on with this store; give --blocks for more blocks.")] = None,
    output: options.Output = None,
    form: options.Form = "html,md,json",
    install: Annotated[bool, typer.Option("--install", help="As root: install missing allocators from Debian.")] = False,
    on: options.On = None,
    ship: options.Ship = None,
    there: options.There = None,
    tls_ca_file: options.TlsCaFile = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    quiet: options.Quiet = False,
):
    """Measure variants against each other and write a report.

    \b
    ashlar-lab compare --variant glibc --variant jemalloc -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare -v python=env -k every=3000,5000,9000,16000,28000,50000,90000 -- python3 -c 'import gc; gc.disable(); live = [[i] for i in range(100000)]; [(a := [i] * 50, a.append(a), i % {every} or gc.collect()) and None for i in range(300000)]'
    ashlar-lab compare -v ruby-stock -v ruby-ashlar --curves -- ruby -e 'puts Array.new(400000) { |i| [i.to_s] }.size'
    ashlar-lab compare --experiment examples/three-allocators.toml    # from the lab's folder
    ashlar-lab compare -v ruby-stock -v ruby-ashlar --curves -- ruby -e 'puts Array.new(400000) { |i| [i.to_s] }.size'
    ashlar-lab compare --experiment examples/three-allocators.toml --programs strings --blocks 20 --store strings.ashlar
    ashlar-lab compare -v glibc -v jemalloc --server 'python3 -m http.server {port} --bind 127.0.0.1 --directory /proc/sys' --rate 100 --goal 'p90_ms<=1.1'
    ashlar-lab compare -v glibc -v jemalloc -p 'words=python3 -c "print(len([str(i) for i in range(300000)]))"' -p 'lists=python3 -c "print(len([[i] for i in range(300000)]))"'
    ashlar-lab compare -v glibc -v jemalloc --on local:2 -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare --resume three-allocators.ashlar --blocks 20
    """
    from ashlar_lab.experiment import command_line, toml
    from ashlar_lab.measure import install as installer

    forms = _forms(form)
    if (ship or there) and not on:
        raise BadInput("--ship and --there say what the machines of a cluster get; add --on SCHEDULER")
    if (tls_ca_file or tls_cert or tls_key) and not on:
        raise BadInput("--tls-ca-file, --tls-cert and --tls-key are for talking to a cluster; add --on tls://SCHEDULER:8786")
    if (programs or variants) and not experiment:
        raise BadInput("--programs and --variants choose from an experiment file; add --experiment FILE, or use --variant for a command")
    if install:
        installer.install([command_line.base_of(v) for v in variant or []] + (toml.bases(str(experiment)) if experiment else []))
    if resume:
        if experiment or variant or command or program or server:
            raise BadInput("--resume takes the experiment from the store; leave out --experiment, --variant and the command")
        from ashlar_lab.store import Store

        with Store.open(resume) as opened:
            chosen = extended(opened.experiment(), blocks, precision, budget)
    elif experiment:
        if variant or command or program or server:
            raise BadInput("--experiment describes variants and commands itself; leave out --variant and the command")
        chosen = toml.load(str(experiment), blocks=blocks, precision=precision, budget_s=budget, seed=seed, programs=_names(programs), variants=_names(variants))
    else:
        chosen = _from_command_line(locals())
    before, fresh = _stores(chosen.name)
    store_path = resume or store or fresh
    cluster = None
    if on:
        from ashlar_lab.measure.cluster.engine import Tls

        cluster = {"address": on, "ships": ship or [], "there": there or [], "tls": Tls(tls_ca_file, tls_cert, tls_key)}
    status = run(chosen, store_path, output or store_path.with_suffix(""), forms, resume=bool(resume), quiet=quiet, cluster=cluster)
    if before and store_path == fresh and fresh.exists() and not quiet:
        say(f"{before} is as it was; these runs are in {fresh}. To compare: ashlar-lab diff {shlex.join([str(before), str(fresh)])}", error=True)
    raise typer.Exit(status)


def _stores(name: str) -> tuple[Path | None, Path]:
    """The latest store that an experiment of this name has here, and the one that it gets next. The same line again measures anew: the program may
    have changed meanwhile, and runs of two programs are never mixed unless --resume says so."""
    before, fresh, number = None, Path(f"{_file_name(name)}.ashlar"), 1
    while fresh.exists():
        number += 1
        before, fresh = fresh, Path(f"{_file_name(name)}-{number}.ashlar")
    return before, fresh


def _from_command_line(given: dict):
    """The experiment that the options of a verb describe."""
    from ashlar_lab.experiment import Stop, command_line

    blocks, server, served = given["blocks"], None, [n for n, usual in (("rate", None), ("path", None)) if given[n] != usual]
    if given["server"]:
        if given["rate"] is None:
            raise BadInput("--server needs --rate: how many requests a second, whatever the server does; for example --rate 200")
        server = command_line.Serve(given["server"], given["rate"], given["duration"], connections=given["connections"], paths=tuple(given["path"] or ("/",)))
    elif served:
        raise BadInput(f"--{served[0]} says how a server is driven; add --server 'COMMAND {{port}}'")
    stop = Stop(10 if blocks is None else blocks, 30 if blocks is None else blocks, 0.02 if given["precision"] is None else given["precision"], given["budget"])
    return command_line.build(given["variant"] or [], given["knob"] or [], given["command"] or [], name=given["name"], baseline=given["baseline"], stop=stop,
                              curves=given["curves"], programs=given["program"] or [], server=server, goals=given["goal"] or [],
                              seed=1 if given["seed"] is None else given["seed"], time_metric=given["time"], space_metric=given["space"],
                              timeout_s=given["timeout"], compare_output=not given["ignore_output"], ignore_lines=given["ignore_lines"] or [])


@app.command(no_args_is_help=True)
def init(
    command: options.Command = None,
    variant: options.Variants = None,
    knob: options.Knobs = None,
    curves: options.Curves = False,
    program: options.Programs = None,
    server: options.Server = None,
    rate: options.Rate = None,
    duration: options.Duration = 10.0,
    connections: options.Connections = 32,
    path: options.Paths = None,
    goal: options.Goals = None,
    baseline: options.Baseline = None,
    blocks: options.Blocks = None,
    precision: options.Precision = None,
    budget: options.Budget = None,
    seed: options.Seed = None,
    time: options.Time = "cpu_s",
    space: options.Space = "peak_mib",
    timeout: options.Timeout = 600.0,
    ignore_output: options.IgnoreOutput = False,
    ignore_lines: options.IgnoreLines = None,
    name: options.Name = None,
    file: Annotated[Optional[Path], typer.Option("--file", "-f", help="The file to write; NAME.toml unless named, - prints it.")] = None,
):
    """Write the TOML experiment of a command line, to be edited and kept; nothing is measured.

    \b
    ashlar-lab init -v glibc -v jemalloc --goal 'peak_mib<=0.9' --name strings -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare --experiment strings.toml
    """
    from ashlar_lab.experiment import write_toml

    chosen = _from_command_line(locals())
    target = file or Path(f"{_file_name(chosen.name)}.toml")
    text = write_toml.text(chosen, Path.cwd() if str(target) == "-" else target.absolute().parent)
    if str(target) == "-":
        say(text, end="")
        return
    try:
        with target.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        if target.is_file() and target.read_bytes() != text.encode():
            raise BadInput(f"{target} exists and says something else; name another with --file, or - to print") from None
    except OSError as error:
        raise BadInput(f"cannot write {target}: {error.strerror}; name a writable place with --file") from None
    say(f"wrote {target}; measure it with: ashlar-lab compare --experiment {shlex.quote(str(target))}")


def run(experiment, store_path: Path, output: Path, forms: list[str], resume: bool, quiet: bool, cluster: dict | None = None) -> int:
    """Measure, store, fit, report. The exit status is 0, 130 when the measurement was interrupted, or 2 when it could not go on. `cluster` has
    what `measure_on` takes beside these."""
    from ashlar_lab.errors import Unfinished
    from ashlar_lab.measure.session import measure
    from ashlar_lab.report.write import check_can_write
    from ashlar_lab.store import Store

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
    from ashlar_lab.fit.analysis import analyse
    from ashlar_lab.report import page, terminal
    from ashlar_lab.report.write import check_can_write, write
    from ashlar_lab.store.database import read_all

    check_can_write(output, forms)
    experiment, machine, runs = read_all(stores)
    analysis = analyse(experiment, runs)
    content = page.build(experiment, machine, runs, analysis)
    written = write(content, output, forms)
    if not quiet:
        terminal.show(content)
        say("\n" + "\n".join(f"wrote {path}" for path in written if path.suffix in (".html", ".md", ".json", ".csv")))


@app.command(no_args_is_help=True)
def report(
    stores: Annotated[list[Path], typer.Argument(help="One store, or several of one experiment and machine.")],
    output: Annotated[Optional[Path], typer.Option(help="Reports are OUTPUT.html and so on; beside the first store unless named.")] = None,
    form: options.Form = "html,md,json",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write only; print nothing.")] = False,
):
    """Rebuild the report from a store.

    \b
    ashlar-lab report three-allocators.ashlar --form html,md,csv,json,svg,png
    """
    report_files(stores, output or stores[0].with_suffix(""), _forms(form), quiet)


@app.command(no_args_is_help=True)
def diff(
    first: Annotated[Path, typer.Argument(help="The store to compare with: the older one.")],
    second: Annotated[Path, typer.Argument(help="The store that is judged: the newer one.")],
    threshold: Annotated[float, typer.Option(help="How much worse is still allowed, as a fraction.")] = 0.05,
    metric: Annotated[Optional[list[str]], typer.Option(help="Metrics to judge; the experiment's time and space unless named.")] = None,
    relative: Annotated[bool, typer.Option("--relative", help="Compare ratios to the baseline variant, not absolute values.")] = False,
):
    """Compare two stores of one machine, for CI.

    Exit status 1 when some interval lies wholly beyond the threshold on the worse side, and its value by more than the baseline
    differs from itself; 0 otherwise, 2 for bad input.

    \b
    ashlar-lab diff main.ashlar branch.ashlar --threshold 0.05
    """
    from ashlar_lab.fit.difference import WORSE, differences
    from ashlar_lab.report import difference
    from ashlar_lab.store.database import read_all, refuse_unlike

    if threshold < 0:
        raise BadInput(f"--threshold {threshold} is negative; give a fraction such as 0.05")
    experiment, machine, runs = read_all([first])
    _, machine_second, runs_second = read_all([second])
    refuse_unlike(machine, machine_second, f"cannot compare {second} with {first}")
    found = differences(experiment, runs, runs_second, metric, threshold, relative)
    if not found:
        raise BadInput(f"{first} and {second} have no arm and metric in common; measure the same programs and variants")
    say(difference.text(found, threshold, str(first), str(second)))
    raise typer.Exit(1 if any(d.judged == WORSE for d in found) else 0)


@app.command(no_args_is_help=True, short_help="Compare two git revisions of a project, as continuous integration does.")
def ci(
    command: options.Command = None,
    base: Annotated[Optional[str], typer.Option(help="The git revision to compare with, such as origin/main; measured beside the other one.")] = None,
    against: Annotated[Optional[Path], typer.Option("--baseline", help="Compare with this stored baseline instead; --save wrote it on this machine.")] = None,
    head: Annotated[str, typer.Option(help="The git revision that is judged.")] = "HEAD",
    build: Annotated[Optional[str], typer.Option(help="A shell command that builds a revision in its folder.")] = None,
    save: Annotated[Optional[Path], typer.Option(help="Store the runs of --head here, as a baseline for later.")] = None,
    threshold: Annotated[float, typer.Option(help="How much worse is still allowed, as a fraction.")] = 0.05,
    metric: Annotated[Optional[list[str]], typer.Option(help="Metrics to judge; the experiment's time and space unless named.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 3 when a figure is undecided.")] = False,
    markdown: Annotated[Optional[Path], typer.Option(help="Write the comment here as well; it is printed in any case.")] = None,
    program: options.Programs = None,
    server: options.Server = None,
    rate: options.Rate = None,
    duration: options.Duration = 10.0,
    connections: options.Connections = 32,
    path: options.Paths = None,
    blocks: options.Blocks = None,
    precision: options.Precision = None,
    budget: options.Budget = None,
    seed: options.Seed = None,
    time: options.Time = "cpu_s",
    space: options.Space = "peak_mib",
    timeout: options.Timeout = 600.0,
    ignore_output: options.IgnoreOutput = False,
    ignore_lines: options.IgnoreLines = None,
    name: options.Name = None,
    store: Annotated[Optional[Path], typer.Option(help="Keep the runs in this result file.")] = None,
    quiet: options.Quiet = False,
):
    """Compare two git revisions of the project in this folder, and print a comment for the change.

    Both are checked out and built in folders of their own and measured in turn, so that a slow moment hits both alike. A stored baseline
    saves measuring the older one, on the same machine, at the price of wider intervals.

    Exit status 0 when nothing is shown to be worse, 1 when some interval lies wholly beyond the threshold on the worse side, and its value
    by more than the baseline differs from itself, or a run of --head fails, 2 for bad input, 3 with --strict when a figure is undecided.

    \b
    ashlar-lab ci --base origin/main --build 'make -j2' -- ./program input
    ashlar-lab ci --save main.ashlar --build make -- ./program input        # on the main branch
    ashlar-lab ci --baseline main.ashlar --build make -- ./program input    # on a change, on the same machine
    """
    from ashlar_lab import ci as judging

    given = locals()
    experiment = _from_command_line({**given, "variant": ["head=env"], "knob": None, "curves": False, "baseline": None, "goal": None})
    raise typer.Exit(judging.judge(experiment, base=base, stored=against, head=head, build=build, save=save, threshold=threshold, metrics=metric,
                                   strict=strict, comment=markdown, store_path=store, quiet=quiet))


@app.command(short_help="Measure what being measured costs a program here.")
def overhead(
    blocks: Annotated[int, typer.Option(help="How many blocks; each takes about five seconds.")] = 40,
    tree: Annotated[bool, typer.Option("--tree", help="Give the program a child: of a tree PSS is read more often.")] = False,
    sample_hz: Annotated[float, typer.Option(help="How often RSS is read a second.")] = 50.0,
    duty: Annotated[float, typer.Option(help="The share of one core that each kind of sampling may take.")] = 0.004,
):
    """Measure what the lab costs the program it measures: one steady program, watched and not watched in turn.

    \b
    ashlar-lab overhead
    ashlar-lab overhead --blocks 10 --tree --sample-hz 1000 --duty 1    # a sampler that costs too much is found
    """
    from ashlar_lab.fit.trimmed import LEAST_BLOCKS
    from ashlar_lab.measure.overhead import measure as measure_overhead
    from ashlar_lab.report import overhead as overhead_report

    if blocks < LEAST_BLOCKS:
        raise BadInput(f"--blocks {blocks} gives no interval; {LEAST_BLOCKS} or more do, 20 a narrow one")
    if not 0 < sample_hz <= 1000:
        raise BadInput(f"--sample-hz {sample_hz:g} is out of reach; give 20 to 50, 1000 at most")
    if not 0.001 <= duty <= 1:
        raise BadInput(f"--duty {duty:g} is no share of a core; give a fraction such as 0.004, 0.001 at least")
    found = measure_overhead(blocks, sample_hz=sample_hz, duty=duty, tree=tree,
                             on_block=lambda done: print(f"\rblock {done} of {blocks}", end="", file=sys.stderr, flush=True) if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    say(overhead_report.text(found))


@app.command(short_help="List the built-in variants and their settings.")
def variants():
    """List the built-in variants, their settings, and whether they are installed."""
    from ashlar_lab import variants as known

    for base in known.BASES.values():
        where = ""
        if base.files:
            found = known.library_file(base)
            where = f"  [{found}]" if found else f"  [not installed: apt-get install {base.package}]"
        say(f"{base.name}: {base.summary}{where}")
        for setting, meaning in base.settings.items():
            say(f"    {setting:28} {meaning}")


def extended(experiment, blocks: int | None, precision: float | None, budget: float | None):
    """The same experiment with another stopping rule."""
    import dataclasses

    from ashlar_lab.experiment.check import checked

    stop = experiment.stop
    stop = dataclasses.replace(stop, blocks_min=stop.blocks_min if blocks is None else blocks, blocks_max=stop.blocks_max if blocks is None else blocks,
                               precision=stop.precision if precision is None else precision, budget_s=budget if budget is not None else stop.budget_s)
    return checked(dataclasses.replace(experiment, stop=stop), "--resume")


def _forms(text: str) -> list[str]:
    from ashlar_lab.report.write import FORMS

    forms = [f.strip() for f in text.split(",") if f.strip()]
    for form in forms:
        if form not in FORMS:
            raise BadInput(f"--form has {form!r}; give some of {','.join(FORMS)}")
    return forms


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "experiment"


def main() -> None:
    """Run the command line; BadInput and wrong usage become one line and exit status 2."""
    carried_out("ashlar-lab", _run)


def _run() -> int:
    try:
        return app(standalone_mode=False)
    except Exception as error:
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        if not hasattr(error, "format_message"):  # what typer calls wrong usage has its own classes from version to version
            raise
        said = error.format_message()
        if said.startswith("Usage:"):  # nothing was asked for at all: the whole help is the answer
            say(said)
            return 2
        verb = getattr(getattr(error, "ctx", None), "command_path", "ashlar-lab")
        raise BadInput(f"{said.rstrip('.')}; {verb} --help lists what there is") from None


if __name__ == "__main__":
    main()
