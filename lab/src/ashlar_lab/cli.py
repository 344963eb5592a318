"""The command line. What it does is four lines: measure, store, fit, report; the rest is reading options."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from ashlar_lab import options
from ashlar_lab.errors import BadInput
from ashlar_lab.said import one_line, say

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Compare allocators and collectors so that the answer can be trusted, and see into the heap of a Ruby program.")


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
    ashlar compare --variant glibc --variant jemalloc -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar compare -v python=env -k every=3000,5000,9000,16000,28000,50000,90000 -- python3 -c 'import gc; gc.disable(); live = [[i] for i in range(100000)]; [(a := [i] * 50, a.append(a), i % {every} or gc.collect()) and None for i in range(300000)]'
    ashlar compare -v ruby-stock -v ruby-ashlar --curves -- ruby -e 'puts Array.new(400000) { |i| [i.to_s] }.size'
    ashlar compare --experiment examples/three-allocators.toml    # from the lab's folder
    ashlar compare -v ruby-stock -v ruby-ashlar --curves -- ruby -e 'puts Array.new(400000) { |i| [i.to_s] }.size'
    ashlar compare --experiment examples/three-allocators.toml --programs strings --blocks 20 --store strings.ashlar
    ashlar compare -v glibc -v jemalloc --server 'python3 -m http.server {port} --bind 127.0.0.1 --directory /proc/sys' --rate 100 --goal 'p90_ms<=1.1'
    ashlar compare -v glibc -v jemalloc -p 'words=python3 -c "print(len([str(i) for i in range(300000)]))"' -p 'lists=python3 -c "print(len([[i] for i in range(300000)]))"'
    ashlar compare -v glibc -v jemalloc --on local:2 -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar compare --resume three-allocators.ashlar --blocks 20
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
        say(f"{before} is as it was; these runs are in {fresh}. To compare: ashlar diff {shlex.join([str(before), str(fresh)])}", error=True)
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
    ashlar init -v glibc -v jemalloc --goal 'peak_mib<=0.9' --name strings -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar compare --experiment strings.toml
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
    say(f"wrote {target}; measure it with: ashlar compare --experiment {shlex.quote(str(target))}")


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
        status, why = 2, f"ashlar: {error}"
    except KeyboardInterrupt:
        say("ashlar: interrupted before the first block; nothing was written", error=True)
        return 130
    report_files([store_path], output, forms, quiet)
    if why:
        more = ["--resume", str(store_path), *(["--on", cluster["address"], *cluster["tls"].options()] if cluster else [])]
        say(f"{why}; what was measured is kept. Go on with: ashlar compare {shlex.join(more)}", error=True)
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
    form: Annotated[str, typer.Option(help="Which reports to write: html,md,csv,json,svg,png,record.")] = "html,md,json",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write only; print nothing.")] = False,
):
    """Rebuild the report from a store.

    \b
    ashlar report three-allocators.ashlar --form html,md,csv,json,svg,png
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
    ashlar diff main.ashlar branch.ashlar --threshold 0.05
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
    ashlar ci --base origin/main --build 'make -j2' -- ./program input
    ashlar ci --save main.ashlar --build make -- ./program input        # on the main branch
    ashlar ci --baseline main.ashlar --build make -- ./program input    # on a change, on the same machine
    """
    from ashlar_lab import ci as judging

    given = locals()
    experiment = _from_command_line({**given, "variant": ["head=env"], "knob": None, "curves": False, "baseline": None, "goal": None})
    raise typer.Exit(judging.judge(experiment, base=base, stored=against, head=head, build=build, save=save, threshold=threshold, metrics=metric,
                                   strict=strict, comment=markdown, store_path=store, quiet=quiet))


@app.command(short_help="Print a completion script for bash or zsh.")
def completion(shell: Annotated[str, typer.Argument(help="bash or zsh.")]):
    """Print a completion script.

    \b
    eval "$(ashlar completion bash)"    # in ~/.bashrc
    eval "$(ashlar completion zsh)"     # in ~/.zshrc, after compinit
    """
    from ashlar_lab import variants as known
    from ashlar_lab.experiment.check import SPACE_METRICS, TIME_METRICS
    from ashlar_lab.heap.command import TOP_FORMS
    from ashlar_lab.heap.write import FORMS as HEAP_FORMS
    from ashlar_lab.report import completion as made
    from ashlar_lab.report.write import FORMS
    from ashlar_lab.shared.command import FORMS as SHARED_FORMS

    if shell not in made.SHELLS:
        raise BadInput(f"there is no completion for {shell!r}; give one of {', '.join(made.SHELLS)}")
    values = {"--variant": tuple(known.BASES), "--form": FORMS, "--time": TIME_METRICS, "--space": SPACE_METRICS, "--on": ("local:2", "tls://"),
              "--knob": tuple(sorted({f"{k}=" for b in known.BASES.values() for k in b.settings if k.isidentifier() and len(k) > 1}))}
    forms, verbs = {"heap": HEAP_FORMS, "top": TOP_FORMS, "shared": SHARED_FORMS}, {}
    for verb, told in sorted(typer.main.get_command(app).commands.items()):
        found = [made.Option(tuple(p.opts), p.help or "", not p.is_flag, next((forms.get(verb, values[n]) if n == "--form" else values[n] for n in p.opts if n in values), ()))
                 for p in told.params if p.param_type_name == "option"]
        verbs[verb] = (told.get_short_help_str(80), [*found, made.Option(("--help",), "say what there is", False)])
    say(made.script(shell, verbs), end="")


@app.command(no_args_is_help=True, short_help="Memory of a command's process tree at its exit and its peak.")
def mem(
    command: Annotated[list[str], typer.Argument(help="After --: the command to look at.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON to standard output instead of a table to standard error.")] = False,
):
    """Memory of a command's process tree at its exit and at its peak, from smaps. Ends with the command's exit status.

    \b
    ashlar mem -- python3 -c 'x = list(range(1000000))'
    """
    from ashlar_lab.measure.memory import measure as measure_memory
    from ashlar_lab.report import memory

    found = measure_memory(command)
    if json:
        say(memory.as_json(found))
    else:
        say(memory.text(found), error=True)
    raise typer.Exit(found.status)


@app.command(no_args_is_help=True, short_help="What the start of a Ruby program costs, file by file.")
def boot(
    command: Annotated[list[str], typer.Argument(help="After --: the command that starts Ruby.")],
    top: Annotated[int, typer.Option(min=1, help="How many files and libraries to list.")] = 15,
    by: Annotated[str, typer.Option(help="What files are ranked by: own, total, objects or collecting.")] = "own",
    json: Annotated[bool, typer.Option("--json", help="Print JSON to standard output instead of tables to standard error.")] = False,
):
    """Time, objects and the collector's share while a Ruby program loads its code. Works on any collector, with any command that
    starts Ruby 3.1 or newer. What -r on its command line loads is not counted file by file. A start ends with the process, or when it calls Process.warmup. Ends with the command's exit status.

    \b
    ashlar boot -- ruby -rjson -e 'puts JSON.generate([1])'
    ashlar boot --by objects --top 30 -- bin/rails runner 'Rails.application.eager_load!'
    """
    from ashlar_lab.boot import report as tables
    from ashlar_lab.boot.measure import measure as measure_boot

    if by not in tables.ORDERS:
        raise BadInput(f"--by {by}: {', '.join(tables.ORDERS)} is wanted")
    boots, status = measure_boot(command)
    if json:
        say(tables.as_json(boots))
    else:
        for found in boots:
            tables.show(found, top=top, by=by)
    raise typer.Exit(status)


@app.command(no_args_is_help=True, short_help="Who keeps what in a dump of a Ruby heap.")
def retained(
    file: Annotated[str, typer.Argument(help="What GC.config(dump: \"file\") or ObjectSpace.dump_all wrote, plain or .gz; - is standard input.")],
    of_class: Annotated[Optional[list[str]], typer.Option("--class", help="What the objects of this class keep; may be repeated.")] = None,
    why: Annotated[Optional[list[str]], typer.Option("--why", help="Why the objects of a class, or the one at 0xADDRESS, are alive; may be repeated.")] = None,
    map_file: Annotated[Optional[Path], typer.Option("--map", help="Draw a map of the heap: FILE.svg or FILE.html.")] = None,
    form: Annotated[str, typer.Option(help="Reports to write beside the dump: html,md,json.")] = "",
    output: Annotated[Optional[Path], typer.Option(help="Reports are OUTPUT.html and so on; beside the dump unless named.")] = None,
    quiet: options.Quiet = False,
):
    """Who keeps what in a dump of a Ruby heap: dominators, retained sizes, paths from the roots, holes by width, a map.

    \b
    RUBY_GC_LIBRARY=ashlar ruby -e 'CACHE = Array.new(100_000) { "x" * 100 }; GC.config(dump: "app.dump.gz")'
    ashlar retained app.dump.gz
    ashlar retained app.dump.gz --class Array --why String --form html
    ashlar retained app.dump.gz --map app.svg
    """
    from ashlar_lab.heapdump import command

    command.run(file, of_class or [], why or [], map_file, _names(form) or [], output, quiet)


@app.command(short_help="Measure what being measured costs a program here.")
def overhead(
    blocks: Annotated[int, typer.Option(help="How many blocks; each takes about five seconds.")] = 40,
    tree: Annotated[bool, typer.Option("--tree", help="Give the program a child: of a tree PSS is read more often.")] = False,
    sample_hz: Annotated[float, typer.Option(help="How often RSS is read a second.")] = 50.0,
    duty: Annotated[float, typer.Option(help="The share of one core that each kind of sampling may take.")] = 0.004,
):
    """Measure what the lab costs the program it measures: one steady program, watched and not watched in turn.

    \b
    ashlar overhead
    ashlar overhead --blocks 10 --tree --sample-hz 1000 --duty 1    # a sampler that costs too much is found
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


@app.command(no_args_is_help=True, short_help="Show a Ruby program's heap profile, or what grew between two.")
def heap(
    what: Annotated[list[str], typer.Argument(metavar="FILE|PID, or diff A B", help="A profile's file or a running process's number; diff compares two.")],
    form: Annotated[str, typer.Option(help="terminal, or files: html,pprof,collapsed,json. Of diff: terminal or json.")] = "terminal",
    output: Annotated[Optional[str], typer.Option(help="Files are OUTPUT.html, OUTPUT.pb.gz and so on; - is standard output. Beside FILE, or heap-PID, unless named.")] = None,
    lines: Annotated[int, typer.Option(help="How many rows a table has at most.")] = 20,
    strict: Annotated[bool, typer.Option("--strict", help="Of diff: exit status 1 when a line is named as a leak.")] = False,
    retained: Annotated[bool, typer.Option("--retained", help="FILE is a dump of a heap: who keeps what. The same as ashlar retained FILE.")] = False,
):
    """Show which lines allocate and which keep, from a profile that a Ruby program on Ashlar takes of itself.

    \b
    ASHLAR_PROFILE=app.heap RUBY_GC_LIBRARY=ashlar ruby app.rb    # writes the profile when it ends
    ashlar heap app.heap
    ashlar heap app.heap --form html,pprof,collapsed,json
    ashlar heap 4242                            # a process that runs
    ashlar heap 4242 --form collapsed --output - | flamegraph.pl > live.svg
    ashlar heap diff before.heap after.heap     # what grew, likely leaks first
    ashlar heap diff before.heap after.heap --form json --output - --strict
    """
    from ashlar_lab.heap import command

    if retained:
        from ashlar_lab.heapdump import command as dumps

        if len(what) != 1 or strict:
            raise BadInput("--retained takes one dump and no --strict; ashlar retained --help names more")
        return dumps.run(what[0], [], [], None, [] if form == "terminal" else _names(form), Path(output) if output else None, False)
    if what[0] == "diff":
        raise typer.Exit(command.diff(what[1:], form, output, lines, strict))
    if strict:
        raise BadInput("--strict judges two profiles; write ashlar heap diff A B --strict")
    command.show(what, form, output, lines)


@app.command(short_help="Show the live numbers of Ruby processes.")
def top(
    pid: Annotated[Optional[str], typer.Argument(metavar="[PID]", help="The process; all that have live numbers are listed without one.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end; as in a pipe.")] = False,
    every: Annotated[Optional[float], typer.Option(help="Seconds between two readings; 1 in the terminal.")] = None,
    form: Annotated[str, typer.Option(help="terminal, or openmetrics: text for Prometheus.")] = "terminal",
    output: Annotated[Optional[Path], typer.Option(help="With --form openmetrics: the file to replace, with --every again and again.")] = None,
):
    """Show the memory and the collections of a Ruby process on Ashlar while it runs, without stopping it.

    The process is started with ASHLAR_LIVE=1 or with ASHLAR_PROFILE=FILE. Rates are of the last interval; printed once, of the time since its start.

    \b
    ashlar top                        # which processes there are
    ashlar top 4242
    ashlar top 4242 --once
    ashlar top 4242 --form openmetrics
    ashlar top --form openmetrics --output /var/lib/node_exporter/ashlar.prom --every 15
    """
    from ashlar_lab.heap import command

    command.top(pid, once, every, form, output)


@app.command(no_args_is_help=True, short_help="What a Ruby server's forked processes share, and why the rest is their own.")
def shared(
    pid: Annotated[str, typer.Argument(metavar="PID", help="The parent; all that it has started are looked at.")],
    form: Annotated[str, typer.Option(help="terminal, html or json.")] = "terminal",
    output: Annotated[Optional[str], typer.Option(help="The file to write; shared-PID.html or .json unless named, - is standard output.")] = None,
    lines: Annotated[int, typer.Option(help="How many rows the detailed tables have at most.")] = 20,
):
    """Show how much memory a parent and the processes that it forked share, how much each has of its own, by kind, and what was written on
    the pages that are no longer shared. Needs nothing but a Ruby on Ashlar that runs, and the right to trace it. Nothing is stopped.

    \b
    ashlar shared 4242
    ashlar shared 4242 --form html
    ashlar shared 4242 --form json --output -
    """
    from ashlar_lab.shared import command

    command.run(pid, form, output, lines)


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
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end keeps what was measured, as Ctrl-C does
        status = app(standalone_mode=False)
        sys.stdout.flush()  # here a full disk can still be told
        sys.exit(status)
    except BadInput as error:
        say(one_line(f"ashlar: {error}"), error=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            raise
        _output_failed(error)
    except Exception as error:
        if type(error).__name__ == "Abort":
            _interrupted()
        if not hasattr(error, "format_message"):  # what typer calls wrong usage has its own classes from version to version
            raise
        _wrong_usage(error)
    except KeyboardInterrupt:
        _interrupted()


def _output_failed(error: OSError) -> None:
    """Standard output takes no more. A reader that has gone, such as `head`, is no error to speak of."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered is tried again at exit
    if error.errno == errno.EPIPE:
        sys.exit(128 + signal.SIGPIPE)
    say(f"ashlar: cannot write to standard output: {error.strerror}; give it a place with room", error=True)
    sys.exit(2)


def _wrong_usage(error) -> None:
    said = error.format_message()
    if said.startswith("Usage:"):  # nothing was asked for at all: the whole help is the answer
        say(said)
    else:
        verb = getattr(getattr(error, "ctx", None), "command_path", "ashlar")
        say(f"ashlar: {said.rstrip('.')}; {verb} --help lists what there is", error=True)
    sys.exit(2)


def _interrupted() -> None:
    say("ashlar: interrupted", error=True)
    sys.exit(130)


if __name__ == "__main__":
    main()
