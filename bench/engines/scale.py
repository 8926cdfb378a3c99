"""How a store grows: `python -m bench.engines.scale ENGINE SIZE...` prints a line for each size.

ENGINE is sqlite, postgres (on a disk, synced) or valkey (with `--nodes BYTES` as its setting
stream-node-max-bytes); `--search SIZE` fills the search index, too, up to that size. The store is
filled through its ledger, with the writes that a push of 300 B makes, and then measured through the
verbs: docs/scale.md has the table. A million takes minutes.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import psycopg
from msgspec.structs import replace
from redis import Redis

from bench.engines.raw import recorded
from bench.search import Texts
from contextrelay import Relay
from contextrelay.core.search_index import catch_up, index_of
from contextrelay.model.artifact import Artifact
from contextrelay.store.ledger import Row, Write
from contextrelay.verbs import Sweep
from tests.store.engines import Servers
from tests.store.postgres.server import PostgresServer

TIMES = 100
BATCH = 500


def main(words: list[str]) -> None:
    parser = ArgumentParser()
    parser.add_argument("engine", choices=["sqlite", "postgres", "valkey"])
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--nodes", default="", help="stream-node-max-bytes of Valkey")
    parser.add_argument("--search", type=int, default=0, help="measure search up to this size")
    asked = parser.parse_args(words)
    with TemporaryDirectory(prefix="relay-scale-") as folder:
        for address, used in _opened(asked.engine, Path(folder), asked.nodes):
            with Relay(address) as relay:
                filling = Filling(relay)
                for size in asked.sizes:
                    began_s = time.perf_counter()
                    filling.up_to(size)
                    filled_s = time.perf_counter() - began_s
                    found = _figures(relay, filling, is_searched=size <= asked.search)
                    disk, held = used()
                    print(
                        f"{asked.engine} {size:,}: {found}; filled in {filled_s:.0f} s; for each "
                        f"{disk / size:,.0f} B of disk, {held / size:,.0f} B of its memory",
                        flush=True,
                    )


Used = Callable[[], tuple[float, float]]
"""Bytes of disk, and bytes of a server's memory."""


def _opened(engine: str, folder: Path, nodes: str) -> Iterator[tuple[str, Used]]:
    if engine == "sqlite":
        yield str(folder / "store"), lambda: (_size(folder / "store"), 0)
    elif engine == "postgres":
        server = PostgresServer(within=None, shared_buffers="256MB", max_wal_size="1GB")
        server.start()
        try:
            yield server.url, lambda: (_database_size(server.url), 0)
        finally:
            server.end()
    else:
        servers = Servers()
        valkey: Any = servers.start(**({"stream-node-max-bytes": nodes} if nodes else {}))
        url = f"redis://127.0.0.1:{valkey.port}/0"
        try:
            yield url, lambda: (0, _used_memory(url))
        finally:
            servers.stop()


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _database_size(url: str) -> float:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return found[0]


def _used_memory(url: str) -> float:
    client = cast(Any, Redis).from_url(url)
    return float(client.info("memory")["used_memory"])


class Filling:
    """Artifacts like one that was pushed, each with a text and a ref of its own."""

    def __init__(self, relay: Relay) -> None:
        self._ledger = relay.transport.stores.ledger
        self._texts = Texts()
        self.queries = [" ".join(self._texts.query()) for _ in range(20)]
        body = self._text()
        made: list[Artifact] = []
        relay.push("the first")
        calls = recorded(relay, lambda: made.append(relay.push(body, name="note.md")))
        self._writes: tuple[Write, ...] = calls[-1][1:]
        self._old = (made[0].ref.encode(), made[0].sha256.encode(), body)
        self.refs = [made[0].ref]
        self.count = 2

    def up_to(self, size: int) -> None:
        while self.count < size:
            some = [self._another() for _ in range(min(BATCH, size - self.count))]
            self._ledger.commit(*_joined(chain.from_iterable(some)))
            self.count += len(some)

    def _another(self) -> list[Write]:
        body = self._text()
        ref = str(uuid.uuid4())
        if len(self.refs) < 10_000 or self.count % 100 == 0:
            self.refs.append(ref)
        new = (ref.encode(), hashlib.sha256(body).hexdigest().encode(), body)

        def renamed(said: bytes) -> bytes:
            for old, other in zip(self._old, new, strict=True):
                said = said.replace(old, other)
            return said

        def row(each: Row) -> Row:
            body = each.body or b""
            return replace(each, key=renamed(each.key.encode()).decode(), body=renamed(body))

        return [
            Write(
                renamed(write.log.encode()).decode(),
                tuple(map(renamed, write.facts)),
                tuple(map(row, write.rows)),
            )
            for write in self._writes
        ]

    def _text(self) -> bytes:
        return f"{self._texts.passage()[:290]} {os.urandom(6).hex()}".encode()


def _joined(writes: Iterator[Write]) -> list[Write]:
    """One write a log."""
    by_log: dict[str, Write] = {}
    for write in writes:
        before = by_log.get(write.log)
        if before is not None:
            facts, rows = before.facts + write.facts, before.rows + write.rows
            write = replace(write, facts=facts, rows=rows)
        by_log[write.log] = write
    return list(by_log.values())


def _figures(relay: Relay, filling: Filling, *, is_searched: bool) -> str:
    refs = filling.refs[:: max(1, len(filling.refs) // TIMES)]
    thread = relay.new_thread("measured")
    thread.patch([{"op": "add", "path": "/facts/-", "value": {"id": "f", "key": "n", "value": ""}}])
    patched = {"op": "replace", "path": "/facts/0/value", "value": "other"}
    stores = relay.transport.stores
    found = {
        "push": _ms(lambda _: relay.push(os.urandom(500).hex())),
        "pull": _ms(lambda index: relay.pull(refs[index % len(refs)])),
        "list 20": _ms(lambda _: relay.list(limit=20)),
        "patch": _ms(lambda _: thread.patch([patched])),
        "publish": _ms(lambda index: relay.publish("news", f"message {index}")),
        "sweep": _ms(lambda _: relay.transport.ask(Sweep(200, is_deep=False)), 10),
    }
    if is_searched:
        began_s = time.perf_counter()
        before = _memory()
        catch_up(stores, index_of(stores), float("inf"))
        found["index, s"] = time.perf_counter() - began_s
        found["index, MB"] = (_memory() - before) / 1e6
        found["search"] = _ms(lambda index: relay.search(filling.queries[index]), 20)
    return ", ".join(f"{name} {value:.2f}" for name, value in found.items())


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _ms(act: Callable[[int], object], times: int = TIMES) -> float:
    taken: list[float] = []
    for index in range(times):
        start = time.perf_counter()
        act(index)
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    main(sys.argv[1:])
