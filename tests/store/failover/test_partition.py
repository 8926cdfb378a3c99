"""A network that is cut in two: what is replicated stays, what is not goes; nobody waits for ever.

On the left of the cut is the master with its writers, on the right everybody else, also writers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from contextrelay.store.ledger import Write
from contextrelay.store.redis.client import ANSWER_S_MAX
from contextrelay.store.redis.ledger import RedisLedger
from tests.rigs import length, rig, some
from tests.store.failover.sides import Cable, Side
from tests.store.failover.writing import Writers, check_facts, putting_facts
from tests.store.replicas import ReplicatedCluster, Watched
from tests.store.waiting import until

CUTS = length(thin=1, long=2, full=10)
WRITERS = 4
"""On each side."""
BETWEEN = length(thin=10, long=40, full=40)
CUT_S = length(thin=1.0, long=8.0, full=12.0)
HEAR_S_MAX = 15.0
SLOT_OF_LEFT = 5_000

Record = Callable[[str, object], None]


@pytest.fixture
def cable() -> Iterator[Cable]:
    made = Cable()
    yield made
    made.end()


def cut_from_cluster(cable: Cable, tally: Tally) -> None:
    """While the only replica is behind the cut, nothing is acknowledged."""
    cluster = ReplicatedCluster(cable)
    home = cluster.nodes[0]
    log = next(
        name
        for name in map(str, range(1_000))
        if home.ask("CLUSTER", "KEYSLOT", f"rig:{{{name}}}:h") < SLOT_OF_LEFT
    )
    key = f"rig:{{{log}}}:h"
    try:
        with Sides(cable, cluster.url, log, "", tally) as sides:
            for _ in range(CUTS):
                sides.cut(lambda: cluster.owner_at(key, cluster.nodes[1]) is not home)
                until(cluster.is_whole, "the old master")
                sides.check_heal()
                home.ask("CLUSTER", "FAILOVER")
                until(lambda: cluster.owner_at(key, cluster.nodes[1]) is home, "the first master")
                until(cluster.is_whole, "all replicas")
            sides.check()
    finally:
        cluster.stop()


def cut_from_sentinels(cable: Cable, tally: Tally) -> None:
    """Of two replicas behind the cut one has to have a write."""
    for _ in range(CUTS):
        watched = Watched(replicas=2, cable=cable)
        try:
            with Sides(cable, watched.url, "a", "&replicas=1", tally) as sides:
                _cut_once(watched, sides)
        finally:
            watched.stop()


def _cut_once(watched: Watched, sides: Sides) -> None:
    home = watched.nodes[0]
    sides.cut(lambda: watched.master() is not home)
    until(lambda: watched.connected(watched.master()) == 2, "the old master")
    sides.check_heal()
    sides.check()


@rig
@pytest.mark.parametrize("cut", some([cut_from_cluster, cut_from_sentinels], thin=1))
def test_what_is_replicated_outlives_a_partition_and_what_is_not_is_lost(
    cut: Callable[[Cable, Tally], None], cable: Cable, record_property: Record
) -> None:
    """Promise G2. A cluster's master stops by itself: there few plain writes are lost, if any."""
    tally = Tally()

    cut(cable, tally)

    tally.record(record_property)
    assert cut is cut_from_cluster or tally.lost


class Tally:
    """What was seen, over all cuts."""

    def __init__(self) -> None:
        self.acknowledged = {"left": 0, "right": 0, "plain": 0}
        self.longest_s = {"left": 0.0, "right": 0.0, "plain": 0.0}
        self.lost = 0
        """Of the plain ones."""

    def add(self, name: str, writers: Writers) -> None:
        self.acknowledged[name] += len(writers.promised)
        self.longest_s[name] = max(self.longest_s[name], writers.longest_s)

    def record(self, record: Record) -> None:
        record("cuts", CUTS)
        for name, count in self.acknowledged.items():
            record(f"{name} acknowledged", count)
            record(f"{name} longest wait s", round(self.longest_s[name], 1))
        record("plain lost", self.lost)


class Sides:
    """Writers on both sides of a cable, and one who listens on the right."""

    def __init__(self, cable: Cable, url: str, log: str, options: str, tally: Tally) -> None:
        self._cable, self._log, self._tally = cable, log, tally
        self._stack = ExitStack()
        sure = f"{url}?durability=replicated{options}"
        left, right = cable.left, cable.right
        self._left = [self._open(left, sure) for _ in range(WRITERS)]
        self._right = [self._open(right, sure) for _ in range(WRITERS)]
        self._plain = [self._open(left, f"{url}?durability=fast", "plain") for _ in range(WRITERS)]
        self._heard = threading.Event()
        hear: Callable[[str | None], None] = lambda name: (  # noqa: E731
            self._heard.set() if name in (None, "news") else None
        )
        self._stack.callback(right.do(self._right[0].listen, hear))
        self._writers = {
            "left": self._writing("left", left, self._left),
            "right": self._writing("right", right, self._right),
            "plain": self._writing("plain", left, self._plain),
        }

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *ended: object) -> None:
        self._stack.close()

    def cut(self, is_chosen: Callable[[], bool]) -> None:
        """Cut the cable until the right has another master, and was able to use it; join it."""
        for writers in self._writers.values():
            writers.forget()
            writers.more(BETWEEN)
        self._cable.cut()
        until_s = time.monotonic() + CUT_S
        try:
            until(lambda: time.monotonic() > until_s and is_chosen(), "another master")
        finally:
            self._cable.join()

    def check_heal(self) -> None:
        """See that both sides write again, and that who listens hears of it."""
        for writers in self._writers.values():
            writers.forget()
            writers.more(BETWEEN)
        self._heard.clear()
        self._cable.right.do(self._right[1].commit, Write("news", (b"joined",)))
        assert self._heard.wait(HEAR_S_MAX)

    def check(self) -> None:
        """See that nothing that was promised is lost; count what is, of the plain writes."""
        for name, writers in self._writers.items():
            writers.stop()
            self._tally.add(name, writers)
        left, right, plain = (self._writers[name] for name in ("left", "right", "plain"))
        sure, fast = self._right[0], self._plain[0]
        self._cable.right.do(check_facts, left.promised + right.promised, sure, self._log)
        found = self._cable.left.do(fast.read, self._log, 0, 10**6)
        there = {(fact.seq, fact.body.decode()) for fact in found}
        self._tally.lost += len(set(plain.promised) - there)
        assert left.longest_s < ANSWER_S_MAX
        assert right.longest_s < ANSWER_S_MAX

    def _open(self, side: Side, url: str, prefix: str = "rig") -> RedisLedger:
        ledger = side.do(RedisLedger, url, prefix)
        self._stack.callback(ledger.close)
        return ledger

    def _writing(self, name: str, side: Side, ledgers: list[RedisLedger]) -> Writers:
        writers = Writers(name, [putting_facts(each, self._log) for each in ledgers], side.begin)
        self._stack.callback(writers.stop)
        return writers
