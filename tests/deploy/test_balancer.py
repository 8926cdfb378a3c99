"""Two servers over one PostgreSQL behind a real nginx are one relay: nobody stays with one."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from msgspec import Struct

from contextrelay import Relay
from contextrelay.errors import Full, Limited
from tests.deploy.proxy import Nginx
from tests.server.serving import Apart, serving_apart
from tests.store.engines import Servers, new_prefix
from tests.store.waiting import WAIT_S_MAX, until

PATCHES = 20
RATE = 12


class Balanced(Struct, frozen=True):
    """Two servers, and the one address of both."""

    url: str
    one: Apart
    two: Apart
    store: str


@pytest.fixture(scope="module")
def balanced(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    store = f"{servers.postgres()}?prefix={new_prefix()}"
    with ExitStack() as stack:
        one, two = (stack.enter_context(serving_apart(store)) for _ in range(2))
        nginx = Nginx(tmp_path_factory.mktemp("nginx"), one.port, two.port)
        stack.enter_context(nginx)
        yield Balanced(nginx.url, one, two, store)


def requests_of(server: Apart) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if "_http_requests_total{" in line)


def test_any_server_answers_any_request(balanced: Balanced) -> None:
    """Promises G2, T4."""
    before = [requests_of(each) for each in (balanced.one, balanced.two)]
    with Relay(balanced.url) as relay, ThreadPoolExecutor(4) as pool:
        thread = relay.new_thread("shared")

        def patch(number: int) -> int:
            fact = {"id": f"f{number}", "key": "n", "value": str(number)}
            return thread.patch([{"op": "add", "path": "/facts/-", "value": fact}]).version

        versions = list(pool.map(patch, range(PATCHES)))
        body = bytes(range(256)) * 2_000
        ref = thread.put(body).ref
        assert [relay.pull(ref) for _ in range(4)] == [body] * 4

    assert sorted(versions) == list(range(2, PATCHES + 2))
    after = [requests_of(each) for each in (balanced.one, balanced.two)]
    assert all(later > earlier + 5 for earlier, later in zip(before, after, strict=True))


def test_subscribers_of_any_server_hear_what_is_sent_to_another(balanced: Balanced) -> None:
    """Promises G2, S4."""
    urls = [balanced.url, balanced.one.url, balanced.two.url]
    with ExitStack() as stack:
        relays = [stack.enter_context(Relay(url)) for url in urls]
        pool = stack.enter_context(ThreadPoolExecutor(3))
        hearing = [pool.submit(hear, relay, 9) for relay in relays]
        for number in range(9):
            relays[number % 3].publish("news", number)

        for each in hearing:
            assert each.result(WAIT_S_MAX) == list(range(9))


def hear(relay: Relay, count: int) -> list[object]:
    return [signal.message for signal in islice(relay.subscribe("news", after=0), count)]


def test_what_is_found_by_one_server_was_pushed_to_another(balanced: Balanced) -> None:
    """Promise G2: each server has a search index of its own."""
    with Relay(balanced.one.url) as one, Relay(balanced.two.url) as two:
        refs = {
            one.push("the heron waits in the reeds", name="heron.md").ref,
            two.push("a heron flies over the reeds", name="flight.md").ref,
        }

        until(lambda: found(one) == found(two) == refs, "both in both indexes")


def found(relay: Relay) -> set[str]:
    return {hit.ref for hit in relay.search("heron reeds").hits}


def test_the_rate_of_a_key_is_that_of_all_servers_together(balanced: Balanced) -> None:
    """Promises G2, Z1."""
    with Relay(balanced.store) as owner:
        token = owner.new_key(name="paced", requests_per_minute=RATE).token
    began, allowed = time.monotonic(), 0
    with (
        Relay(balanced.one.url, api_key=token) as one,
        Relay(balanced.two.url, api_key=token) as two,
    ):
        for number in range(3 * RATE):
            try:
                (one, two)[number % 2].list(limit=1)
                allowed += 1
            except Limited:
                pass
    filled = (time.monotonic() - began) * RATE / 60

    assert RATE <= allowed <= RATE + filled + 1


def test_the_quota_of_a_key_is_that_of_all_servers_together(balanced: Balanced) -> None:
    """Promises G2, Z1."""
    with Relay(balanced.store) as owner:
        token = owner.new_key(name="bounded", scope="write", quota_bytes=10_000).token
    stored, refused = 0, set[int]()
    with (
        Relay(balanced.one.url, api_key=token) as one,
        Relay(balanced.two.url, api_key=token) as two,
    ):
        for number in range(8):
            try:
                (one, two)[number % 2].push(bytes([number]) * 3_000)
                stored += 1
            except Full as full:
                refused.add(full.status)

    assert (stored, refused) == (3, {402})


def test_a_server_that_dies_is_passed_over(balanced: Balanced, tmp_path: Path) -> None:
    """Promise G2."""
    with (
        serving_apart(balanced.store) as dying,
        Nginx(tmp_path, balanced.one.port, dying.port) as nginx,
        Relay(nginx.url) as relay,
    ):
        refs = [relay.push(f"before {number}").ref for number in range(4)]
        dying.kill()
        refs += [relay.push(f"after {number}").ref for number in range(8)]

        assert [relay.pull(ref).decode().split()[0] for ref in refs] == ["before"] * 4 + [
            "after"
        ] * 8
