"""The command line: the verbs with their options, and how each is carried out in a few lines. What a verb needs is loaded when it is asked for."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ashlar.cli import carried_out
from ashlar.errors import BadInput
from ashlar.files import file_name, put
from ashlar.forms import chosen
from ashlar.said import say
from ashlar_lab import __version__, options
from ashlar_lab.options import Comparison, Judgement, Question, asking
from ashlar_lab.report import FORMS

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Compare allocators and collectors so that the answer can be trusted.")


def _show_version(asked: bool) -> None:
    if asked:
        say(f"ashlar-lab {__version__}")
        raise typer.Exit


@app.callback()
def _program(version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False) -> None:
    pass


@app.command(no_args_is_help=True)
@asking(Comparison)
def compare(asked: Comparison):
    """Measure variants against each other and write a report.

    \b
    ashlar-lab compare --variant glibc --variant jemalloc -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare -v python=env -k every=3000,5000,9000,16000,28000,50000,90000 -- python3 -c 'import gc; gc.disable(); live = [[i] for i in range(100000)]; [(a := [i] * 50, a.append(a), i % {every} or gc.collect()) and None for i in range(300000)]'
    ashlar-lab compare --experiment examples/three-allocators.toml    # from the lab's folder
    ashlar-lab compare -v ruby-stock -v ruby-ashlar --curves -- ruby -e 'puts Array.new(400000) { |i| [i.to_s] }.size'
    ashlar-lab compare --experiment examples/three-allocators.toml --programs strings --blocks 20 --store strings.ashlar
    ashlar-lab compare -v glibc -v jemalloc --server 'python3 -m http.server {port} --bind 127.0.0.1 --directory /proc/sys' --rate 100 --goal 'p90_ms<=1.1'
    ashlar-lab compare -v glibc -v jemalloc -p 'words=python3 -c "print(len([str(i) for i in range(300000)]))"' -p 'lists=python3 -c "print(len([[i] for i in range(300000)]))"'
    ashlar-lab compare -v glibc -v jemalloc --on local:2 -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare --resume three-allocators.ashlar --blocks 20
    """
    from ashlar_lab import compare as comparing

    raise typer.Exit(comparing.compare(asked))


@app.command(no_args_is_help=True)
@asking(Question)
def init(
    question: Question,
    file: Annotated[Optional[Path], typer.Option("--file", "-f", help="The file to write; NAME.toml unless named, - prints it.")] = None,
):
    """Write the TOML experiment of a command line, to be edited and kept; nothing is measured.

    \b
    ashlar-lab init -v glibc -v jemalloc --goal 'peak_mib<=0.9' --name strings -- python3 -c 'print(len([str(i) for i in range(300000)]))'
    ashlar-lab compare --experiment strings.toml
    """
    from ashlar_lab.experiment import write_toml

    experiment = question.described()
    target = file or Path(f"{file_name(experiment.name, 'experiment')}.toml")
    text = write_toml.text(experiment, Path.cwd() if str(target) == "-" else target.absolute().parent)
    if str(target) == "-":
        say(text, end="")
        return
    if target.is_file() and target.read_bytes() != text.encode():
        raise BadInput(f"{target} exists and says something else; name another with --file, or - to print")
    put(target, text, option="--file")
    say(f"wrote {target}; measure it with: ashlar-lab compare --experiment {shlex.quote(str(target))}")


@app.command(no_args_is_help=True)
def report(
    stores: Annotated[list[Path], typer.Argument(help="One store, or several of one experiment and machine.")],
    output: options.Output = None,
    form: options.Form = "html,md,json",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write only; print nothing.")] = False,
):
    """Rebuild the report from a store.

    \b
    ashlar-lab report three-allocators.ashlar --form html,md,csv,json,svg,png
    """
    from ashlar_lab.compare import report_files

    report_files(stores, output or stores[0].with_suffix(""), chosen(form, FORMS), quiet)


@app.command(no_args_is_help=True)
def diff(
    first: Annotated[Path, typer.Argument(help="The store to compare with: the older one.")],
    second: Annotated[Path, typer.Argument(help="The store that is judged: the newer one.")],
    threshold: options.Threshold = 0.05,
    metric: options.Metrics = None,
    relative: Annotated[bool, typer.Option("--relative", help="Compare ratios to the baseline variant, not absolute values.")] = False,
):
    """Compare two stores of one machine, for CI.

    Exit status 1 when some interval lies wholly beyond the threshold on the worse side, and its value by more than the baseline
    differs from itself, when runs fail in the second store of what never did in the first, or when a program prints something else there;
    0 otherwise, 2 for bad input.

    \b
    ashlar-lab diff main.ashlar branch.ashlar --threshold 0.05
    """
    from ashlar_lab.fit.difference import WORSE, differences
    from ashlar_lab.report import difference
    from ashlar_lab.store.database import read_all, refuse_unknown, refuse_unlike_machines

    experiment, machine, runs = read_all([first])
    later, machine_second, runs_second = read_all([second])
    refuse_unlike_machines(machine, machine_second, f"cannot compare {second} with {first}")
    if other := experiment.other_work(later):
        raise BadInput(f"cannot compare {second} with {first}: {other}; measure the same programs in the same way")
    refuse_unknown(metric, runs, str(first))
    refuse_unknown(metric, runs_second, str(second))
    found = differences(experiment, runs, runs_second, metric, threshold, relative, later)
    if not any(d.ratio.n or d.failed for d in found):
        raise BadInput(f"{first} and {second} have no arm and metric in common; measure the same programs and variants")
    say(difference.text(found, threshold, str(first), str(second)))
    raise typer.Exit(1 if any(d.judged == WORSE for d in found) else 0)


@app.command(no_args_is_help=True, short_help="Compare two git revisions of a project, as continuous integration does.")
@asking(Judgement, leave_out=("variant", "knob", "curves", "goal", "baseline"))
def ci(asked: Judgement):
    """Compare two git revisions of the project in this folder, and print a comment for the change.

    Both are checked out and built in folders of their own and measured in turn, so that a slow moment hits both alike. A stored baseline
    saves measuring the older one, on the same machine, at the price of wider intervals.

    Exit status 0 when nothing is shown to be worse, 1 when some interval lies wholly beyond the threshold on the worse side, and its value
    by more than the baseline differs from itself, or a run of --head fails or prints something else, 2 for bad input, 3 with --strict when a
    figure is undecided.

    \b
    ashlar-lab ci --base origin/main --build 'make -j2' -- ./program input
    ashlar-lab ci --save main.ashlar --build make -- ./program input        # on the main branch
    ashlar-lab ci --baseline main.ashlar --build make -- ./program input    # on a change, on the same machine
    """
    from ashlar_lab import ci as judging

    raise typer.Exit(judging.judge(asked))


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


def main() -> None:
    """Run the command line; BadInput and wrong usage become one line and exit status 2."""
    carried_out("ashlar-lab", _run)


def _run() -> int:
    try:
        return app(standalone_mode=False)
    except Exception as error:
        if type(error).__name__ == "Abort":
            raise KeyboardInterrupt from None
        if type(error).__module__ == "sqlite3":
            other = type(error).__name__ == "IntegrityError"
            raise BadInput(f"a store cannot be read or written: {error}; " + ("another ashlar-lab writes to it: end one of them" if other else
                           "see whether the disk is full, or the file is not whole")) from None
        if not hasattr(error, "format_message"):  # what typer calls wrong usage has its own classes from version to version
            raise
        said = error.format_message()
        if said.startswith("Usage:"):  # nothing was asked for at all: the whole help is the answer
            say(said)
            return 2
        verb = getattr(getattr(error, "ctx", None), "command_path", "ashlar-lab")
        raise BadInput(f"{said.rstrip('.')}; {verb} --help lists what there is") from None
