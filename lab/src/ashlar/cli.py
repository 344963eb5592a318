"""The command line of `ashlar`: options, and which module answers. What a verb needs is loaded when it is asked for."""

import argparse
import errno
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from ashlar import __version__
from ashlar.errors import BadInput
from ashlar.said import one_line, say


class _Parser(argparse.ArgumentParser):
    """Wrong usage becomes one line."""

    def __init__(self, **options):
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message.rstrip('.')}; {self.prog} --help lists what there is")


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(prog="ashlar", description="See into the heap of a Ruby program on Ashlar.")
    parser.add_argument("--version", action="version", version=f"ashlar {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    made = {}

    def verb(name: str, help: str, description: str, *arguments: tuple, of: str) -> None:
        """`of` is the function that carries it out: its module is loaded when it is asked for."""
        made[name] = verbs.add_parser(name, help=help, description=description)
        for names, options, values in arguments:
            made[name].add_argument(*names, **options).values = values
        made[name].set_defaults(of=of)

    def given(*names: str, values: str = "", **options) -> tuple:
        """`values` are what an option can be, where they are few and known: for completion."""
        return names, options, values

    lines = given("--lines", type=int, default=20, metavar="N", help="How many rows a table has at most (20).")
    as_json = given("--json", action="store_true", help="Print JSON to standard output instead of tables to standard error.")
    command = given("command", nargs="+", metavar="COMMAND", help="After --: the command.")
    verb("try", "Run your own command on stock Ruby and on Ruby with Ashlar, and compare.", _TRY, command,
         given("--ashlar", metavar="PATH", help="The Ruby with Ashlar inside; the one beside this program unless named."),
         given("--stock", metavar="PATH", help="Stock Ruby; the first one of the same version on the PATH unless named."),
         given("--only", values="stock ashlar", choices=("stock", "ashlar"), help="Only this side."),
         given("--rounds", type=int, default=1, metavar="N", help="How often each of them runs, by turns (1). From 2 on, what is noise is known."),
         given("--get", action="append", default=[], metavar="/PATH", help="Ask the server for this path; may be repeated. Without one it is only watched."),
         given("--paths", type=Path, metavar="FILE", help="Ask for the paths in this file, one in each line."),
         given("--header", action="append", default=[], metavar="'NAME: VALUE'", help="Send this with each request; may be repeated."),
         given("--url", metavar="URL", help="Where the server answers, http://127.0.0.1:PORT/; found by itself unless given."),
         given("--rate", type=float, metavar="N", help="Requests a second; unless given, few enough for both, and 50 at most."),
         given("--seconds", type=float, metavar="S", help="How long it is asked (40) or, without paths, watched (a server 30; 0: until it ends)."),
         given("--warm-up", type=float, default=5.0, metavar="S", help="Seconds of requests that do not count, before (5)."),
         given("--ready", type=float, default=120.0, metavar="S", help="How long to wait for the first answer (120)."),
         given("--grace", type=float, default=10.0, metavar="S", help="How long the command has to end when it is asked to (10)."),
         given("--form", default="terminal,html", values="terminal html json", help="Some of terminal,html,json (terminal,html)."),
         given("--output", help="Files are OUTPUT.html and so on; ashlar-try unless named. - is standard output."), of="trying.command.run")
    verb("heap", "Show a Ruby program's heap profile, or what grew between two.", _HEAP,
         given("what", nargs="+", metavar="FILE|PID, or diff A B", help="A profile's file or a running process's number; diff compares two."),
         given("--form", default="terminal", values="terminal html pprof collapsed json", help="terminal, or files: html,pprof,collapsed,json. Of diff: terminal or json."),
         given("--output", help="Files are OUTPUT.html, OUTPUT.pb.gz and so on; - is standard output. Beside FILE, or heap-PID, unless named."), lines,
         given("--strict", action="store_true", help="Of diff: exit status 1 when a line is named as a leak."), of="heap.command.run")
    verb("top", "Show the live numbers of Ruby processes.", _TOP,
         given("pid", nargs="?", metavar="PID", help="The process; all that have live numbers are listed without one."),
         given("--once", action="store_true", help="Print once, and end; as in a pipe."),
         given("--every", type=float, metavar="S", help="Seconds between two readings; 1 in the terminal."),
         given("--form", default="terminal", values="terminal openmetrics", help="terminal, or openmetrics: text for Prometheus."),
         given("--output", type=Path, help="With --form openmetrics: the file to replace, with --every again and again."), of="heap.command.top")
    verb("shared", "What a Ruby server's forked processes share, and why the rest is their own.", _SHARED,
         given("pid", metavar="PID", help="The parent; all that it has started are looked at."),
         given("--form", default="terminal", values="terminal html json", help="terminal, html or json."),
         given("--output", help="The file is OUTPUT.html or OUTPUT.json; shared-PID unless named. - is standard output."), lines, of="shared.command.run")
    verb("boot", "What the start of a Ruby program costs, file by file.", _BOOT, command,
         given("--top", type=int, default=15, metavar="N", help="How many files and libraries to list (15)."),
         given("--by", default="own", values="own total objects collecting", help="What files are ranked by: own, total, objects or collecting."), as_json, of="boot.report.run")
    verb("retained", "Who keeps what in a dump of a Ruby heap.", _RETAINED,
         given("file", metavar="FILE", help='What GC.config(dump: "file") or ObjectSpace.dump_all wrote, plain or .gz; - is standard input.'),
         given("--class", dest="classes", action="append", default=[], metavar="CLASS", help="What the objects of this class keep; may be repeated."),
         given("--why", action="append", default=[], metavar="CLASS|0xADDRESS", help="Why the objects of a class, or one object, are alive; may be repeated."),
         given("--map", type=Path, metavar="FILE", help="Draw a map of the heap: FILE.svg or FILE.html."),
         given("--form", default="", values="html md json", help="Reports to write beside the dump: html,md,json."),
         given("--output", type=Path, help="Reports are OUTPUT.html and so on; beside the dump unless named."),
         given("-q", "--quiet", action="store_true", help="No summary."), of="retained.command.run")
    verb("mem", "Memory of a command's process tree at its exit and its peak.", _MEM, command, as_json, of="memory.report.run")
    verb("completion", "Print a completion script for bash or zsh.", _COMPLETION, given("shell", metavar="bash|zsh", help="Which shell it is for."), of="cli.completion")
    return parser, made


_TRY = """See your own application's memory before and after: the command runs on stock Ruby and on Ruby with Ashlar inside, one after the other,
and both are asked the same requests, or just watched. Only addresses of this machine's loopback are ever asked.

ashlar try --get / -- bundle exec puma -C config/puma.rb
ashlar try --get / --get /articles/1 --rounds 3 -- bin/rails server -e production
ashlar try --paths paths.txt --rate 50 --seconds 60 --url http://127.0.0.1:9292/ -- bundle exec puma
ashlar try -- bundle exec rspec                        # a program that ends is run to its end
ashlar try --rounds 3 -- ruby -e 'Array.new(500_000) { |i| i.to_s * 9 }'
ashlar try --only ashlar --form json --output - -- bin/rake environment"""

_HEAP = """Show which lines allocate and which keep, from a profile that a Ruby program on Ashlar takes of itself.

ASHLAR_PROFILE=app.heap ruby app.rb    # on the Ruby with Ashlar inside; writes the profile when it ends
ashlar heap app.heap
ashlar heap app.heap --form html,pprof,collapsed,json
ashlar heap 4242                            # a process that runs
ashlar heap 4242 --form collapsed --output - | flamegraph.pl > live.svg
ashlar heap diff before.heap after.heap     # what grew, likely leaks first
ashlar heap diff before.heap after.heap --form json --output - --strict"""

_TOP = """Show the memory and the collections of a Ruby process on Ashlar while it runs, without stopping it.

The process is started with ASHLAR_LIVE=1 or with ASHLAR_PROFILE=FILE. Rates are of the last interval; printed once, of the time since its start.

ashlar top                        # which processes there are
ashlar top 4242
ashlar top 4242 --once
ashlar top 4242 --form openmetrics
ashlar top --form openmetrics --output /var/lib/node_exporter/ashlar.prom --every 15"""

_SHARED = """Show how much memory a parent and the processes that it forked share, how much each has of its own, by kind, and what was written on
the pages that are no longer shared, down to the classes of objects. Needs nothing but a Ruby on Ashlar that runs, and the right to trace it. Nothing is stopped.

ashlar shared 4242
ashlar shared 4242 --form html
ashlar shared 4242 --form json --output -"""

_BOOT = """Time, objects and the collector's share while a Ruby program loads its code. Works on any collector, with any command that
starts Ruby 3.1 or newer. What -r on its command line loads is not counted file by file. A start ends with the process, or when it calls
Process.warmup. SIGTERM is passed on to the command. Ends with the command's exit status.

ashlar boot -- ruby -rjson -e 'puts JSON.generate([1])'
ashlar boot --by objects --top 30 -- bin/rails runner 'Rails.application.eager_load!'"""

_RETAINED = """Who keeps what in a dump of a Ruby heap: dominators, retained sizes, paths from the roots, holes by width, a map.

ruby -e 'CACHE = Array.new(100_000) { "x" * 100 }; GC.config(dump: "app.dump.gz")'    # on the Ruby with Ashlar inside
ashlar retained app.dump.gz
ashlar retained app.dump.gz --class Array --why String --form html
ashlar retained app.dump.gz --map app.svg"""

_MEM = """Memory of a command's process tree at its exit and at its peak, from smaps. Ends with the command's exit status.

ashlar mem -- python3 -c 'x = list(range(1000000))'"""

_COMPLETION = """Print a completion script.

eval "$(ashlar completion bash)"    # in ~/.bashrc
eval "$(ashlar completion zsh)"     # in ~/.zshrc, after compinit"""


def completion(asked) -> int:
    if asked.shell not in ("bash", "zsh"):
        raise BadInput(f"there is no completion for {asked.shell!r}; give one of bash, zsh")
    _, verbs = _parser()
    options = "\n".join(f"    {name}) words='{' '.join(n for a in made._actions for n in a.option_strings)}' ;;" for name, made in verbs.items())
    values = "\n".join(f"    {name}:{n}) words='{a.values}' ;;" for name, made in verbs.items() for a in made._actions if getattr(a, "values", "") for n in a.option_strings)
    say(f"""{'#compdef ashlar' if asked.shell == 'zsh' else ''}
{'autoload -U +X bashcompinit && bashcompinit' if asked.shell == 'zsh' else ''}
_ashlar() {{
  local words kind=-W i word=${{COMP_WORDS[COMP_CWORD]}}
  case $COMP_CWORD:${{COMP_WORDS[1]}} in
    1:*) words='{' '.join(verbs)}' ;;
{options.replace("    ", "    *:")}
  esac
  [[ $COMP_CWORD = 1 || $word = -* ]] || kind=-f
  case ${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD - 1]}} in
    *:--) kind=-c ;; # after it comes a command of the user's own
{values.replace(" ;;", " kind=-W ;;")}
  esac
  if [[ $kind = -W ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); else COMPREPLY=($(compgen $kind -- "$word")); fi
}}
complete -o filenames -F _ashlar ashlar""".strip())
    return 0


def main() -> None:
    """Run the command line; BadInput and wrong usage become one line and exit status 2."""
    carried_out("ashlar", _run)


def _run() -> int:
    parser, verbs = _parser()
    asked = sys.argv[1:]
    if not asked or asked in ([verb] for verb in verbs if verb != "top"):  # nothing was asked for: the whole help is the answer
        say((verbs[asked[0]] if asked else parser).format_help(), end="")
        return 2
    found, rest = parser.parse_known_args(asked)
    # argparse takes names that stand together; in `heap diff --strict A B` an option stands between them.
    if rest and isinstance(getattr(found, "what", None), list) and not any(name.startswith("-") for name in rest):
        found.what += rest
        rest = []
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    module, _, function = found.of.rpartition(".")
    return getattr(importlib.import_module(f"ashlar.{module}"), function)(found) or 0


def carried_out(name: str, run) -> NoReturn:
    """Run a command and end with its status; what a user can put right is one line that begins with its name."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end keeps what was done, as Ctrl-C does
        status = run()
        sys.stdout.flush()  # here a full disk can still be told
        sys.exit(status)
    except BadInput as error:
        say(one_line(f"{name}: {error}"), error=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            raise
        _output_failed(name, error)
    except KeyboardInterrupt:
        say(f"{name}: interrupted", error=True)
        sys.exit(130)


def _output_failed(name: str, error: OSError) -> NoReturn:
    """Standard output takes no more. A reader that has gone, such as `head`, is no error to speak of."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered is tried again at exit
    if error.errno == errno.EPIPE:
        sys.exit(128 + signal.SIGPIPE)
    say(f"{name}: cannot write to standard output: {error.strerror}; give it a place with room", error=True)
    sys.exit(2)
