"""The report as a page."""

from collections.abc import Sequence

from ashlar import page, palette
from ashlar.said import xml
from ashlar_lab.experiment.model import TWIN
from ashlar_lab.report import units
from ashlar_lab.report.page import Page
from ashlar_lab.store.run import OK

_LISTED_MAX = 3000
_FOOTER = ("Peak memory is the kernel's high-water mark of one process, or the sampled sum of PSS where a run had several. Each block runs every arm once in "
           "shuffled order; ratios pair runs of one block. The A/A arm runs the baseline twice to show the noise.")


def render(found: Page) -> str:
    headline = found.headline()
    figures = "\n".join(page.figure(f.chart.render(), f.caption, f'class="{"wide" if f.wide else "half"}" id="{xml(f.name)}"') for f in found.figures)
    return page.page(found.title, [
        page.verdict(found.verdict, "Verdict"), page.warnings(found.warnings), *map(page.table, headline), f'<section class="figures">\n{figures}\n</section>',
        *(page.table(t) for t in found.tables if t not in headline), _runs(found), page.section("Machine", _plain(found.machine)),
        page.section("Command lines", _folded(f"{len(found.commands)} arms", _plain(found.commands, "code"), len(found.commands) <= 12)), page.facts([_FOOTER])],
        style=palette.css_of_reader(), below_title=(f"<p>{xml(found.note)}</p>" if found.note else "") + page.facts([found.facts]))


def _runs(found: Page) -> str:
    e, several, whole = found.experiment, bool(found.analysis.machines), len(found.table)
    # At most so many: failures first, then from the first block on; in their order.
    chosen = sorted(range(len(found.runs)), key=lambda i: (found.runs[i].state == OK, i))[:_LISTED_MAX]
    listed = [found.runs[i] for i in sorted(chosen)]
    metrics = list(dict.fromkeys([e.time_metric, "wall_s", "cpu_s", e.space_metric, "peak_rss_mib", "mean_mib"]))
    metrics += [m for m in ("others_cpu_s",) if any(m in r.metrics for r in found.runs)]
    some = len(listed) < whole
    summary = f"{f'{len(listed)} of ' if some else ''}{whole} runs, check runs first (block –){'; --form csv writes all' if some else ''}"
    head = ["block", *(["machine"] if several else []), "program", "variant", "knob", "state", *map(units.title, metrics)]
    rows = []
    for run in listed:
        tail = f"<pre>{xml(run.errors_tail[-400:])}</pre>" if run.errors_tail else ""
        texts = [*([xml(run.machine)] if several else []), xml(run.program), xml(run.variant) + (" (A/A twin)" if run.role == TWIN else "")]
        state = xml(run.state + (f": {run.reason}" if run.reason else "")) + tail
        cells = [f'<td class="text">{t}</td>' for t in texts] + [f"<td>{xml(run.value or '')}</td>", f'<td class="text">{state}</td>']
        cells += [f"<td>{units.number(run.metrics.get(m))}</td>" for m in metrics]
        bad = "" if run.state == OK else ' class="bad"'
        rows.append(f'<tr{bad}><th scope="row">{run.block + 1 if run.block >= 0 else "–"}</th>{"".join(cells)}</tr>')
    drawn = (f'<table class="runs">\n<thead><tr>{"".join(f"<th>{xml(h)}</th>" for h in head)}</tr></thead>\n<tbody>' + "\n".join(rows) + "\n</tbody>\n</table>")
    return page.section("Every run", _folded(summary, f'<div class="scroll">{drawn}</div>', len(listed) <= 40))


def _folded(summary: str, html: str, is_open: bool) -> str:
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>\n{html}</details>"


def _plain(rows: Sequence[tuple[str, str]], element: str = "span") -> str:
    body = "\n".join(f'<tr><th scope="row">{xml(key)}</th><td class="text"><{element}>{xml(value)}</{element}></td></tr>' for key, value in rows)
    return f'<div class="scroll"><table class="plain"><tbody>{body}\n</tbody></table></div>'
