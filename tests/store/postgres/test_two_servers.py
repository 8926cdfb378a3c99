"""Servers over one PostgreSQL behave as one relay, also where it is killed under load."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from contextrelay import Relay
from contextrelay.errors import Unavailable
from contextrelay.store.ledger import Write
from contextrelay.store.postgres.ledger import PostgresLedger
from tests.rigs import length, rig
from tests.server.serving import serving_apart
from tests.store.engines import Servers, new_prefix
from tests.store.postgres.server import PostgresServer
from tests.store.waiting import WAIT_S_MAX

PATCHES = length(thin=60, long=1_000, full=1_000)
KILLS = length(thin=2, long=20, full=100)
WRITERS = 8
BETWEEN = 40
"""How many writes are acknowledged between two kills."""


@rig
def test_patches_through_two_servers_make_each_version_once(
    servers: Servers, record_property: Callable[[str, object], None]
) -> None:
    """Promises G2, T4."""
    store = f"{servers.postgres()}?prefix={new_prefix()}"
    with (
        serving_apart(store) as one,
        serving_apart(store) as two,
        Relay(one.url) as by_one,
        Relay(two.url) as by_two,
    ):
        relays = [by_one, by_two]
        thread = relays[0].new_thread("shared")

        def patch(number: int) -> int:
            fact = {"id": f"f{number}", "key": "n", "value": str(number)}
            there = relays[number % 2].thread(thread.id)
            return there.patch([{"op": "add", "path": "/facts/-", "value": fact}]).version

        with ThreadPoolExecutor(WRITERS * 2) as pool:
            versions = list(pool.map(patch, range(PATCHES)))

        assert sorted(versions) == list(range(2, PATCHES + 2))
        facts = relays[1].thread(thread.id).state()["facts"]
        assert {fact["id"] for fact in facts} == {f"f{number}" for number in range(PATCHES)}
    record_property("patches", PATCHES)


@rig
def test_nothing_acknowledged_is_lost_when_postgresql_is_killed_under_load(
    record_property: Callable[[str, object], None],
) -> None:
    """Promise G2. Listeners catch up; numbers have no gap."""
    server = PostgresServer()
    server.start()
    ledgers = [PostgresLedger(server.url) for _ in range(2)]
    acknowledged: queue.Queue[bytes] = queue.Queue()
    stop = threading.Event()
    heard = threading.Event()
    ledgers[1].listen(lambda log: heard.set())

    def write(writer: int) -> None:
        number = 0
        while not stop.is_set():
            body = b"%d.%d" % (writer, number)
            number += 1
            try:
                ledgers[writer % 2].commit(Write("a", (body,)))
            except Unavailable:
                continue  # It may have been done or not: nobody was promised anything.
            acknowledged.put(body)

    promised: list[bytes] = []
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            writing = [pool.submit(write, writer) for writer in range(WRITERS)]
            for _ in range(KILLS):
                promised += [acknowledged.get(timeout=WAIT_S_MAX) for _ in range(BETWEEN)]
                server.kill()
                server.start()
            promised += [acknowledged.get(timeout=WAIT_S_MAX) for _ in range(BETWEEN)]
            stop.set()
            for each in writing:
                each.result(WAIT_S_MAX)
        while not acknowledged.empty():
            promised.append(acknowledged.get())
        heard.clear()
        ledgers[0].commit(Write("b", (b"the end",)))

        assert heard.wait(WAIT_S_MAX)
        facts = ledgers[0].read("a", 0, 10**6)
        assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
        bodies = [fact.body for fact in facts]
        assert set(promised) <= set(bodies)
        assert len(set(bodies)) == len(bodies)
    finally:
        stop.set()
        for ledger in ledgers:
            ledger.close()
        server.end()
    record_property("kills", KILLS)
    record_property("acknowledged", len(promised))
