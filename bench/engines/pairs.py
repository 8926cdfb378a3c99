"""Two servers over one engine: the rates of both together against one, and how soon one hears."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator

from bench.http.hearing import heard, listening_apart
from bench.http.servers import relay as served
from bench.measure import ROUNDS, Result, faster
from contextrelay import Relay
from tests.store.engines import Servers, new_prefix

CLIENTS = 8
SECONDS = 1.5
HEARD_MS = 10.0

Act = Callable[[Relay, int], object]


def pairs(servers: Servers) -> Iterator[Result]:
    for name, url in (("PostgreSQL", servers.postgres()), ("Valkey", servers.single())):
        store = f"{url}?prefix={new_prefix()}"
        with served(store) as one, served(store) as two:
            yield from _rates(name, one.url, two.url)
            with listening_apart(two.url) as hear:
                said = f"{name}: push on one server to callback on the other"
                yield heard(said, one.url, hear, HEARD_MS)


def _rates(name: str, one: str, two: str) -> Iterator[Result]:
    """Eight clients of one server, and the same eight, four of each."""
    with Relay(one) as relay:
        refs = [each.ref for each in relay.push_many([_text() for _ in range(200)])]
    acts: dict[str, Act] = {
        "push 1 KB": lambda relay, number: relay.push(_text()),
        "pull 1 KB": lambda relay, number: relay.pull(refs[number % len(refs)]),
    }
    for verb, act in acts.items():
        pairs = [(_us_each([one, two], act), _us_each([one], act)) for _ in range(ROUNDS)]
        both, alone = (statistics.median(each) for each in zip(*pairs, strict=True))
        said = f"{name}: {verb}, {CLIENTS} clients, two servers / one"
        yield faster(said, both, alone, "us", 0.9)


def _us_each(urls: list[str], act: Act) -> float:
    """Microseconds for each of the calls that all clients make together."""
    made = [0] * CLIENTS
    relays = [Relay(urls[number % len(urls)]) for number in range(CLIENTS)]
    start = threading.Barrier(CLIENTS + 1)

    def ask(number: int) -> None:
        act(relays[number], number)
        start.wait()
        end_s = time.perf_counter() + SECONDS
        while time.perf_counter() < end_s:
            act(relays[number], made[number])
            made[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    start.wait()
    begun_s = time.perf_counter()
    for thread in threads:
        thread.join()
    taken_s = time.perf_counter() - begun_s
    for relay in relays:
        relay.close()
    return taken_s / sum(made) * 1e6


def _text() -> str:
    return os.urandom(500).hex()
