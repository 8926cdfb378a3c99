"""The build: the commit and time of this version.

A package has them in `_build.py`, which is written when it is built; a checkout asks git.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from msgspec import Struct

import contextrelay

UNKNOWN = "unknown"
GIT_S_MAX = 5


class Build(Struct, frozen=True, kw_only=True):
    """The version, commit and time of a build."""

    version: str
    commit: str = UNKNOWN
    built: str = UNKNOWN


@cache
def build() -> Build:
    """Return the build; unknown fields are `unknown`."""
    try:
        stamp = import_module("contextrelay._build")
    except ImportError:
        return Build(version=contextrelay.__version__, commit=_commit_here())
    return Build(version=contextrelay.__version__, commit=stamp.COMMIT, built=stamp.BUILT)


def _commit_here() -> str:
    root = Path(__file__).resolve().parents[2]
    # A package installed inside another repository's checkout is not of that commit.
    if not (root / ".git").exists() or not (root / "src" / "contextrelay").is_dir():
        return UNKNOWN
    from subprocess import SubprocessError, run

    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = run(command, capture_output=True, text=True, timeout=GIT_S_MAX, check=True)
    except (OSError, SubprocessError):
        return UNKNOWN
    return done.stdout.strip() or UNKNOWN
