"""Races that the kills have found, each played step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contextrelay import Full, Gone, Relay
from contextrelay.client.local import Local
from contextrelay.core.artifacts import find_tombstone
from contextrelay.core.lives import settle
from contextrelay.core.stores import Stores
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.engine import Engine
from contextrelay.store.ledger import Row, Write
from contextrelay.store.ledger.memory import MemoryLedger


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

    def commit(self, *writes: Write) -> list[int]:
        self.commits_left -= bool(writes)
        if self.commits_left < 0:
            raise Full("stopped here", "go on")
        return super().commit(*writes)


def test_a_sweep_beside_a_removal_does_not_forget_its_tombstone() -> None:
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
