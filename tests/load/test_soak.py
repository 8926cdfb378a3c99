"""Load: many connections, two processes, one store, for as long as the rig says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.load.gauge import Sample
from tests.load.soak import Soaked, Wrong
from tests.rigs import length, rig

SECONDS = length(thin=8.0, long=60.0, full=600.0)
CONNECTIONS = length(thin=40, long=200, full=200)
ROOT = Path(__file__).parents[2]


@rig
@pytest.mark.skipif(sys.platform != "linux", reason="reads what processes hold from Linux's /proc")
def test_two_processes_serve_many_connections_without_an_error(
    record_property: Callable[[str, object], None],
) -> None:
    """Promise S4. Every answer is right, every signal comes once and in order, memory is flat."""
    words = ["--seconds", str(SECONDS), "--connections", str(CONNECTIONS)]

    done = subprocess.run(
        [sys.executable, "-m", "tests.load", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )

    record_property("load", "; ".join(done.stdout.split("\n")))
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
