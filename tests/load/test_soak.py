"""Load: many connections, two processes, one store, for as long as the rig says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.load.gauge import Sample
from tests.load.soak import Soaked, Wrong
from tests.parts import needs
from tests.rigs import length, rig
from tests.store.postgres.server import folder_of_binaries

SECONDS = length(thin=8.0, long=60.0, full=600.0)
TWO_SERVERS_SECONDS = length(thin=6.0, long=30.0, full=600.0)
CONNECTIONS = length(thin=40, long=200, full=200)
ROOT = Path(__file__).parents[2]


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="reads what processes hold from Linux's /proc"
)
Record = Callable[[str, object], None]


@rig
@on_linux
def test_two_processes_serve_many_connections_without_an_error(record_property: Record) -> None:
    """Promise S4. Every answer is right, every signal comes once and in order, memory is flat."""
    soak(record_property, SECONDS)


@rig
@on_linux
def test_two_servers_over_postgresql_serve_many_connections_without_an_error(
    record_property: Record,
) -> None:
    """Promises G2, S4. What one was given the other has, and its subscribers hear of it."""
    needs("postgres", folder_of_binaries() is not None)

    soak(record_property, TWO_SERVERS_SECONDS, "--postgres")


def soak(record: Record, seconds: float, *words: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.load", "--seconds", str(seconds)),
            *("--connections", str(CONNECTIONS), *words),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + 120,
    )
    record("load", "; ".join(done.stdout.split("\n")))
    assert done.returncode == 0, done.stderr[-2_000:]


def test_what_grows_is_noticed() -> None:
    """A soak that cannot fail shows nothing."""
    flat = [Sample(float(at), 100_000_000 + at % 3, 300) for at in range(60)]
    growing = [Sample(float(at), 100_000_000 + at * 1_000_000, 300) for at in range(60)]
    opening = [Sample(float(at), 100_000_000, 300 + at) for at in range(90)]

    Soaked(samples=flat).check()
    with pytest.raises(Wrong, match="memory"):
        Soaked(samples=growing).check()
    with pytest.raises(Wrong, match="files"):
        Soaked(samples=opening).check()
