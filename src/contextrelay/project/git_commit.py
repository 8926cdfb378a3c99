"""Commits of the project's files, and nothing else, with git; only on demand.

Rule: git runs what the user's own `git commit` would run there, such as hooks and filters, and
nothing more. A folder that is laid out as a bare repository, as a clone can bring one, is not taken
for one: its settings could name any program.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from contextrelay.errors import Failed, Invalid
from contextrelay.model.project import FILES
from contextrelay.project.files import confined

_GIT_S_MAX = 60


def commit(folder: Path, message: str) -> str:
    """Commit the four files; returns the short id of the commit, or "" where nothing had changed.

    What else is staged stays staged, and is not committed.

    Raises:
        Invalid: there is no git here.
        Failed: git refuses.
    """
    names = [name for name in FILES if confined.exists(folder, name)]
    inside = _git(folder, "rev-parse", "--is-inside-work-tree")
    if inside.returncode:
        raise Invalid(
            f"{folder} is in no git repository; the files are written",
            "git init, or leave out --commit",
        )
    _checked(_git(folder, "add", "--", *names))
    if not _git(folder, "status", "--porcelain", "--", *names).stdout.strip():
        return ""
    _checked(_git(folder, "commit", "--quiet", "--only", "-m", message, "--", *names))
    return _git(folder, "rev-parse", "--short", "HEAD").stdout.strip()


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-c", "safe.bareRepository=explicit", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_S_MAX,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise Invalid(
            "git is not installed; the files are written", "install it, or leave out --commit"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"git {words[0]} took over {_GIT_S_MAX} s", "see what it waits for") from error


def _checked(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(
            f"git refused: {lines[0] if lines else done.returncode}",
            "the files are written; commit them by hand",
        )
