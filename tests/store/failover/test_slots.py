"""Slots that move to another master under writers: nothing is lost, and callers see a delay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from contextrelay import Relay
from contextrelay.store.redis.client import ANSWER_S_MAX
from tests.rigs import length, rig, some
from tests.store.failover.writing import Writers, check_versions, patching
from tests.store.replicas import Node, ReplicatedCluster
from tests.store.waiting import until

ROUNDS = length(thin=1, long=3, full=20)
WRITERS = 8
KEYS_AT_ONCE = 10
BETWEEN = 10
"""How many writes are acknowledged between two moves."""

Move = Callable[[ReplicatedCluster, int, Node, Node], None]


def key_by_key(cluster: ReplicatedCluster, slot: int, source: Node, target: Node) -> None:
    """As `valkey-cli --cluster reshard` does: for a while some keys are here and others there.

    Until all are there, a script that uses several is refused by both.
    """
    names = {node: node.ask("CLUSTER", "MYID").decode() for node in (source, target)}
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE):
        source.ask("MIGRATE", target.host, target.port, "", 0, 5_000, "KEYS", *keys)
    for node in (target, source, *cluster.masters()):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[target])


def at_once(cluster: ReplicatedCluster, slot: int, source: Node, target: Node) -> None:
    """As Valkey 9 does by itself."""
    name = target.ask("CLUSTER", "MYID").decode()
    source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", name)
    until(lambda: cluster.owner_of(slot, source) is target, "the slot")


CASES: list[tuple[Move, str]] = [
    (key_by_key, "replicated"),
    (at_once, "replicated"),
    (key_by_key, "fast"),
    (at_once, "fast"),
]


@rig
@pytest.mark.parametrize(("move", "durability"), some(CASES, thin=1))
def test_slots_that_move_under_load_lose_nothing(
    move: Move, durability: str, record_property: Callable[[str, object], None]
) -> None:
    """Promises G2, T4. What takes longer than is hidden is refused, and may be asked again."""
    cluster = ReplicatedCluster()
    try:
        with ExitStack() as stack:
            url = f"{cluster.url}?durability={durability}&prefix=rig"
            relays = [stack.enter_context(Relay(url)) for _ in range(WRITERS)]
            thread_id = relays[0].new_thread("shared").id
            slots = [
                cluster.nodes[0].ask("CLUSTER", "KEYSLOT", f"rig:{{{tag}}}:h")
                for tag in (f"t/{thread_id}", "restore", *(f"logs:{each:02}" for each in range(4)))
            ]
            writers = Writers("w", [patching(relay, thread_id) for relay in relays])
            try:
                for _ in range(ROUNDS):
                    for slot in slots:
                        writers.more(BETWEEN)
                        move(cluster, slot, *cluster.source_and_target(slot))
                writers.more(BETWEEN)
            finally:
                writers.stop()
            record_property("moves", ROUNDS * len(slots))
            record_property("acknowledged", len(writers.promised))
            record_property("longest wait s", round(writers.longest_s, 1))
            record_property("refused", writers.refused)
            assert move is key_by_key or writers.refused == 0
            assert writers.longest_s < ANSWER_S_MAX
            check_versions(writers.promised, relays[-1], thread_id)
    finally:
        cluster.stop()
