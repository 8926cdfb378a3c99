"""Masters that are killed under writers: what `durability=replicated` acknowledged is there.

And who listens meanwhile hears each signal once, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from contextrelay import Relay
from contextrelay.store.redis.client import ANSWER_S_MAX
from tests.rigs import length, rig
from tests.store.failover.hearing import Hearing
from tests.store.failover.writing import Writers, check_versions, patching
from tests.store.replicas import ReplicatedCluster, Watched

KILLS = length(thin=1, long=3, full=20)
WRITERS = 8
BETWEEN = 40
"""How many writes are acknowledged between two kills."""

Record = Callable[[str, object], None]


@rig
def test_nothing_acknowledged_is_lost_when_sentinels_choose_another_master(
    record_property: Record,
) -> None:
    """Promises G2, S4, T4."""
    watched = Watched(replicas=2)
    try:
        patch_through(watched.url, lambda _: watched.fail_over(), record_property)
    finally:
        watched.stop()


@rig
def test_nothing_acknowledged_is_lost_when_the_master_of_a_slot_is_killed(
    record_property: Record,
) -> None:
    """Promises G2, S4, T4."""
    cluster = ReplicatedCluster()
    try:
        patch_through(
            cluster.url,
            lambda thread_id: cluster.fail_over(f"rig:{{t/{thread_id}}}:h"),
            record_property,
        )
    finally:
        cluster.stop()


def patch_through(url: str, fail_over: Callable[[str], None], record: Record) -> None:
    """Eight clients patch one thread while its master is killed, again and again."""
    with ExitStack() as stack:
        relays = [
            stack.enter_context(Relay(f"{url}?durability=replicated&prefix=rig"))
            for _ in range(WRITERS)
        ]
        thread_id = relays[0].new_thread("shared").id
        heard = Hearing(relays[-1], "news")
        stack.callback(heard.stop)
        writers = Writers("w", [patching(relay, thread_id) for relay in relays])
        sender = Writers("s", [lambda name: relays[0].publish("news", name).seq])
        try:
            for _ in range(KILLS):
                writers.more(BETWEEN)
                fail_over(thread_id)
            writers.more(BETWEEN)
        finally:
            writers.stop()
            sender.stop()
        signals = relays[1].signals("news").head
        record("kills", KILLS)
        record("acknowledged", len(writers.promised))
        record("signals", signals)
        record("refused", writers.refused)
        record("longest wait s", round(writers.longest_s, 1))
        check_versions(writers.promised, relays[-1], thread_id)
        said = heard.all(signals)
        assert [seq for seq, _ in said] == list(range(1, signals + 1))
        assert set(sender.promised) <= {(seq, str(message)) for seq, message in said}
        assert len({message for _, message in said}) == signals
        assert writers.longest_s < ANSWER_S_MAX
