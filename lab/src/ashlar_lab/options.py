"""Options that several verbs share, each said once."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from ashlar_lab import variants
from ashlar_lab.experiment.check import SPACE_METRICS, TIME_METRICS
from ashlar_lab.report.write import FORMS


def _one_of(values):
    """Completion by what an option can be."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


_KNOBS = sorted({f"{name}=" for base in variants.BASES.values() for name in base.settings if name.isidentifier() and len(name) > 1})

Command = Annotated[Optional[list[str]], typer.Argument(help="After --: the command to measure, {placeholders} allowed.")]
Variants = Annotated[Optional[list[str]], typer.Option("--variant", "-v", autocompletion=_one_of(variants.BASES), help="BASE, BASE:setting=value,..., LABEL=BASE:..., LABEL=command:COMMAND.")]
Knobs = Annotated[Optional[list[str]], typer.Option("--knob", "-k", autocompletion=_one_of(_KNOBS), help="NAME=VALUE,VALUE,...; goes to every variant that understands it. NAME alone takes the values its base suggests.")]
Curves = Annotated[bool, typer.Option("--curves", help="Every variant over the knob of its base, where it has one: ruby-stock over growth, ruby-ashlar over space_overhead.")]
Programs = Annotated[Optional[list[str]], typer.Option("--program", "-p", help="NAME=COMMAND: one more program, beside the command after --.")]
Server = Annotated[Optional[str], typer.Option(help="A server's command, with {port}: it is driven at --rate over loopback.")]
Rate = Annotated[Optional[float], typer.Option(help="With --server: requests a second, whatever the server does.")]
Duration = Annotated[float, typer.Option(help="With --server: seconds that are measured, after a second of warm-up.")]
Connections = Annotated[int, typer.Option(help="With --server: connections that are kept open.")]
Paths = Annotated[Optional[list[str]], typer.Option("--path", help="With --server: a path to ask for, in turn with the others; / unless given.")]
Goals = Annotated[Optional[list[str]], typer.Option("--goal", help="METRIC<=RATIO, or VARIANT:METRIC<=RATIO: the most that a variant's ratio to the baseline may be.")]
Baseline = Annotated[Optional[str], typer.Option(help="The variant that is 1.00; the first one unless named.")]
Blocks = Annotated[Optional[int], typer.Option(help="Exactly this many blocks, whatever the precision; fewer than 5 give no intervals and no verdicts.")]
Precision = Annotated[Optional[float], typer.Option(help="Stop when every ratio is known to ± this fraction; of curves, the mean ratio over their common space.")]
Budget = Annotated[Optional[float], typer.Option(help="Stop after this many seconds, at least one block done.")]
Seed = Annotated[Optional[int], typer.Option(help="Shuffles the order of runs.")]
Time = Annotated[str, typer.Option(autocompletion=_one_of(TIME_METRICS), help="Time that counts: cpu_s, wall_s or user_s; of servers also p50_ms, p90_ms, p99_ms (2000 requests a block), p999_ms (20000).")]
Space = Annotated[str, typer.Option(autocompletion=_one_of(SPACE_METRICS), help="Space that counts: peak_mib, mean_mib, final_mib, peak_rss_mib or cgroup_peak_mib.")]
Timeout = Annotated[float, typer.Option(help="Seconds after which a run is killed.")]
IgnoreOutput = Annotated[bool, typer.Option("--ignore-output", help="Do not require equal output.")]
IgnoreLines = Annotated[Optional[list[str]], typer.Option(help="Leave output lines matching this pattern out of the comparison.")]
Name = Annotated[Optional[str], typer.Option(help="What to call the experiment.")]
Store = Annotated[Optional[Path], typer.Option(help="A new result file; unless named NAME.ashlar in the current folder, or NAME-2.ashlar and so on after an earlier one.")]
Output = Annotated[Optional[Path], typer.Option(help="Reports are OUTPUT.html and so on; beside the store unless named.")]
Form = Annotated[str, typer.Option(autocompletion=_one_of(FORMS), help="Which reports to write: html,md,csv,json,svg,png,record.")]
On = Annotated[Optional[str], typer.Option(autocompletion=_one_of(("local:2", "tls://")), help="Measure on the machines of a Dask cluster: tls://SCHEDULER:8786, or local:N for trying it out.")]
TlsCaFile = Annotated[Optional[str], typer.Option(help="With --on tls://: the authority that the cluster's certificates are of, in PEM form. As Dask's own option.")]
TlsCert = Annotated[Optional[str], typer.Option(help="With --on tls://: the certificate to show.")]
TlsKey = Annotated[Optional[str], typer.Option(help="With --on tls://: the key of that certificate.")]
Ship = Annotated[Optional[list[str]], typer.Option(help="With --on: a file or folder that travels too, beside those the command names.")]
There = Annotated[Optional[list[str]], typer.Option(help="With --on: a file or folder that every machine has already; its files are checked, not sent.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
