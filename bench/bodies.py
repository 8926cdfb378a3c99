"""Bodies: put and get against plain files, peek against one row, and where rows stop paying."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Curve, Result, each, faster, interleaved, within
from contextrelay import Relay
from contextrelay.core.artifacts import bodies, incoming

SIZES = {"4 KB": (4_000, 200), "125 KB": (125_000, 100), "5 MB": (5_000_000, 12)}
CROSSOVER_SIZES = tuple(1024 << power for power in range(10))


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    for name, (size, times) in SIZES.items():
        yield from put_and_get(folder / name.replace(" ", ""), name, size, times)
    yield peek(folder / "peek")
    yield from crossover(folder / "crossover")


def put_and_get(folder: Path, name: str, size: int, times: int) -> Iterator[Result]:
    relay = Relay(folder / "store")
    counter = [0]
    rest = os.urandom(size)

    def content() -> bytes:
        """Content that was never stored before."""
        counter[0] += 1
        return b"%12d" % counter[0] + rest[12:]

    def put(index: int) -> None:
        refs.append(relay.push(waiting.pop(), ttl_s=None).ref)

    def put_file(index: int) -> None:
        files.append(_plain_put(folder, waiting.pop(), len(files)))

    refs: list[str] = []
    files: list[Path] = []
    waiting: list[bytes] = []

    def round_of(act: Callable[[int], None]) -> float:
        waiting.extend(content() for _ in range(times))
        return each(act, times)

    ours, anchor = interleaved(lambda: round_of(put), lambda: round_of(put_file))
    yield faster(f"put {name} / write + fsync + rename + fsync", ours, anchor, "us", 0.6)
    gets = min(times, len(refs))
    first, anchor = (
        each(lambda index: relay.pull(refs[index]), gets),
        each(lambda index: files[index].read_bytes(), gets),
    )
    yield faster(f"get {name}, first in a process: hash checked / read", first, anchor, "us", 0.0)
    ours, anchor = interleaved(
        lambda: each(lambda index: relay.pull(refs[index]), gets),
        lambda: each(lambda index: files[index].read_bytes(), gets),
    )
    yield faster(f"get {name} / read a file", ours, anchor, "us", 0.5)
    relay.close()


def _plain_put(folder: Path, content: bytes, number: int) -> Path:
    """A file put the careful way: whole or absent, and there after a power loss."""
    draft, path = folder / "draft", folder / f"{number}"
    handle = os.open(draft, os.O_CREAT | os.O_WRONLY)
    os.write(handle, content)
    os.fsync(handle)
    os.close(handle)
    draft.rename(path)
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    return path


def peek(folder: Path) -> Result:
    relay = Relay(folder)
    artifacts = relay.push_many([f"body {index}" for index in range(5_000)])
    refs = [artifact.ref for artifact in artifacts]
    plain = sqlite3.connect(folder / "plain.db", isolation_level=None)
    plain.execute("CREATE TABLE one (key TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")
    row = os.urandom(700)
    plain.executemany("INSERT INTO one VALUES (?, ?)", [(ref, row) for ref in refs])

    def read_row(index: int) -> None:
        plain.execute("SELECT body FROM one WHERE key = ?", (refs[index],)).fetchone()

    ours, anchor = interleaved(
        lambda: each(lambda index: relay.peek(refs[index]), len(refs)),
        lambda: each(read_row, len(refs)),
    )
    plain.close()
    relay.close()
    return within("peek / one SQLite row by key", ours, anchor, "us", 4)


def crossover(folder: Path) -> Iterator[Curve]:
    """Put and get by size, as a row and as a blob: the reason for ROW_BODY_BYTES_MAX."""
    before = bodies.ROW_BODY_BYTES_MAX
    for kind, limit in (("row", 1 << 30), ("blob", 0)):
        bodies.ROW_BODY_BYTES_MAX = limit  # pyright: ignore[reportConstantRedefinition]
        incoming.ROW_BODY_BYTES_MAX = limit  # pyright: ignore[reportConstantRedefinition]
        found = {size: _put_get_us(folder / kind, size) for size in CROSSOVER_SIZES}
        for index, act in enumerate(("put", "get")):
            points = {f"{size // 1024} KiB": taken[index] for size, taken in found.items()}
            yield Curve(f"{act} as a {kind}, by size", "us", points, "", True)
    bodies.ROW_BODY_BYTES_MAX = before  # pyright: ignore[reportConstantRedefinition]
    incoming.ROW_BODY_BYTES_MAX = before  # pyright: ignore[reportConstantRedefinition]


def _put_get_us(folder: Path, size: int) -> tuple[float, float]:
    """Put by one relay, got by another, which has nothing of it at hand."""
    made = [os.urandom(size) for _ in range(60)]
    refs: list[str] = []
    with Relay(folder) as relay:
        put_us = each(lambda index: refs.append(relay.push(made[index]).ref), len(made))
    with Relay(folder) as relay:
        relay.peek(refs[0])
        return put_us, each(lambda index: relay.pull(refs[index]), len(refs))
