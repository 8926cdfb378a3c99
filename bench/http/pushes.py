"""Durable pushes: small against the same server without a store, large against plain files.

Every body is a new one. A push is answered when it is on disk.
"""

from __future__ import annotations

import os
import random
import string
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from msgspec.json import encode

from bench.http.load import CONNECTIONS, Load, Pushes, compared
from bench.http.pulls import text
from bench.http.servers import check_parts, program, relay
from bench.measure import Curve, Result

SMALL_BYTES, LARGE_BYTES = 1_000, 125_000


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    check_parts("wrk")
    with relay(folder / "small") as ours, program("discarding") as anchor:
        for kind, rest in kinds(SMALL_BYTES - 12).items():
            yield from compared(
                f"push 1 KB of {kind}, durable / the same server discards it",
                Pushes(ours, rest, as_json=True),
                Pushes(anchor, rest, as_json=True),
                0.2,
            )
    for syncs_folder, at_least in ((False, 0.7), (True, 0.0)):
        ending = " + folder fsync" if syncs_folder else ""
        with relay(folder / f"large{at_least}") as ours:
            yield from compared(
                f"push 125 KB, durable / write + fsync + rename{ending}, {CONNECTIONS} threads",
                Pushes(ours, _rest(LARGE_BYTES), as_json=False),
                Files(folder / f"files{at_least}", syncs_folder),
                at_least,
            )


class Files:
    """Plain files put the careful way, by as many threads as there are connections."""

    def __init__(self, folder: Path, syncs_folder: bool) -> None:
        folder.mkdir()
        self._folder = folder
        self._syncs_folder = syncs_folder
        self._rest = _rest(LARGE_BYTES).encode()
        self._numbers = count()

    def __call__(self, seconds: float) -> Load:
        used_s, begun_s = time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            ends = [begun_s + seconds] * CONNECTIONS
            made = sum(pool.map(self._until, range(CONNECTIONS), ends))
        taken_s, used_s = time.perf_counter() - begun_s, time.process_time() - used_s
        for path in self._folder.iterdir():
            path.unlink()
        return Load(made, taken_s * 1e6, cpu_us=used_s * 1e6 / made)

    def _until(self, thread: int, end_s: float) -> int:
        made = 0
        while time.perf_counter() < end_s:
            self._put(thread, next(self._numbers))
            made += 1
        return made

    def _put(self, thread: int, number: int) -> None:
        draft = self._folder / f"draft{thread}"
        handle = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(handle, b"%012d" % number + self._rest)
        os.fsync(handle)
        os.close(handle)
        draft.rename(self._folder / f"{number}")
        if self._syncs_folder:
            handle = os.open(self._folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def _rest(size: int) -> str:
    """What follows the number of 12 digits in a body of a size."""
    return text(size - 12, 7)


def kinds(size: int) -> dict[str, str]:
    """Bodies of a size, of kinds that cost differently to look at; the first are hardest."""
    dice = random.Random(7)
    lines = [
        f"2026-01-01T00:00:{number % 60:02}.123Z INFO worker-{number % 7} request"
        f" {dice.randbytes(4).hex()} done in {dice.randrange(999)} ms\n"
        for number in range(size // 40)
    ]
    rows = [{"id": number, "name": f"user{number}"} for number in range(size // 20)]
    return {
        "words at random": text(size, 7),
        "letters at random": "".join(dice.choices(string.ascii_letters + " \n", k=size)),
        "log lines": ("\n" + "".join(lines))[:size],
        "rows of JSON": encode(rows).decode()[:size],
    }
