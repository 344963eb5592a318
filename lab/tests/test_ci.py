"""Two revisions of a project, judged by intervals, as continuous integration meets it."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PYTHON

from ashlar_lab import ci
from ashlar_lab.options import Judgement
from ashlar_lab.store import database

SLOW = "end = __import__('time').process_time() + {seconds}\nwhile __import__('time').process_time() < end: pass\nprint({says!r})\n"


@pytest.fixture
def project(tmp_path):
    """A repository with a build step; `commit` adds a revision whose program takes so long and says so much."""
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(seconds, says="done"):
        (tmp_path / "source").write_text(SLOW.format(seconds=seconds, says=says))
        git("add", "source")
        git("commit", "-qm", str(seconds))

    git("init", "-q", "-b", "main")
    commit.git = git
    return commit


BUILD = ("--build", "cp source program.py")
RUN = ("--", PYTHON, "-S", "program.py")


def test_a_slower_change_fails_and_the_comment_says_by_how_much(ashlar, tmp_path, project):
    project(0.05)
    project(0.15)
    done = ashlar("ci", "--base", "HEAD~1", "--blocks", "6", "--markdown", "comment.md", *BUILD, *RUN)
    assert done.returncode == 1, done.stderr
    assert "**Worse by more than 5.0 %: CPU time of python" in done.stdout and " worse |" in done.stdout and "at different times" not in done.stdout
    assert (tmp_path / "comment.md").read_text() == done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == [".git", "comment.md", "source"], "revisions are built elsewhere and removed"
    assert subprocess.run(["git", "worktree", "list"], cwd=tmp_path, capture_output=True, text=True).stdout.count("\n") == 1


def test_a_change_of_nothing_passes_and_undecided_fails_only_when_strict(ashlar, project):
    project(0.05)
    assert ashlar("ci", "--base", "HEAD", "--blocks", "5", "--threshold", "2", "--strict", "-q", *BUILD, *RUN).returncode == 0
    # Below five blocks there is no interval, and so no verdict.
    arguments = ("ci", "--base", "HEAD", "--blocks", "1", "--metric", "wall_s", "-q", *BUILD)
    assert ashlar(*arguments, *RUN).returncode == 0
    assert ashlar(*arguments, "--strict", *RUN).returncode == 3


def test_a_stored_baseline_saves_measuring_it_again(ashlar, tmp_path, project):
    project(0.05)
    assert ashlar("ci", "--save", "main.ashlar", "--blocks", "6", "-q", *BUILD, *RUN).returncode == 0
    project(0.15)
    worse = ashlar("ci", "--baseline", "main.ashlar", "--blocks", "6", "-q", *BUILD, *RUN)
    assert worse.returncode == 1 and "against main.ashlar" in worse.stdout
    assert "\nThe two were measured at different times, and the machine may have been faster at one of them by more than 5.0 %; `--base` measures both in the same blocks.\n" in worse.stdout
    unknown = ashlar("ci", "--baseline", "main.ashlar", "--metric", "nonsense", "--blocks", "6", "-q", *BUILD, *RUN)
    assert unknown.returncode == 2 and "no run of main.ashlar has the metric 'nonsense'" in unknown.stderr and unknown.stderr.count("\n") == 1
    other = ashlar("ci", "--baseline", "main.ashlar", "--blocks", "2", "-q", *BUILD, *RUN, "another argument")
    assert other.returncode == 2 and "measured with other programs" in other.stderr and other.stderr.count("\n") == 1
    assert ashlar("compare", "-v", "a=env", "-v", "b=env", "--blocks", "1", "--store", "two.ashlar", "-q", "--", PYTHON, "-S", tmp_path / "source").returncode == 0
    two = ashlar("ci", "--baseline", "two.ashlar", *BUILD, *RUN)
    assert two.returncode == 2 and "holds several variants" in two.stderr and two.stderr.count("\n") == 1
    both = ashlar("ci", "--base", "HEAD", "--save", "main.ashlar", *BUILD, *RUN)
    assert both.returncode == 2 and "--save stores one" in both.stderr and both.stderr.count("\n") == 1


def test_of_a_large_baseline_all_runs_count(ashlar, tmp_path, project, monkeypatch, capsys):
    """Those, too, that would not be listed in a report."""
    project(0.05)
    assert ashlar("ci", "--save", "main.ashlar", "--blocks", "5", "-q", *BUILD, *RUN).returncode == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(database, "WHOLE_MAX", 3)
    monkeypatch.setattr(database, "SHOWN_MAX", 1)
    assert len(database.read_all([tmp_path / "main.ashlar"])[2]) == 1 + 2
    assert ci.judge(Judgement(command=list(RUN[1:]), stored=Path("main.ashlar"), build=BUILD[1], blocks=5, threshold=2.0, quiet=True)) == 0
    assert "| no change that matters |" in capsys.readouterr().out


def test_a_stored_baseline_is_replaced_by_a_newer_one_that_is_good(ashlar, tmp_path, project):
    """The line that saves a baseline runs on the main branch again and again."""
    project(0.05)
    line = ("ci", "--save", "main.ashlar", "--blocks", "1", *BUILD, *RUN)
    assert ashlar(*line).returncode == 0
    first = (tmp_path / "main.ashlar").read_bytes()
    again = ashlar(*line)
    assert again.returncode == 0 and "stored 1 blocks" in again.stderr
    second = (tmp_path / "main.ashlar").read_bytes()
    assert second != first
    flaky = "import os, sys, time\nopen('{0}', 'a').write('x')\nwhile time.process_time() < 0.06: pass\nsys.exit(os.path.getsize('{0}') == 3)\n".format(tmp_path / "runs")
    (tmp_path / "source").write_text(flaky)
    project.git("commit", "-qam", "flaky")
    broken = ashlar(*line)
    assert broken.returncode == 1 and "nothing is stored in main.ashlar: 1 of 3 runs" in broken.stderr
    assert (tmp_path / "main.ashlar").read_bytes() == second
    (tmp_path / "mine.txt").write_text("no store")
    refused = ashlar("ci", "--save", "mine.txt", "--blocks", "1", *BUILD, *RUN)
    assert refused.returncode == 2 and "mine.txt is no store" in refused.stderr and (tmp_path / "mine.txt").read_text() == "no store"


def test_other_output_fails_unless_it_is_ignored(ashlar, project):
    project(0.05, "one answer")
    project(0.05, "another")
    arguments = ("ci", "--base", "HEAD~1", "--blocks", "3", "--threshold", "2", "-q", *BUILD)
    failed = ashlar(*arguments, *RUN)
    assert failed.returncode == 1 and "its output differs from the baseline's" in failed.stdout
    assert ashlar(*arguments, "--ignore-output", *RUN).returncode == 0


def test_other_output_than_the_stored_baselines_fails_and_is_not_saved(ashlar, tmp_path, project):
    project(0.05, "one answer")
    for more, status in (("-q",), 1), (("--ignore-output",), 0):
        save = ("ci", "--save", "main.ashlar", "--blocks", "1", *more, *BUILD, *RUN)
        assert ashlar(*save).returncode == 0
        before = (tmp_path / "main.ashlar").read_bytes()
        project(0.05, f"another of {status}")
        done = ashlar("ci", "--baseline", "main.ashlar", *save[1:])
        assert done.returncode == status and ("prints something else than before.**" in done.stdout) == bool(status)
        assert ((tmp_path / "main.ashlar").read_bytes() == before) == bool(status)


def test_a_change_that_always_fails_is_not_taken_for_a_wrong_question(ashlar, tmp_path, project):
    project(0.05)
    assert ashlar("ci", "--save", "main.ashlar", "--blocks", "1", "-q", *BUILD, *RUN).returncode == 0
    before = (tmp_path / "main.ashlar").read_bytes()
    (tmp_path / "source").write_text("raise SystemExit(7)")
    project.git("commit", "-qam", "broken")
    done = ashlar("ci", "--baseline", "main.ashlar", "--markdown", "comment.md", "-q", *BUILD, *RUN)
    assert done.returncode == 1 and "on HEAD: it ended with exit status 7.**" in done.stdout and (tmp_path / "comment.md").read_text() == done.stdout
    again = ashlar("ci", "--save", "main.ashlar", "-q", *BUILD, *RUN)
    assert again.returncode == 1 and "nothing is stored in main.ashlar" in again.stderr and (tmp_path / "main.ashlar").read_bytes() == before


@pytest.mark.parametrize(("arguments", "complaint"), [
    ((), "nothing to compare with; give --base REVISION"),
    (("--base", "nowhere"), "git knows no revision 'nowhere' here"),
    (("--base", "HEAD", "--baseline", "x.ashlar"), "give one of them"),
    (("--baseline", "x.ashlar"), "there is no store x.ashlar"),
    (("--base", "HEAD", "--build", "echo my own words >&2; exit 7"), "the build of HEAD fails with status 7"),
    (("--base", "HEAD", "--threshold", "-1"), "--threshold -1.0 is negative"),
    (("--base", "HEAD", "--metric", "nonsense", "--blocks", "1"), "no run of HEAD has the metric 'nonsense'; give some of "),
])
def test_bad_input_gets_one_line(ashlar, tmp_path, project, arguments, complaint):
    project(0.06)
    done = ashlar("ci", "-q", *arguments, "--", PYTHON, "-S", "source")
    assert done.returncode == 2 and complaint in done.stderr and done.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".git", "source"]


def test_outside_a_repository_it_says_so(ashlar, tmp_path):
    done = ashlar("ci", "--base", "HEAD", "--", "true", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert done.returncode == 2 and "is in no git repository" in done.stderr


def test_a_project_in_a_subfolder_is_found_there(ashlar, tmp_path, project):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(SLOW.format(seconds=0.06, says="inner"))
    project.git("add", "inner")
    project.git("commit", "-qm", "inner")
    done = subprocess.run([sys.executable, "-m", "ashlar_lab", "ci", "--base", "HEAD", "--blocks", "2", "--threshold", "3", "-q", *RUN],
                          cwd=tmp_path / "inner", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
