"""The version before this one: a wheel of the commit before the last change of a schema."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.parts import ROOT, has_command, needs

SCHEMAS = (
    "src/contextrelay/core/schema.py",
    "src/contextrelay/store/ledger/schema",
    "src/contextrelay/store/postgres/schema",
)
BUILD_S_MAX = 120


def older_version(folder: Path) -> Path:
    """Build the wheel and unpack it; what to put on PYTHONPATH to run it."""
    commit = commit_before_the_schema()
    needs("history", commit is not None)
    source, built, unpacked = folder / "source", folder / "built", folder / "unpacked"
    source.mkdir()
    tree = _git("archive", str(commit))
    subprocess.run(["tar", "-x", "-C", str(source)], input=tree, check=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
            *("--wheel-dir", str(built), str(source)),
        ],
        check=True,
        capture_output=True,
        timeout=BUILD_S_MAX,
    )
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(unpacked)
    runs = subprocess.run(
        [sys.executable, "-c", "import contextrelay; print(contextrelay.__file__)"],
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert runs.stdout.startswith(str(unpacked))
    return unpacked


def commit_before_the_schema() -> str | None:
    """The last commit that knew the schema before; None where there is no history of it."""
    if not has_command("git"):
        return None
    last = _git("log", "-1", "--format=%H", "--", *SCHEMAS).decode().strip()
    if not last:
        return None
    return _git("rev-parse", "--verify", "--quiet", f"{last}^").decode().strip() or None


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, timeout=60)
    return done.stdout
