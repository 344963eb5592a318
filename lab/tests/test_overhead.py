"""What the lab costs is found when it is there and not when it is not, on a machine whose speed wanders."""

import os
import random
import signal
import time
from array import array

import numpy as np
import pytest
from conftest import PYTHON

from ashlar_lab.fit.trimmed import Estimate
from ashlar.memory import launcher
from ashlar_lab.measure import overhead
from ashlar_lab.measure.overhead import BARE, BARE_TWIN, WATCHED, Window
from ashlar_lab.report import overhead as report

PIECE_S = 0.0015


def simulated(seed, constant=0.0, burst_s=0.0, blocks=30):
    """Pieces of work on a machine that wanders by a tenth within a second, with spikes and slow spells, and windows as the lab
    draws them. Watching costs the share `constant` of every piece, and `burst_s` in ten pieces a watched second."""
    rng = np.random.default_rng(seed)
    order = random.Random(seed)
    windows, clock = [], 1000.0
    for block in range(blocks):
        for way in overhead._order_of_block(order):
            start = clock + rng.uniform(0.006, 0.014)
            clock = start + overhead.WINDOW_S
            windows.append(Window(block, way, start, clock))
    count = int((clock - 1000) / PIECE_S)
    wander = np.zeros(count)
    for i, kick in enumerate(rng.normal(0, 0.1 * np.sqrt(2 * PIECE_S / 0.2), count - 1)):  # remembered for a fifth of a second
        wander[i + 1] = wander[i] * (1 - PIECE_S / 0.2) + kick
    speed = np.exp(wander + rng.normal(0, 0.05, count) + 0.3 * (np.arange(count) > count // 2)) * np.where(rng.random(count) < 0.01, 1.5, 1)
    pieces, watched_s, burst_due, now, window = array("q"), 0.0, 0.1 * rng.random(), 1000.0, 0
    for each in speed * PIECE_S / speed.mean():
        while window < len(windows) and windows[window].end_s < now:
            window += 1
        watched = window < len(windows) and windows[window].way == WATCHED and windows[window].start_s <= now
        if watched:
            watched_s += each
            each *= 1 + constant
            if watched_s > burst_due:
                each += burst_s
                burst_due += 0.1
        now += each
        pieces.extend((int(now * 1e9), int(now * 1e9)))
    return overhead.spent_by_way(pieces, windows)


@pytest.mark.parametrize(("constant", "burst_s"), [(0.05, 0), (0, 0.005)], ids=["in every piece", "in a few"])
def test_a_cost_of_five_per_cent_is_found_and_measured(constant, burst_s):
    for seed in range(3):
        found = overhead.ratio(simulated(seed, constant, burst_s), overhead.CPU, overhead.WATCHED_OVER_BARE)
        assert found.low > 1.01
        assert found.low - 0.005 <= 1.05 <= found.high + 0.005


def test_nothing_is_found_where_there_is_nothing_and_the_answer_is_narrow_enough():
    trials, missed = 12, 0
    for seed in range(trials):
        spent = simulated(100 + seed)
        for ways in (overhead.WATCHED_OVER_BARE, overhead.TWIN_OVER_BARE):
            found = overhead.ratio(spent, overhead.CPU, ways)
            missed += found.excludes(1.0)
            assert found.high - found.low < 0.03
    assert missed <= 4  # of 24 intervals that are wrong once in twenty


def test_a_piece_across_the_edge_of_a_window_is_divided_as_time_is():
    pieces = array("q", [n for end_ms in (0, 10, 20, 30, 40, 50, 60, 90) for n in (end_ms * 1000000, end_ms * 500000)])
    windows = [Window(0, way, start / 1000, (start + 25) / 1000) for way, start in ((WATCHED, 5), (BARE, 25), (BARE_TWIN, 50))]
    (spent,) = overhead.spent_by_way(pieces, windows)
    assert spent[:, overhead.PIECES] == pytest.approx([2.5, 2.5, 1.5])
    assert spent[0, overhead.CPU] == pytest.approx(0.0125) and spent[0, overhead.WALL] == pytest.approx(0.025)


def test_a_block_whose_windows_lie_outside_the_run_is_left_out():
    pieces = array("q", [n for end_ms in range(0, 40, 10) for n in (end_ms * 1000000, 0)])
    windows = [Window(0, WATCHED, 0, 0.02), Window(0, BARE, 0.01, 0.03), Window(0, BARE_TWIN, 5, 6)]
    assert len(overhead.spent_by_way(pieces, windows)) == 0


@pytest.mark.parametrize(("low", "high", "twin", "said"), [
    (0.998, 1.009, 1.000, "below 1 %: the whole interval is"),
    (0.998, 1.011, 1.000, "not decided: give more blocks"),
    (1.011, 1.020, 1.000, "above 1 %: the whole interval is"),
    (0.998, 1.009, 1.020, "nothing is decided: windows that are alike differ"),
    (1.011, 1.012, 1.004, "not decided: give more blocks"),
    (1.007, 1.009, 0.996, "not decided: give more blocks"),
])
def test_the_overhead_is_judged_by_its_interval(low, high, twin, said):
    cpu, alike = Estimate((low + high) / 2, low, high, 40), Estimate(twin, twin - 0.004, twin + 0.004, 40)
    assert said in report.text(overhead.Overhead(cpu, cpu, alike, alike, 0.005, 0.01, 40))


def test_a_real_program_is_watched_and_not_watched_in_turn():
    done = []
    found = overhead.measure(2, launcher_s=0.2, on_block=done.append)
    assert done == [1, 2] and found.blocks == 2
    assert 0 < found.launcher_share < 1 and found.cpu.value > 0


def test_an_interrupt_keeps_the_whole_blocks_there_are(monkeypatch):
    monkeypatch.setattr(overhead, "ROUNDS", 2)

    def stop(done):
        if done == 3:
            raise KeyboardInterrupt

    assert overhead.measure(9, launcher_s=0.1, on_block=stop).blocks == 3


def test_the_launcher_looks_away_and_again_when_told(tmp_path):
    code = "import time; time.sleep(1.2)"
    began = time.monotonic()
    process = launcher.start((PYTHON, "-S", "-c", code), result=tmp_path / "observed", environment=dict(os.environ), period_us=10000)
    time.sleep(0.3)
    away_from = time.monotonic()
    process.send_signal(signal.SIGUSR2)
    time.sleep(0.4)
    away_s = time.monotonic() - away_from
    process.send_signal(signal.SIGCONT)
    process.wait(timeout=60)
    lasted_s = time.monotonic() - began
    seen = launcher.read_observed(tmp_path / "observed")
    times = [at / 1e6 for at, *_ in seen.samples]
    assert seen.numbers["wall_ns"] / 1e9 < lasted_s - 0.8 * away_s, "its clock stood still"
    assert len(times) >= 8 and times[-1] > 0.5, "it looked again"
