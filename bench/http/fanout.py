"""Fan-out: from a push to the last of 1,000 subscribers, against a bare picows loop.

The same client program holds both sides' subscribers, in a process of its own, and its clock takes
the time. A push is stored first; the picows server passes a frame on, and keeps nothing.
"""

from __future__ import annotations

import resource
import statistics
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode

from bench.http.servers import Served, program, relay, started
from bench.measure import ROUNDS, Curve, Result, Skipped

SUBSCRIBERS = 1_000
PUSHES = 20
AT_MOST = 1.4
FILES_MIN = SUBSCRIBERS + 200


class Heard(Struct, frozen=True):
    """Milliseconds until the last one had heard, for each time; and what they heard."""

    ms: list[float]
    frame_bytes: int


Hear = Callable[[int], Heard]
"""Sends something to all subscribers, some times, one after the other."""


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    if find_spec("picows") is None:
        raise Skipped("picows is not installed: pip install 'contextrelay[bench]'")
    _allow_files()
    with relay(folder) as ours, subscribers(ours, "push", 0) as hear_ours:
        frame_bytes = hear_ours(PUSHES).frame_bytes
        with program("broadcasting") as bare, subscribers(bare, "frame", frame_bytes) as hear_bare:
            assert hear_bare(PUSHES).frame_bytes == frame_bytes, "not the same frame"
            yield _compared(hear_ours, hear_bare, frame_bytes)


def _compared(hear_ours: Hear, hear_bare: Hear, frame_bytes: int) -> Result:
    pairs = [
        (statistics.median(hear_ours(PUSHES).ms), statistics.median(hear_bare(PUSHES).ms))
        for _ in range(ROUNDS)
    ]
    ratio = statistics.median(one / other for one, other in pairs)
    return Result(
        f"push to the last of {SUBSCRIBERS:,} subscribers / picows, a frame of {frame_bytes} B",
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
        "ms",
        ratio,
        f"<= {AT_MOST}x",
        ratio <= AT_MOST,
    )


@contextmanager
def subscribers(server: Served, trigger: str, frame_bytes: int) -> Generator[Hear]:
    """The client program, with its subscribers at a server."""
    words = [server.host, trigger, str(SUBSCRIBERS), str(frame_bytes)]
    with started(sys.executable, "-m", "bench.http.subscribers", *words) as running:

        def hear(times: int) -> Heard:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(b"%d\n" % times)
            running.stdin.flush()
            return decode(running.stdout.readline(), type=Heard)

        yield hear


def _allow_files() -> None:
    """Let this process, and those it starts, have enough connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_MIN:
        if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
            raise Skipped(f"only {hard} files may be open here: ulimit -n {FILES_MIN}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MIN, hard))
