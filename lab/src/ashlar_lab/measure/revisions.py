"""Two revisions of a project in folders of their own, each built there."""

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ashlar.errors import BadInput


@dataclass(frozen=True)
class Revision:
    """One revision: `name` as it was asked for, the whole commit, and the folder it is checked out in."""

    name: str
    commit: str
    folder: Path

    @property
    def short(self) -> str:
        return self.commit[:10]


def resolve(name: str) -> str:
    """The commit that a name stands for, in the repository of the current folder."""
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        inside = _git("rev-parse", "--is-inside-work-tree")
        if inside.returncode:
            raise BadInput(f"{os.getcwd()} is in no git repository; run it in the project whose revisions are compared")
        raise BadInput(f"git knows no revision {name!r} here; fetch it (a shallow clone has few), or name another")
    return found.stdout.strip()


@contextlib.contextmanager
def checked_out(names: list[str], build: str | None, say: Callable[[str], None]) -> Iterator[list[Revision]]:
    """Check each revision out beside the others and build it with `build`, a shell command; remove all of it afterwards. The folder a
    command runs in is the current one's counterpart, so that a project in a subfolder is found."""
    commits = [resolve(name) for name in names]
    inside = _git("rev-parse", "--show-prefix").stdout.strip()
    with tempfile.TemporaryDirectory(prefix="ashlar-ci-") as scratch, contextlib.ExitStack() as made:
        made.callback(_git, "worktree", "prune")
        found = []
        for number, (name, commit) in enumerate(zip(names, commits)):
            tree = Path(scratch) / f"{number}-{re.sub('[^A-Za-z0-9_.-]', '-', name)}"
            added = _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
            if added.returncode:
                raise BadInput(f"git cannot check out {name} ({commit[:10]}): {_last_line(added.stderr)}")
            made.callback(_git, "worktree", "remove", "--force", str(tree))
            folder = tree / inside
            if not folder.is_dir():
                raise BadInput(f"{name} has no folder {inside or '.'}, where this was started; start it where both revisions have something")
            if build:
                say(f"building {name} ({commit[:10]})")
                done = subprocess.run(["sh", "-c", build], cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
                if done.returncode:
                    raise BadInput(f"the build of {name} fails with status {done.returncode}: {shlex.quote(build)} wrote: {_last_line(done.stderr, done.stdout)}")
            found.append(Revision(name, commit, folder))
        yield found


def _last_line(*texts: str) -> str:
    """Of the first text that says anything."""
    return next((text.strip().splitlines()[-1] for text in texts if text.strip()), "no message")


def _git(*arguments: str) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise BadInput("git is not installed; install it, or compare two builds by --variant 'old=command:...'") from None
