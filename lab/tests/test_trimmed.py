"""The intervals cover the truth as often as they claim, on noise shaped like timing noise."""

import math

import numpy as np
import pytest
from conftest import make_run, noisy, two_variants
from hypothesis import given
from hypothesis import strategies as st

from ashlar_lab.fit.difference import differences
from ashlar_lab.fit.trimmed import exp_estimate, mean, ratio_estimate, trimmed


@pytest.mark.parametrize("blocks", [5, 10, 20])
def test_the_ratio_interval_covers_the_truth_19_times_in_20(blocks):
    rng = np.random.default_rng(blocks)
    truth, hits, trials = 1.1, 0, 1500
    for _ in range(trials):
        first, second = truth * noisy(rng, blocks), noisy(rng, blocks)
        e = ratio_estimate(list(zip(first, second)))
        hits += e.low <= truth <= e.high
    assert 0.935 <= hits / trials <= 0.985


def test_the_geometric_mean_interval_covers_the_truth():
    rng = np.random.default_rng(7)
    truths, hits, trials = (0.8, 0.9, 1.2, 1.0), 0, 800
    whole = math.exp(np.mean(np.log(truths)))
    for _ in range(trials):
        parts = [trimmed(list(np.log(t * noisy(rng, 10) / noisy(rng, 10)))) for t in truths]
        e = exp_estimate(mean(parts, 10))
        hits += e.low <= whole <= e.high
    assert 0.93 <= hits / trials <= 0.99


@pytest.mark.parametrize("blocks", [(5, 5), (5, 10), (10, 10)])
@pytest.mark.parametrize("relative", [False, True])
def test_the_interval_of_a_difference_of_stores_covers_the_truth(blocks, relative):
    """Nominal 95 %; with `relative` the second store is of a day on which everything took 1.5 times as long."""
    rng = np.random.default_rng(blocks)
    experiment, truth, hits, trials = two_variants(), 1.1, 0, 400

    def measured(blocks, new, day):
        return [make_run(b, "p", v, None, day * f * t, 100) for v, f in (("old", 1.0), ("new", new)) for b, t in enumerate(noisy(rng, blocks, spikes=0))]

    for _ in range(trials):
        stores = measured(blocks[0], 0.8, 1.0), measured(blocks[1], 0.8 * truth, 1.5 if relative else 1.0)
        *_, found = differences(experiment, *stores, ["cpu_s"], 0.05, relative)
        hits += found.ratio.low <= truth <= found.ratio.high
    assert 0.925 <= hits / trials <= 0.99


def test_equal_contenders_are_called_different_once_in_twenty():
    rng = np.random.default_rng(3)
    wrong = sum(ratio_estimate(list(zip(noisy(rng, 10), noisy(rng, 10)))).excludes(1.0) for _ in range(1500))
    assert wrong / 1500 <= 0.065


def test_one_wild_run_in_five_does_not_move_the_mean():
    calm = [1.0, 1.01, 0.99, 1.0, 1.02]
    assert trimmed(calm[:4] + [50.0]).mean == pytest.approx(trimmed(calm).mean, rel=0.01)


def test_a_single_block_has_no_interval():
    e = ratio_estimate([(2.0, 1.0)])
    assert e.value == pytest.approx(2.0) and e.high == math.inf and not e.excludes(1.0)


def test_against_a_worked_example():
    # Ten values, two cut at each end: kept 3..8; winsorised 3,3,3,4,5,6,7,8,8,8; s_w² = 4.7222; se = √(9·4.7222/(6·5)).
    t = trimmed([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert t.mean == pytest.approx(5.5)
    assert t.error == pytest.approx(math.sqrt(42.5 / 30))
    assert t.half_width() == pytest.approx(2.570582 * t.error, rel=1e-6)  # t quantile of 5 degrees of freedom


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=30), st.floats(0.01, 100))
def test_scaling_one_side_scales_the_ratio(values, factor):
    """Units do not matter: seconds or milliseconds give the same comparison."""
    pairs = [(v, 1.0) for v in values]
    plain, scaled = ratio_estimate(pairs), ratio_estimate([(v * factor, 1.0) for v in values])
    assert scaled.value == pytest.approx(plain.value * factor, rel=1e-6)
    assert scaled.low == pytest.approx(plain.low * factor, rel=1e-5, abs=1e-12)


@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=2, max_size=30))
def test_swapping_the_sides_inverts_the_ratio(pairs):
    forth, back = ratio_estimate(pairs), ratio_estimate([(b, a) for a, b in pairs])
    assert back.value == pytest.approx(1 / forth.value, rel=1e-6)
