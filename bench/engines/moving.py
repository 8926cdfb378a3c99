"""Moving: `relay migrate` between engines, and bodies in an object store against obstore alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import obstore
from obstore.store import from_url

from bench.measure import Curve, Result, faster, in_turn
from contextrelay import Relay
from contextrelay.client.transport.local import open_stores
from contextrelay.core.migrate import migrate
from contextrelay.store.ledger import Write
from tests.store.engines import Servers, new_prefix

BODIES, BODY_BYTES = 40, 5_000_000
EVENTS, EVENT_BYTES = 100_000, 300
ARTIFACTS = 2_000
BODIES_MB_S, EVENTS_S = 50, 5_000
OBJECT_SIZES = {"125 KB": (125_000, 100), "1 MB": (1_000_000, 50), "5 MB": (5_000_000, 16)}
ROUTES = (
    ("SQLite", "SQLite"),
    ("SQLite", "PostgreSQL"),
    ("SQLite", "Valkey"),
    ("SQLite", "Valkey cluster"),
    ("PostgreSQL", "SQLite"),
    ("PostgreSQL", "Valkey"),
    ("Valkey", "PostgreSQL"),
)
"""Each begins where one before it ended."""


def migrations(servers: Servers, folder: Path) -> Iterator[Curve]:
    """A whole migration: copied in a first pass, found equal in a second, opened."""
    for noun, fill, size, unit, asked in (
        ("bodies of 5 MB", _fill_bodies, BODIES * BODY_BYTES / 1e6, "MB/s", BODIES_MB_S),
        ("events of 300 B", _fill_events, EVENTS, "a second", EVENTS_S),
        ("artifacts of 1 KB", _fill_artifacts, ARTIFACTS, "a second", 0),
    ):
        rates: dict[str, float] = {}
        filled: dict[str, str] = {"SQLite": str(folder / noun.replace(" ", "-"))}
        fill(filled["SQLite"])
        for number, (start, end) in enumerate(ROUTES):
            target = _address(end, servers, folder / f"{noun[:3]}{number}")
            rates[f"{start} to {end}"] = size / _moved_s(filled[start], target)
            filled.setdefault(end, target)
        slowest = min(rates.values())
        aim = f"(asked {asked})" if asked else ""
        yield Curve(f"migrate {noun}, both passes", unit, rates, aim, slowest >= asked)


def _address(engine: str, servers: Servers, folder: Path) -> str:
    if engine == "SQLite":
        return str(folder)
    urls = {
        "PostgreSQL": servers.postgres,
        "Valkey": servers.single,
        "Valkey cluster": servers.cluster,
    }
    return f"{urls[engine]()}?prefix={new_prefix()}"


def _moved_s(start: str, end: str) -> float:
    """How long it takes, from when TO is locked: on a cluster that waits for 5 s, twice."""
    source, target = open_stores(start, None), open_stores(end, None)
    shown_s: list[float] = []
    try:
        assert migrate(source, target, lambda _: shown_s.append(time.perf_counter())).is_open
        return time.perf_counter() - shown_s[0]
    finally:
        source.close()
        target.close()


def _fill_bodies(address: str) -> None:
    with Relay(address) as relay:
        for _ in range(BODIES):
            relay.push(os.urandom(BODY_BYTES))


def _fill_events(address: str) -> None:
    with Relay(address) as relay:
        ledger = relay.transport.stores.ledger
        for _ in range(EVENTS // 1_000):
            facts = tuple(os.urandom(EVENT_BYTES) for _ in range(1_000))
            ledger.commit(Write("c/moved", facts))


def _fill_artifacts(address: str) -> None:
    with Relay(address) as relay:
        relay.push_many([os.urandom(500).hex() for _ in range(ARTIFACTS)])


def objects(servers: Servers) -> Iterator[Result]:
    """Push and first pull of bodies in S3 (moto's server), against obstore's put and get.

    The ledger is in memory: what is measured is the way of the bodies.
    """
    url = servers.s3().url(new_prefix())
    plain, _, query = url.partition("?")
    options: dict[str, Any] = dict(word.split("=", 1) for word in query.split("&"))
    raw = cast(Any, from_url)(plain + "-raw", client_options={"allow_http": "true"}, **options)
    with Relay("memory:objects", blobs=url) as relay:
        for name, (size, times) in OBJECT_SIZES.items():
            mine, other = ([os.urandom(size) for _ in range(times)] for _ in range(2))
            refs: list[str] = []
            paths = [f"{name}-{number}".replace(" ", "") for number in range(times)]
            ours, anchor = in_turn(
                lambda index, refs=refs, mine=mine: refs.append(relay.push(mine[index]).ref),
                lambda index, paths=paths, other=other: obstore.put(
                    raw, paths[index], other[index], use_multipart=False
                ),
                times,
            )
            yield faster(f"S3: push {name} / obstore put", ours, anchor, "us", 0.5)
            # Another one, which has nothing at hand that was read before.
            with Relay("memory:objects", blobs=url) as reader:
                ours, anchor = in_turn(
                    lambda index, refs=refs, reader=reader: reader.pull(refs[index]),
                    lambda index, paths=paths: bytes(obstore.get(raw, paths[index]).bytes()),
                    times,
                )
            yield faster(f"S3: pull {name}, hash checked / obstore get", ours, anchor, "us", 0.5)
