"""The settings of the built-in runtimes do in the real runtime what they are said to do, and the collector asked for is
the one that is loaded. Each runtime that is not installed is skipped; the mapping of settings alone is tested elsewhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ashlar_lab.store.database import read_all

PROGRAMS = Path(__file__).with_name("runtimes")


@pytest.fixture
def compare(tmp_path, ashlar):
    """Run variants of one command for two blocks; returns {(variant, knob value): mean metrics}."""
    def run(*arguments, **environment):
        done = ashlar("compare", *arguments[:-1], "--blocks", 2, "--store", tmp_path / "s.ashlar", "--form", "json", "-q", "--", *arguments[-1],
                      timeout=300, **environment)
        assert done.returncode == 0, done.stderr
        runs = [r for r in read_all([tmp_path / "s.ashlar"])[2] if r.block >= 0 and r.role == "main"]
        assert all(r.state == "ok" for r in runs), [(r.variant, r.state, r.reason, r.errors_tail) for r in runs]
        by_arm = {}
        for r in runs:
            by_arm.setdefault((r.variant, r.value), []).append(r.metrics)
        return {arm: {name: sum(m[name] for m in found) / len(found) for name in found[0]} for arm, found in by_arm.items()}
    return run


def installed(name):
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(scope="module")
def go_program(tmp_path_factory):
    made = tmp_path_factory.mktemp("go") / "churn"
    built = subprocess.run([installed("go"), "build", "-o", made, PROGRAMS / "churn.go"], capture_output=True, text=True, env={**os.environ, "GOFLAGS": "", "GO111MODULE": "off"})
    assert built.returncode == 0, built.stderr
    return made


def test_gogc_trades_memory_for_collections(compare, go_program):
    found = compare("-v", "go", "-k", "gogc=20,400", [go_program])
    little, much = found["go", "20"], found["go", "400"]
    assert (little["setting_percent"], much["setting_percent"]) == (20, 400)
    assert little["gc_count"] > 2 * much["gc_count"] and little["peak_mib"] < much["peak_mib"]


def test_gomemlimit_and_gomaxprocs_arrive(compare, go_program):
    found = compare("-v", "plain=go:maxprocs=1", "-v", "limited=go:gogc=off,memlimit=24MiB,maxprocs=1", [go_program])
    assert found["plain", None]["limit_mib"] == 0
    limited = found["limited", None]
    assert (limited["setting_percent"], limited["limit_mib"], limited["threads"]) == (-1, 24, 1) and limited["gc_count"] > 0


@pytest.fixture(scope="module")
def java_program(tmp_path_factory):
    installed("java")
    folder = tmp_path_factory.mktemp("java")
    subprocess.run([installed("javac"), "-d", folder, PROGRAMS / "Churn.java"], check=True)
    return ["java", "-cp", folder, "Churn"]


def test_the_jvms_collector_and_heap_are_the_ones_asked_for(compare, java_program):
    found = compare("-v", "serial=jvm:collector=serial,heap=32m", "-v", "g1=jvm:collector=g1,heap=256m", java_program)
    serial, g1 = found["serial", None], found["g1", None]
    assert (serial["is_serial"], serial["is_g1"], g1["is_serial"], g1["is_g1"]) == (1, 0, 0, 1)
    assert 24 <= serial["limit_mib"] <= 32 and g1["limit_mib"] == 256
    assert serial["gc_count"] > g1["gc_count"] and serial["peak_mib"] < g1["peak_mib"]


def test_nodes_heap_and_young_generation_are_the_ones_asked_for(compare):
    installed("node")
    found = compare("-v", "small=node:heap=64,semi_space=1", "-v", "large=node:heap=512,semi_space=32", ["node", PROGRAMS / "churn.js"])
    small, large = found["small", None], found["large", None]
    assert large["limit_mib"] - small["limit_mib"] >= 512 - 64
    assert small["gc_count"] > 2 * large["gc_count"]


def test_ashlars_space_overhead_trades_memory_for_collections(compare, ruby):
    program, library = ruby
    found = compare("-v", f"ashlar=ruby:library={library}", "-k", "space_overhead=20,400", [program, "--disable-gems", PROGRAMS / "churn.rb"])
    little, much = found["ashlar", "20"], found["ashlar", "400"]
    assert little["gc_count"] > 1.5 * much["gc_count"] and little["peak_mib"] < much["peak_mib"]


def test_the_default_collectors_growth_knobs_arrive(compare, ruby):
    program, _ = ruby
    found = compare("-v", "tight=ruby:library=default,heap_growth_factor=1.01,malloc_limit=1000000,malloc_limit_max=1000000,oldmalloc_limit=1000000",
                    "-v", "loose=ruby:library=default,heap_growth_factor=3,malloc_limit=200000000,malloc_limit_max=400000000,oldmalloc_limit=200000000",
                    [program, "--disable-gems", PROGRAMS / "churn.rb"])
    assert found["tight", None]["gc_count"] > 1.5 * found["loose", None]["gc_count"]


def test_a_collector_that_is_not_loaded_is_found_out(ashlar):
    """A program without loadable collectors ignores the variable: both variants would be the same, and look equal."""
    done = ashlar("compare", "-v", "ruby", "-v", "other=ruby:library=default", "--", "sh", "-c", "sleep 0.1; echo 1")
    assert done.returncode == 2
    assert "librubygc.default was in no process's maps: the program did not load it" in done.stderr
