"""Verbs on each engine, against its raw client doing the same round trips (engines/raw.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.engines.raw import (
    Call,
    RawCluster,
    RawPostgres,
    RawRedis,
    RawSqlite,
    do,
    others,
    recorded,
)
from bench.measure import Result, faster, in_turn
from contextrelay import Relay
from tests.store.engines import Servers, new_prefix

TIMES = 500
AT_LEAST = 0.5
FIRST = [{"op": "add", "path": "/facts/-", "value": {"id": "f", "key": "n", "value": "0"}}]


class Place(Struct, frozen=True):
    """A store on an engine, and another like it that the raw client writes to."""

    name: str
    client: str
    address: str
    other: str
    raw: Callable[[str], Any]
    """Makes a raw client over the store at an address."""
    is_cluster: bool = False


def places(servers: Servers, folder: Path) -> Iterator[Place]:
    """The engines; each server is started when its turn comes."""
    here, there = str(folder / "ours"), str(folder / "raw")
    yield Place("SQLite", "sqlite3", here, there, lambda path: RawSqlite(Path(path) / "relay.db"))
    for name, url_of, make in (
        ("Valkey", servers.single, RawRedis),
        ("Valkey cluster", servers.cluster, RawCluster),
        ("PostgreSQL", servers.postgres, RawPostgres),
    ):
        url = url_of()
        client = "psycopg" if make is RawPostgres else "redis-py"
        ours, raw = (f"{url}?prefix={new_prefix()}" for _ in range(2))
        opened = _opened(url, make)
        yield Place(name, client, ours, raw, opened, is_cluster=make is RawCluster)


def _opened(url: str, make: Callable[[str, str], Any]) -> Callable[[str], Any]:
    return lambda address: make(url, address.rpartition("=")[2])


def verbs(place: Place) -> Iterator[Result]:
    """Four verbs, one after another by one client."""
    with Relay(place.address) as relay, Relay(place.other):
        raw = place.raw(place.other)
        relay.push("the first")
        yield _push(place, relay, raw)
        yield _pull(place, relay)
        yield _patch(place, relay, raw)
        yield _publish(place, relay, raw)
        raw.close()


def _push(place: Place, relay: Relay, raw: Any) -> Result:
    def push(index: int) -> None:
        relay.push(_body(1_000), name="notes.md")

    calls = recorded(relay, lambda: push(0))
    return _compared(place, "push 1 KB", calls, push, raw)


def _pull(place: Place, relay: Relay) -> Result:
    refs = [each.ref for each in relay.push_many([_body(1_000) for _ in range(TIMES)])]
    raw = place.raw(place.address)
    with Relay(place.address) as other:
        asked = [recorded(other, lambda ref=ref: other.pull(ref)) for ref in refs]
    # Another one, which has nothing at hand that was read before.
    with Relay(place.address) as reader:
        reader.peek(refs[0])
        mine, theirs = in_turn(
            lambda index: reader.pull(refs[index]), lambda index: do(raw, asked[index]), TIMES
        )
    raw.close()
    return _result(place, "pull 1 KB", asked[1], mine, theirs)


def _patch(place: Place, relay: Relay, raw: Any) -> Result:
    thread = relay.new_thread("measured")
    thread.patch(FIRST)

    def patch(index: int) -> None:
        thread.patch([{"op": "replace", "path": "/facts/0/value", "value": f"value {index}"}])

    calls = recorded(relay, lambda: patch(0))
    return _compared(place, "patch a state", calls, patch, raw)


def _publish(place: Place, relay: Relay, raw: Any) -> Result:
    def publish(index: int) -> None:
        relay.publish("news", {"step": index, "done": True})

    calls = recorded(relay, lambda: publish(0))
    return _compared(place, "append a signal", calls, publish, raw)


def _compared(
    place: Place, name: str, calls: list[Call], ours: Callable[[int], None], raw: Any
) -> Result:
    prepared = [others(calls, number) for number in range(TIMES)]
    mine, theirs = in_turn(ours, lambda index: do(raw, prepared[index]), TIMES)
    return _result(place, name, calls, mine, theirs)


def _result(place: Place, name: str, calls: list[Call], mine: float, theirs: float) -> Result:
    trips = sum(_trips(place, call) for call in calls)
    noun = "round trip" if trips == 1 else "round trips"
    kinds = "calls" if place.name == "SQLite" else noun
    return faster(
        f"{place.name}: {name} / {place.client}, {trips} {kinds}", mine, theirs, "us", AT_LEAST
    )


def _trips(place: Place, call: Call) -> int:
    """A cluster takes the index entries of a commit in one trip, and then each write in one."""
    return len(call) if place.is_cluster and call[0] == "commit" else 1


def _body(size: int) -> bytes:
    """Text that was never stored before."""
    return os.urandom(size // 2).hex().encode()
