"""Engines that are killed under pushes: every acknowledged body is there, by its hash.

The bodies are of every storage class. After the last kill each acknowledged one is pulled through
a new connection, and `verify` reads all the others.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from contextrelay import Relay
from tests.rigs import Record, length, record_bodies, rig, some
from tests.server.serving import serving_apart
from tests.store.failover.bodies import BodyPushes
from tests.store.failover.writing import Writers
from tests.store.postgres.server import PostgresServer
from tests.store.replicas import Node, ReplicatedCluster, Watched

SEED = 1
WRITERS = 8
BETWEEN = 24
"""How many pushes are acknowledged between two kills."""
KILL_WITHIN_S = 0.05
"""A kill comes within this time after the last of them, so that it hits any statement."""

Engine = tuple[str, Callable[[], None]]
"""An address, and what kills the engine and brings it back."""


@contextmanager
def postgres() -> Generator[Engine]:
    server = PostgresServer()
    server.start()

    def kill() -> None:
        server.kill()
        server.start()

    try:
        yield server.url, kill
    finally:
        server.end()


@contextmanager
def valkey() -> Generator[Engine]:
    """One server with an append-only file."""
    folder = Path(tempfile.mkdtemp(prefix="relay-valkey-"))
    node = Node(folder / "node", appendonly="yes", appendfsync="always")
    node.start()

    def kill() -> None:
        node.kill()
        node.start()

    try:
        yield f"redis://127.0.0.1:{node.port}/0", kill
    finally:
        node.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sentinels() -> Generator[Engine]:
    watched = Watched(replicas=2)
    try:
        yield f"{watched.url}?durability=replicated", watched.fail_over
    finally:
        watched.stop()


@contextmanager
def cluster() -> Generator[Engine]:
    """Three masters with a replica each; one master after the other is killed."""
    made = ReplicatedCluster()
    numbers = iter(range(1_000_000))
    try:
        yield (
            f"{made.url}?durability=replicated",
            lambda: made.fail_over(f"any{next(numbers)}"),
        )
    finally:
        made.stop()


def behind_server(
    engine: Callable[[], AbstractContextManager[Engine]],
) -> Callable[[], AbstractContextManager[Engine]]:
    """An engine, and a server over HTTP that stores side by side what comes side by side."""

    @contextmanager
    def served() -> Generator[Engine]:
        with engine() as (url, kill), serving_apart(url) as server:
            yield server.url, kill

    served.__name__ = f"{engine.__name__} served"
    return served


NAMES = {
    "postgres": "PostgreSQL killed",
    "valkey": "Valkey killed (`appendfsync always`)",
    "sentinels": "Valkey with Sentinel, master killed (`durability=replicated`)",
    "cluster": "Valkey Cluster, masters killed (`durability=replicated`)",
    "postgres served": "PostgreSQL behind a server, PostgreSQL killed",
    "valkey served": "Valkey behind a server, Valkey killed (`appendfsync always`)",
}
# With the kills of a run: until another master is chosen takes seconds.
ENGINES = [
    pytest.param(behind_server(postgres), length(thin=2, long=10, full=100), id="postgres-served"),
    pytest.param(sentinels, length(thin=1, long=1, full=10), id="sentinels"),
    pytest.param(cluster, length(thin=1, long=1, full=10), id="cluster"),
    pytest.param(valkey, length(thin=2, long=10, full=100), id="valkey"),
    pytest.param(postgres, length(thin=2, long=10, full=100), id="postgres"),
    pytest.param(behind_server(valkey), length(thin=2, long=10, full=100), id="valkey-served"),
]


@rig
@pytest.mark.parametrize(("engine", "kills"), some(ENGINES, thin=2))
def test_every_acknowledged_body_survives_the_kill_of_its_engine(
    engine: Callable[[], AbstractContextManager[Engine]], kills: int, record_property: Record
) -> None:
    """Promise G2."""
    chance = Random(SEED)
    with ExitStack() as stack:
        url, kill = stack.enter_context(engine())
        relays = [stack.enter_context(Relay(url)) for _ in range(2)]
        pushes = BodyPushes(SEED)
        writers = Writers("w", [pushes.pushing(relays[n % 2]) for n in range(WRITERS)])
        try:
            for _ in range(kills):
                writers.more(BETWEEN)
                threading.Event().wait(chance.random() * KILL_WITHIN_S)
                kill()
            writers.more(BETWEEN)
        finally:
            writers.stop()
        with Relay(url) as after:
            counts = pushes.check(after)
            report = after.verify()

    record_bodies(record_property, NAMES[engine.__name__], SEED, kills, counts)
    assert not any(each.lost or each.doubled for each in counts.values()), counts
    assert not report.problem_count, report.problems[:3]
