"""Pushes inside a process: looking at 1 KB, many at once against bare SQLite, and rows by size.

`python -m bench.pushes SIZE...` measures rows, pages and times in stores of other sizes.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.engines.scale import Filling
from bench.http.pushes import SMALL_BYTES, kinds
from bench.measure import Curve, Result, each, faster, flat, interleaved, within
from contextrelay import Relay
from contextrelay.content.preview import preview
from contextrelay.content.sniff import sniff_text
from contextrelay.core.search_index import catch_up, index_of

LOOKED_US = 60
ITEMS, GROUP = 5_000, 1_000
SIZES = (10_000, 100_000)
TOGETHER, TIMES = 8, 20
WAL_HEADER, WAL_FRAME = 32, 4_096 + 24


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    yield from looks()
    yield from many(folder)
    yield from growth(folder / "growth", SIZES)


def looks() -> Iterator[Result]:
    """Type and preview of 1 KB, in microseconds of processor."""
    for kind, rest in kinds(SMALL_BYTES - 12).items():
        body = f"{7:012}{rest}".encode()

        def look(body: bytes = body) -> None:
            sniff_text(body)
            preview(body, len(body), body.count(b"\n"), True)

        least = min(_cpu_us(look, 300) for _ in range(7))
        yield within(f"type and preview of 1 KB of {kind}", least, LOOKED_US, "us", 1)


def _cpu_us(act: Callable[[], object], times: int) -> float:
    start = time.thread_time_ns()
    for _ in range(times):
        act()
    return (time.thread_time_ns() - start) / 1_000 / times


def many(folder: Path) -> Iterator[Result]:
    """`push_many` against inserts of the same bodies, and of as many rows as a push has."""
    with Relay(folder / "many") as relay:
        bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE body (ref TEXT PRIMARY KEY, bytes BLOB NOT NULL)")
        columns = "log TEXT, kind TEXT, key TEXT, body BLOB, PRIMARY KEY (log, kind, key)"
        bare.execute(f"CREATE TABLE row ({columns})")

        def ours() -> float:
            return _us_each(lambda bodies: relay.push_many(bodies))

        def bodies_alone() -> float:
            return _us_each(lambda bodies: _insert(bare, "body (?, ?)", bodies, _body_rows))

        def rows_of_a_push() -> float:
            return _us_each(lambda bodies: _insert(bare, "row (?, ?, ?, ?)", bodies, _push_rows))

        title = f"push_many of {ITEMS:,} of 1 KB / bare SQLite in groups of {GROUP:,}"
        yield faster(f"{title}, 7 rows each", *interleaved(ours, rows_of_a_push), "us", 0.5)
        yield faster(f"{title}, one row each", *interleaved(ours, bodies_alone), "us", 0.0)
        bare.close()


def _us_each(put: Callable[[list[bytes]], object]) -> float:
    bodies = [os.urandom(SMALL_BYTES // 2).hex().encode() for _ in range(ITEMS)]
    start = time.perf_counter()
    put(bodies)
    return (time.perf_counter() - start) / ITEMS * 1e6


Rows = Sequence[tuple[str | bytes, ...]]


def _insert(
    bare: sqlite3.Connection, into: str, bodies: list[bytes], rows_of: Callable[[bytes], Rows]
) -> None:
    table, places = into.split(" ", 1)
    for start in range(0, len(bodies), GROUP):
        group = bodies[start : start + GROUP]
        bare.execute("BEGIN IMMEDIATE")
        rows = (row for body in group for row in rows_of(body))
        bare.executemany(f"INSERT INTO {table} VALUES {places}", rows)
        bare.execute("COMMIT")


def _body_rows(body: bytes) -> Rows:
    return [(str(uuid.uuid4()), body)]


def _push_rows(body: bytes) -> Rows:
    """As many rows of about the sizes that a push writes."""
    ref, log = str(uuid.uuid4()), f"b/{hashlib.sha256(body).hexdigest()}"
    return [
        (log, "body", "-", body),
        (log, "at", "-", bytes(19)),
        (log, "hold", ref, b""),
        (f"a/{ref}", "artifact", "-", body + bytes(700)),
        (f"a/{ref}", "fact", "1", bytes(350)),
        ("i/a/79223", "ref", f"{time.monotonic_ns():020}-{ref}", bytes(64)),
        ("i/added", "fact", f"{time.monotonic_ns():020}-{ref}", bytes(51)),
    ]


def growth(folder: Path, sizes: Iterable[int]) -> Iterator[Curve]:
    """Rows and pages of a push in groups of 8, and times of a push, a peek and a search."""
    found: dict[str, dict[str, float]] = {}
    with Relay(folder) as relay:
        filling = Filling(relay)
        for size in sizes:
            filling.up_to(size)
            catch_up(relay.transport.stores, index_of(relay.transport.stores), float("inf"))
            for name, value in _figures(relay, filling, folder).items():
                found.setdefault(name, {})[f"{size:,}"] = value
    for name, points in found.items():
        name, _, unit = name.partition(", ")
        yield flat(f"{name}, by artifacts in the store", points, unit or "a push", 1.3)


def _figures(relay: Relay, filling: Filling, folder: Path) -> dict[str, float]:
    refs = filling.refs
    rows, pages = _written(relay, folder / "relay.db")
    return {
        f"rows of a push in groups of {TOGETHER}": rows,
        f"pages of a push in groups of {TOGETHER}": pages,
        "push 1 KB, us": each(lambda _: relay.push(os.urandom(500).hex()), 100),
        "peek, us": each(lambda index: relay.peek(refs[index * 97 % len(refs)]), 500),
        "search, us": each(lambda index: relay.search(filling.queries[index % 20]), 40),
    }


def _written(relay: Relay, path: Path) -> tuple[float, float]:
    """What a push in a group writes: rows, and pages of the write-ahead log."""
    beside = sqlite3.connect(path)
    log = path.with_name("relay.db-wal")
    pages: list[float] = []
    before = _rows_ever(beside)
    for _ in range(TIMES):
        beside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        relay.push_many([os.urandom(500).hex() for _ in range(TOGETHER)])
        pages.append((log.stat().st_size - WAL_HEADER) / WAL_FRAME / TOGETHER)
    rows = (_rows_ever(beside) - before) / TIMES / TOGETHER
    beside.close()
    return rows, statistics.median(pages)


def _rows_ever(beside: sqlite3.Connection) -> int:
    """How many rows were ever written: a sweep deletes some meanwhile."""
    return sum(
        beside.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] for table in ("fact", "row")
    )


if __name__ == "__main__":
    with TemporaryDirectory(prefix="relay-bench-") as place:
        for curve in growth(Path(place), map(int, sys.argv[1:])):
            print(curve.name, curve.points, curve.unit, flush=True)
