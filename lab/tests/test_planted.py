"""Differences that are there are found, and none that is not. `make simulate-lab` prints the rates."""

import pytest
import simulate_planted


@pytest.mark.parametrize("name", simulate_planted.RUNS)
def test_equal_variants_are_seldom_called_different_and_the_wrong_one_is_never_called_better(name):
    noise = simulate_planted.RUNS[name]
    assert sum(simulate_planted.verdicts(0.0, noise, 1000)) <= simulate_planted.FALSE_MOST + simulate_planted.by_chance(1000)
    assert all(simulate_planted.verdicts(planted, noise, 400)[1] <= 0.01 for planted in (0.03, 0.10))


def test_the_larger_a_difference_the_surer_it_is_found():
    found = [simulate_planted.verdicts(planted, simulate_planted.RUNS["normal, 2 %"], 400)[0] for planted in simulate_planted.PLANTED]
    assert found == sorted(found) and found[-1] >= 0.98 and 0.3 < found[2] < found[-1]
