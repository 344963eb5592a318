"""Fit and report against golden files, and what a page must be whatever it shows.

After a wanted change: ASHLAR_UPDATE_GOLDEN=1 pytest tests/test_report.py, then read the difference.
"""

import json
import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from conftest import TWIN, make_run, noisy, simulated_sweep, two_variants

from ashlar.chart import thinned
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.fit.trimmed import Estimate
from ashlar_lab.report import FORMS, exports, html, markdown, page, units, write
from ashlar_lab.report.tables import improvement

GOLDEN = Path(__file__).with_name("golden")
MACHINE = {"cpu": "simulated", "cpus": 2, "kernel": "0", "time": "2000-01-01T00:00:00Z",
           "contenders": {"old": {"executables": {"true": {"path": "/bin/true", "version": None}}, "library": None, "package": None}}}


def programs_experiment():
    """Two programs, two variants, an A/A arm, a figure of the program's own, one crash."""
    experiment = two_variants(programs=("sort", "parse"))
    rng = np.random.default_rng(1)
    runs = []
    for block in range(10):
        for program, time, space in (("sort", 2.0, 100.0), ("parse", 0.5, 40.0)):
            for variant, role, factor in (("old", "main", 1.0), ("new", "main", 0.8), ("old", TWIN, 1.0)):
                t = time * factor * float(noisy(rng, 1, 0.02, 0)[0])
                s = space * (0.9 if variant == "new" else 1.0)
                runs.append(make_run(block, program, variant, None, t, s, role, metrics={"gc_count": 5.0 if variant == "new" else 10.0, "gc_time_ms": 100 * t},
                                     told=("gc_count", "gc_time_ms"), series=tuple((t * i / 20, s * i / 20, 1) for i in range(21))))
    runs.append(make_run(10, "sort", "new", None, 0.1, 1, state="crashed", reason="it was ended by signal 11 (SIGSEGV)", errors_tail="<b>boom</b>"))
    return experiment, runs


def sweep_experiment():
    return simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)})


CASES = {"programs": programs_experiment, "sweep": sweep_experiment}


@pytest.fixture(params=sorted(CASES))
def case(request):
    experiment, runs = CASES[request.param]()
    analysis = analyse(experiment, runs)
    return request.param, page.build(experiment, MACHINE, runs, analysis)


def agree(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("ASHLAR_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; see the head of this file"


def rounded(value):
    """Five digits: libraries of another version may differ in the last ones."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def test_the_analysis_is_as_recorded(case):
    name, content = case
    agree(f"{name}.json", json.dumps(rounded(json.loads(exports.analysis_json(content))), indent=1) + "\n")


def test_the_markdown_is_as_recorded(case):
    name, content = case
    agree(f"{name}.md", markdown.render(content))


def test_the_page_is_as_recorded(case):
    name, content = case
    agree(f"{name}.html", html.render(content))


class Links(HTMLParser):
    """Everything a browser would fetch or run, and whether tags balance."""

    VOID = {"meta", "br", "link", "img", "hr", "input", "rect", "circle", "line", "path", "polyline", "polygon"}

    def __init__(self):
        super().__init__()
        self.outside, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key in ("src", "href", "srcset", "action", "data") or key.startswith("on"):
                self.outside.append((tag, key, value))
        if tag in ("script", "iframe", "object"):
            self.outside.append((tag, "", ""))

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        assert self.open and self.open.pop() == tag, tag


def test_the_page_is_one_file_that_fetches_nothing(case):
    text = html.render(case[1])
    links = Links()
    links.feed(text)
    assert links.outside == [] and links.open == []
    assert not re.search(r"@import|url\(", text)
    assert "prefers-color-scheme" in text and "width=device-width" in text


def test_what_a_program_printed_cannot_become_markup():
    experiment, runs = programs_experiment()
    text = html.render(page.build(experiment, MACHINE, runs, analyse(experiment, runs)))
    assert "<b>boom</b>" not in text and "&lt;b&gt;boom&lt;/b&gt;" in text


def test_every_run_is_listed(case):
    _, content = case
    assert html.render(content).count("<tr") >= len(content.runs)
    assert "".join(exports.runs_csv(content)).count("\n") == len(content.runs) + 1


def test_charts_are_well_formed_and_stay_inside_their_frame(case):
    for figure in case[1].figures:
        root = ET.fromstring(figure.chart.render())
        for mark in root.iter("{http://www.w3.org/2000/svg}circle"):
            assert 0 <= float(mark.get("cx")) <= figure.chart.width and 0 <= float(mark.get("cy")) <= figure.chart.height
        for mark in root.iter("{http://www.w3.org/2000/svg}polyline"):
            for pair in mark.get("points").split():
                x, y = map(float, pair.split(","))
                assert -1 <= x <= figure.chart.width + 1 and -1 <= y <= figure.chart.height + 1


def test_every_form_is_written_whole(case, tmp_path):
    written = write.write(case[1], tmp_path / "r", FORMS)
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in written}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in written if p.suffix == ".png")
    assert [p.suffix for p in written].count(".svg") == len(case[1].figures)


def test_the_verdict_says_better_worse_and_unknown():
    experiment, runs = programs_experiment()
    verdict = page.build(experiment, MACHINE, runs, analyse(experiment, runs)).verdict
    assert "new, CPU time: 0.806 of old's" in verdict[0] and "less, which is better" in verdict[0]
    same = [r if r.variant == "old" or r.state != "ok" else make_run(r.block, r.program, r.variant, r.value, 2.0 + 0.1 * (r.block % 3), 100.0) for r in runs]
    same = [make_run(r.block, r.program, r.variant, r.value, 2.05 + 0.1 * ((r.block + (r.variant == "new")) % 3), 100.0, r.role) for r in same if r.state == "ok"]
    assert "no difference shown" in page.build(experiment, MACHINE, same, analyse(experiment, same)).verdict[0]


def test_the_verdict_on_curves_names_the_winner_and_the_trap_of_equal_knobs():
    experiment, runs = sweep_experiment()
    said = " ".join(page.build(experiment, MACHINE, runs, analyse(experiment, runs)).verdict)
    assert "new beats old at every space between" in said and "fragmentation" in said


def test_a_rejected_model_is_explained():
    experiment = two_variants(values=range(7))
    runs = [make_run(b, "p", v, str(k), 5.0 + 0.01 * (b % 3) + 0.5 * (k == 4), 100 + 20 * k) for b in range(10) for v in ("old", "new") for k in range(7)]
    said = " ".join(page.build(experiment, MACHINE, runs, analyse(experiment, runs)).verdict)
    assert "The space-time model is rejected for old on p: " in said and "monotone envelope" in said


def test_nothing_measured_yet_is_a_report_too():
    experiment = two_variants()
    content = page.build(experiment, MACHINE, [], analyse(experiment, []))
    assert content.verdict == ("Nothing was measured yet.",) and html.render(content)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.0123, "0.012"), (1.5, "1.500"), (12, "12"), (123.45, "123.5"), (27190, "27.19k"), (5e6, "5M"), (2.5e9, "2.5G"),
                                             (float("inf"), "∞"), (None, "–")])
def test_numbers_are_written_for_people(value, text):
    assert units.number(value) == text


def test_improvement_favours_the_good_direction():
    e = Estimate(0.8, 0.5, 1.0, 10)
    assert improvement(e, "cpu_s") == "1.25x (1.00–2.00)"
    assert improvement(e, "requests_per_s") == "0.80x (0.50–1.00)"


def test_a_p_value_is_never_a_certainty():
    assert [units.p_value(p) for p in (0.0, 0.0123, 0.5, 1.0)] == ["p <0.0001", "p 0.012", "p 0.5", "p >0.99"]


def test_thinning_keeps_the_peak():
    series = [(i, 500 if i == 777 else 1.0, 1) for i in range(2000)]
    thin = thinned(series)
    assert len(thin) <= 160 and max(m for _, m in thin) == 500


def test_an_envelopes_band_is_said_to_hold_less_at_its_ends():
    for gaps, told in (((10, 16, 25, 40, 63, 100, 160), False), ((10, 40, 160), True)):
        experiment, runs = simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)}, gaps=gaps)
        caption = next(f.caption for f in page.build(experiment, MACHINE, runs, analyse(experiment, runs)).figures if f.name == "curves-p")
        assert ("At the ends of an envelope the band holds the truth in" in caption) == told


def test_a_curve_of_few_blocks_has_no_band():
    experiment, runs = simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)}, blocks=3)
    analysis = analyse(experiment, runs)
    chart = next(f for f in page.build(experiment, MACHINE, runs, analysis).figures if f.name == "curves-p")
    assert "too few blocks for intervals" in chart.caption and "95 %" not in chart.caption and "band" not in chart.chart.render()
    assert all(c["grid_high"] == [None] * len(c["grid_time"]) for c in analysis.to_dict()["curves"])


def test_tables_over_the_best_say_that_it_was_chosen(case):
    name, content = case
    notes = {t.name: t.note for t in content.tables}
    assert all("The same runs chose the best, which favours it" in notes[t] for t in notes if t == "lower-bound" or name == "sweep" and t.startswith("overhead"))


def test_only_missing_blocks_are_called_too_few():
    inf, nan = float("inf"), float("nan")
    estimates = ((0.8, 0.0, inf, 3), (0.8, 0.0, inf, 10), (inf, inf, inf, 10), (inf, 0.0, inf, 10), (0.8, 0.7, 0.9, 10), (nan, nan, nan, 0), (nan, nan, nan, 4))
    assert [units.interval(Estimate(*e)) for e in estimates] == [
        "0.80 [too few blocks]", "0.80 [0.00, ∞]", "∞ [∞, ∞]", "∞ [0.00, ∞]", "0.80 [0.70, 0.90]", "not measured", "undefined"]
