"""CSV of every run and JSON of everything estimated."""

import csv
import io
import json
import math
from collections.abc import Iterator

from ashlar_lab.report.page import Page
from ashlar_lab.variants import BASES


def runs_csv(page: Page) -> Iterator[str]:
    """One line per run, failed runs included, in pieces; the columns are the union of all metrics."""
    table = page.table
    metrics = sorted(table.metrics(measured_only=False))
    columns = [table.column(m) for m in metrics]
    named = ["machine"] if page.analysis.machines else []
    yield csv_line(["block", "position", "program", "variant", "value", "role", "state", "reason", "checksum", *named, *metrics])
    for i in table.order:
        program, variant, value, role = table.arms[table.arm[i]]
        machine = [table.machines[table.machine[i]]] if named else []
        yield csv_line([table.block[i], table.position[i], program, variant, value or "", role, table.states[table.state[i]], table.reasons[table.reason[i]],
                        table.checksums[table.checksum[i]] or "", *machine, *("" if math.isnan(c[i]) else float(c[i]) for c in columns)])


def csv_line(cells: list) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def analysis_json(page: Page) -> str:
    """Verdict, machine, experiment and estimates. Folders of this machine stay out, so that it can be published."""
    experiment = json.loads(page.experiment.to_json())
    for program in experiment["programs"]:
        program.pop("directory")
    for variant in experiment["variants"]:
        variant.pop("directory")
        if variant["base"] in BASES and BASES[variant["base"]].path(variant["settings"]):
            variant["settings"].pop("ruby")
    return json.dumps({
        "title": page.title,
        "verdict": page.verdict,
        "warnings": page.warnings,
        "machine": dict(page.machine),
        "experiment": experiment,
        "analysis": page.analysis.to_dict(),
    }, indent=1, ensure_ascii=False) + "\n"
