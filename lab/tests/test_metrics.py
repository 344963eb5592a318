"""A unit goes with every estimate, and values of unlike units are never put together."""

import dataclasses

import numpy as np
import pytest
from conftest import make_run, simulated_sweep, two_variants

from ashlar_lab.experiment.model import Contrast
from ashlar_lab.fit.analysis import analyse
from ashlar_lab.metrics import unit_of
from ashlar_lab.report import page, units


@pytest.mark.parametrize(("metric", "symbol"), [("cpu_s", "s"), ("p99_ms", "ms"), ("pause_ms_max", "ms"), ("request_us_median", "µs"), ("pause_ms_p99", "ms"), ("peak_mib", "MiB"),
                                                ("live_bytes", "bytes"), ("requests_per_s", "1/s"), ("read_mib_per_s", "MiB/s"), ("gc_count", ""), ("s", "s"), ("items", ""), ("late_percent", "%")])
def test_the_unit_is_the_end_of_the_name(metric, symbol):
    assert unit_of(metric).symbol == symbol


def test_the_heading_of_a_rate_has_its_unit():
    assert [units.title(m) for m in ("read_mib_per_s", "requests_per_s", "items_per_s")] == ["Read (MiB/s)", "Requests (1/s)", "Items (1/s)"]


def test_units_of_one_kind_are_converted_and_others_are_refused():
    assert unit_of("gc_time_ms").in_(unit_of("cpu_s")) == pytest.approx(1e-3)
    assert unit_of("peak_mib").in_(unit_of("live_bytes")) == 2**20
    for other in ("peak_mib", "gc_count", "requests_per_s"):
        with pytest.raises(ValueError, match="cannot be given in"):
            unit_of("gc_time_ms").in_(unit_of(other))
    with pytest.raises(ValueError):
        unit_of("gc_count").in_(unit_of("gc_count"))


def test_the_collectors_milliseconds_are_taken_from_seconds_and_never_from_a_latency():
    experiment = two_variants()
    runs = [make_run(b, "p", v, None, t, 100, metrics={"gc_time_ms": gc, "p99_ms": 900.0, "wall_s": t}, told=("gc_time_ms",))
            for b in range(6) for v, t, gc in (("old", 2.0, 500.0), ("new", 1.8, 100.0))]
    for metric in ("cpu_s", "wall_s"):
        found = {b.variant: b for b in analyse(dataclasses.replace(experiment, time_metric=metric), runs).lower_bounds}
        assert found["old"].ratio.value == pytest.approx(2.0 / 1.5) and (found["old"].baseline, found["old"].unit) == (pytest.approx(1.5), "s")
    assert analyse(dataclasses.replace(experiment, time_metric="p99_ms"), runs).lower_bounds == ()


def latencies():
    """A sweep whose time is a latency: what is seconds elsewhere is milliseconds in it."""
    experiment, runs = simulated_sweep(np.random.default_rng(2), {"old": (1.3, 40.0, 60.0), "new": (1.1, 40.0, 45.0)})
    return dataclasses.replace(experiment, time_metric="p50_ms"), [dataclasses.replace(r, metrics={**r.metrics, "p50_ms": r.metrics["cpu_s"], "cpu_s": 7.0}) for r in runs]


def test_every_estimate_of_a_sweep_has_the_unit_of_its_metric():
    analysis = analyse(*latencies())
    assert {(level.metric, level.mean.unit) for level in analysis.levels} >= {("p50_ms", "ms"), ("cpu_s", "s"), ("peak_mib", "MiB")}
    for curve in analysis.curves:
        assert [curve.a.unit, curve.b.unit, curve.c.unit] == ["ms", "ms·MiB", "MiB"]
        assert {(p.time.unit, p.space.unit) for p in curve.points} == {("ms", "MiB")}
    (c,) = analysis.comparisons
    assert (c.delta_a.unit, c.delta_c.unit, c.area.unit, c.space_unit) == ("ms", "MiB", "", "MiB")
    assert {at.unit for at in c.time_ratios} == {"MiB"} and {at.unit for at in c.space_ratios} == {"ms"}


def test_a_report_of_latencies_says_milliseconds():
    experiment, runs = latencies()
    content = page.build(experiment, {"contenders": {}}, runs, analyse(experiment, runs))
    said = " ".join(content.verdict)
    assert "Without collection new would take" in said and " ms less" in said and " ms it needs" in said and " s less" not in said and " s it needs" not in said
    cells = [cell for t in content.tables for cell in (*t.head, *(row[0] for row in t.rows))]
    assert "a: time without collection (ms)" in cells and "b: cost of collecting (ms·MiB)" in cells and "Δa (ms)" in cells
    assert any(cell.startswith("space at") and cell.endswith(" ms") for cell in cells)


def test_a_difference_has_its_metrics_unit():
    experiment = two_variants(contrasts=(Contrast("d", "peak_mib", "new", "old", difference=True), Contrast("r", "peak_mib", "new", "old")))
    runs = [make_run(b, "p", v, None, 1.0, s) for b in range(5) for v, s in (("old", 100.0), ("new", 90.0))]
    assert {a.contrast: a.estimate.unit for a in analyse(experiment, runs).answers} == {"d": "MiB", "r": ""}
