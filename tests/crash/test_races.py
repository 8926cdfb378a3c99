"""Races that the kills have found, each played step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contextrelay import Full, Gone, Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.lifetime import settle
from contextrelay.core.artifacts.records import find_tombstone
from contextrelay.core.stores import Stores
from contextrelay.core.threads.threads import release_removed
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.engine import Engine
from contextrelay.store.ledger import Row, Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.verbs import (
    AddEvent,
    ForkThread,
    MakeCheckpoint,
    NewThread,
    PatchState,
    Pull,
    Push,
    Remove,
    RemoveThread,
    Sweep,
    Verify,
)
from tests.core.clock import DAY_MS, HOUR_MS, Clock, local


class Stage(MemoryLedger):
    """A ledger in which something happens right after the due list was read, or at a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.after_due: Callable[[], object] | None = None
        self.commits_left = 1_000_000

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        found = super().due(now_ms, limit)
        act, self.after_due = self.after_due, None
        if act is not None:
            act()
        return found

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        self.commits_left -= bool(writes)
        if self.commits_left < 0:
            raise Full("stopped here", "go on")
        return super().commit(*writes, id=id)


def test_a_sweep_during_a_removal_does_not_forget_its_tombstone() -> None:
    """Promise R6. The sweep sees a removal half done; when it looks again, it is done."""
    ledger = Stage()
    relay = Relay("memory:")
    relay.transport = Local(Stores(Engine("test", ledger, MemoryBlobs())))
    stores = relay.transport.stores
    ref = relay.push(b"to be removed").ref
    ledger.commits_left = 1
    with pytest.raises(Full):
        relay.remove(ref)
    ledger.commits_left = 1_000_000
    tombstone = find_tombstone(ledger, ref)
    assert tombstone is not None
    ledger.after_due = lambda: settle(stores, [tombstone])

    relay.sweep()

    with pytest.raises(Gone):
        relay.peek(ref)


def test_a_sweep_leaves_what_a_fork_holds_after_the_first_thread_is_gone() -> None:
    """Promise R6. The thread that it was put into has let go of it; another has not."""
    clock = Clock()
    core = local(clock)
    thread = core.ask(NewThread()).thread_id
    artifact = core.ask(Push(thread=thread), b"evidence")
    fork = core.ask(ForkThread(thread)).thread_id
    core.ask(RemoveThread(thread))
    clock.pass_ms(2 * HOUR_MS)

    core.ask(Sweep())

    assert core.ask(Pull(artifact.ref)).whole() == b"evidence"
    core.ask(RemoveThread(fork))
    with pytest.raises(Gone):
        core.ask(Pull(artifact.ref))


def test_a_sweep_during_the_removal_of_a_thread_does_not_forget_it() -> None:
    """Promise T1. The sweep sees a removal half done; when it looks again, it is done."""
    ledger = Stage()
    relay = Relay("memory:")
    relay.transport = Local(Stores(Engine("test", ledger, MemoryBlobs())))
    thread = relay.new_thread("short")
    ledger.commits_left = 1
    with pytest.raises(Full):
        thread.remove()
    ledger.commits_left = 1_000_000
    ledger.after_due = lambda: release_removed(relay.transport.stores, thread.id)

    relay.sweep()

    with pytest.raises(Gone):
        thread.show()


def test_a_patch_during_the_removal_of_a_thread_is_not_acknowledged() -> None:
    """Promise T1. The removal has begun; who had the state in memory hears of it by the log."""
    ledger = Stage()
    engine = Engine("test", ledger, MemoryBlobs())
    remover, writer = Local(Stores(engine)), Local(Stores(engine))
    thread = remover.ask(NewThread()).thread_id
    add = PatchState(thread, [{"op": "add", "path": "/note", "value": 1}])
    writer.ask(add)
    ledger.commits_left = 1
    with pytest.raises(Full):
        remover.ask(RemoveThread(thread))
    ledger.commits_left = 1_000_000

    for verb in (add, AddEvent(thread, "message.received"), MakeCheckpoint(thread, "late")):
        with pytest.raises(Gone):
            writer.ask(verb)


def test_what_was_removed_from_a_thread_long_ago_is_no_damage() -> None:
    """Promise G3. After 30 days nothing says any more that it was removed, or has expired."""
    clock = Clock()
    core = local(clock)
    thread = core.ask(NewThread()).thread_id
    core.ask(Remove(core.ask(Push(thread=thread), b"removed").ref))
    core.ask(Push(thread=thread, ttl_s=60), b"expired")
    for _ in range(3):
        clock.pass_ms(31 * DAY_MS)
        core.ask(Sweep())

    assert core.ask(Verify()).problems == []
