"""An allocator that is worse by known factors is found out, by those factors, through the front door."""

import json
import os
import subprocess
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fake")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-o", folder / "program", FAKE / "program.c"], check=True)
    for name, waste, burn in (("good", 1, 5000), ("bad", 2, 7500), ("same", 1, 5000)):
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", f"-DWASTE={waste}", f"-DBURN={burn}", "-o", folder / f"{name}.so", FAKE / "malloc.c"], check=True)
    return folder


def compare(ashlar, built, tmp_path, other):
    done = ashlar("compare", "-v", f"good=preload:{built}/good.so", "-v", f"other=preload:{built}/{other}.so", "--blocks", "5",
                  "--form", "json", "-q", "--", built / "program")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "program.json").read_text())
    ratios = {r["metric"]: r["ratio"] for r in found["analysis"]["ratios"]}
    return ratios, found["verdict"]


def test_a_worse_allocator_is_found_by_its_factors(ashlar, built, tmp_path):
    ratios, verdict = compare(ashlar, built, tmp_path, "bad")
    # 1.5 times the work per call; twice the memory of the blocks, beside a megabyte or two that is not the allocator's.
    assert ratios["cpu_s"]["low"] > 1.15 and 1.25 < ratios["cpu_s"]["value"] < 1.75
    assert 1.8 < ratios["peak_mib"]["low"] <= ratios["peak_mib"]["high"] < 2.05
    assert all("worse" in sentence for sentence in verdict)


def test_an_equal_allocator_is_not_called_different_in_space(ashlar, built, tmp_path):
    ratios, _ = compare(ashlar, built, tmp_path, "same")
    assert ratios["peak_mib"]["value"] == pytest.approx(1.0, abs=0.02)
