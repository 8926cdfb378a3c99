"""Metrics: what the server did, counted, and told as Prometheus reads it.

Every figure is one number in one long row of numbers, whose order follows from the paths alone. One
process keeps its row in memory. Several keep theirs in files that all of them can read, so that
whichever is asked tells the sum. A process that takes a dead one's place counts on in its file.

Rule: counting costs about a microsecond; whatever takes longer is done when the figures are asked.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

from contextrelay.errors import Invalid
from contextrelay.limits import WORKERS_MAX

if TYPE_CHECKING:
    from contextrelay.doors.http.server.router import Paths

NO_PLACE = "(none)"
"""The route of requests that lead nowhere: what clients make up may not become labels."""
OTHER = "(other)"
"""The methods and statuses that are not counted each by itself."""

STATUSES = tuple(int(status) for status in HTTPStatus)
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)

# Figures that belong to no route, by their place in the row.
IN_FLIGHT, SUBSCRIBERS, PUSHES, SIGNALS = range(4)
_GAUGES = (IN_FLIGHT, SUBSCRIBERS)
_FREE_FIGURES = 4

# The figures of one route and method, by their place in its part of the row.
_BUCKETS = len(STATUSES) + 1
_NANOSECONDS = _BUCKETS + len(BOUNDS_S) + 1
_BYTES_IN = _NANOSECONDS + 1
_BYTES_OUT = _BYTES_IN + 1
_PART = _BYTES_OUT + 1

_BOUNDS_NS = [round(bound * 1e9) for bound in BOUNDS_S]
_BY_STATUS = {status: place for place, status in enumerate(STATUSES)}


class Metrics:
    """The figures of one process, and the way to those of all."""

    def __init__(self, paths: Paths, folder: str = "") -> None:
        self.parts = _parts(paths)
        size = _FREE_FIGURES + _PART * len(self.parts)
        self._starts = {
            part: _FREE_FIGURES + _PART * index for index, part in enumerate(self.parts)
        }
        self._folder = folder
        self._file = _File(Path(folder), size) if folder else None
        self._numbers = self._file.numbers if self._file else [0] * size

    # Counting

    def begin(self) -> int:
        """Count a request in; returns what `end` is to be given back."""
        self._numbers[IN_FLIGHT] += 1
        return perf_counter_ns()

    def end(
        self, begun: int, path: str, method: str, status: int, bytes_in: int, bytes_out: int
    ) -> None:
        """Count a request that was answered; a status of 0 tells that nobody waited for it."""
        self.count(begun, path, method, status, bytes_in, bytes_out)
        self._numbers[IN_FLIGHT] -= 1

    def count(
        self, begun: int, path: str, method: str, status: int, bytes_in: int, bytes_out: int
    ) -> None:
        """Count a request that was never in flight: it was answered at once."""
        took_ns = perf_counter_ns() - begun
        numbers = self._numbers
        start = self._starts.get((path, method)) or self._starts[path, OTHER]
        numbers[start + _BY_STATUS.get(status, _BUCKETS - 1)] += 1
        numbers[start + _BUCKETS + bisect_left(_BOUNDS_NS, took_ns)] += 1
        numbers[start + _NANOSECONDS] += took_ns
        if bytes_in:
            numbers[start + _BYTES_IN] += bytes_in
        if bytes_out:
            numbers[start + _BYTES_OUT] += bytes_out

    def add(self, figure: int, amount: int = 1) -> None:
        """Count what belongs to no route."""
        self._numbers[figure] += amount

    # Telling

    def figures(self) -> Figures:
        """The figures of all processes together."""
        rows = _rows(Path(self._folder)) if self._folder else [list(self._numbers)]
        return Figures(self.parts, [sum(column) for column in zip(*rows, strict=True)])

    def close(self) -> None:
        if self._file is not None:
            self._numbers = [0] * len(self._numbers)  # Who still counts does no harm.
            self._file.close()


def _parts(paths: Paths) -> list[tuple[str, str]]:
    """Every route and method that is counted by itself, in the same order in every process."""
    parts = [(NO_PLACE, OTHER)]
    for path, place in sorted(paths.places.items()):
        methods = {*place.methods, "OPTIONS", OTHER, *(["HEAD"] if "GET" in place.methods else [])}
        parts += [(path, method) for method in sorted(methods)]
    return parts


class Part(NamedTuple):
    """What was counted of one route and method."""

    path: str
    method: str
    statuses: dict[str, int]
    buckets: Sequence[int]
    seconds: float
    bytes_in: int
    bytes_out: int


class Figures:
    """A row of numbers, read."""

    def __init__(self, parts: Sequence[tuple[str, str]], numbers: Sequence[int]) -> None:
        self._parts = parts
        self._numbers = numbers

    def free(self, figure: int) -> int:
        return self._numbers[figure]

    def parts(self) -> Iterable[Part]:
        """The routes and methods that were asked for at all."""
        for index, (path, method) in enumerate(self._parts):
            start = _FREE_FIGURES + _PART * index
            numbers = self._numbers[start : start + _PART]
            names = [*map(str, STATUSES), OTHER]
            statuses = {
                name: count for name, count in zip(names, numbers[:_BUCKETS], strict=True) if count
            }
            if statuses:
                yield Part(
                    path,
                    method,
                    statuses,
                    numbers[_BUCKETS:_NANOSECONDS],
                    numbers[_NANOSECONDS] / 1e9,
                    numbers[_BYTES_IN],
                    numbers[_BYTES_OUT],
                )


class _File:
    """A row in a file that others can read; while its process lives, nobody else writes there."""

    def __init__(self, folder: Path, size: int) -> None:
        self._handle = _taken(folder)
        os.ftruncate(self._handle, 8 * size)
        self._map = mmap.mmap(self._handle, 8 * size)
        self.numbers = memoryview(self._map).cast("q")
        for gauge in _GAUGES:
            self.numbers[gauge] = 0  # What a dead process had open is closed.

    def close(self) -> None:
        for gauge in _GAUGES:
            self.numbers[gauge] = 0
        self.numbers.release()
        self._map.close()
        os.close(self._handle)


def _taken(folder: Path) -> int:
    """The first file that no living process has."""
    import fcntl

    for index in range(WORKERS_MAX):
        handle = os.open(folder / str(index), os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        os.close(handle)
    raise Invalid(
        "there are too many processes to count", f"the limit is {WORKERS_MAX}; start fewer workers"
    )


def _rows(folder: Path) -> list[list[int]]:
    """The row of each process; one whose file is only being made counts for nothing yet."""
    rows = [list(memoryview(each.read_bytes()).cast("q")) for each in sorted(folder.iterdir())]
    size = max(map(len, rows), default=0)
    return [row for row in rows if len(row) == size]
