"""CSV of every run and JSON of everything estimated."""

from __future__ import annotations

import csv
import io
import json

from ashlar_lab.report.page import Page


def runs_csv(page: Page) -> str:
    """One line per run, failed runs included; the columns are the union of all metrics."""
    metrics = sorted({m for r in page.runs for m in r.metrics})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["block", "position", "program", "variant", "value", "role", "state", "reason", "checksum", *metrics])
    for r in page.runs:
        writer.writerow([r.block, r.position, r.program, r.variant, r.value or "", r.role, r.state, r.reason, r.checksum or "",
                         *(r.metrics.get(m, "") for m in metrics)])
    return out.getvalue()


def analysis_json(page: Page) -> str:
    """Verdict, machine, experiment and estimates. Folders of this machine stay out, so that it can be published."""
    experiment = json.loads(page.experiment.to_json())
    for program in experiment["programs"]:
        program.pop("directory")
    return json.dumps({
        "title": page.title,
        "verdict": page.verdict,
        "warnings": page.warnings,
        "machine": dict(page.machine),
        "experiment": experiment,
        "analysis": page.analysis.to_dict(),
    }, indent=1, ensure_ascii=False) + "\n"
