"""Signals of pushes that met an engine which was away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.errors import Unavailable
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import Fact, Ledger, Write
from contextrelay.store.ledger.view import LedgerView
from tests.store.waiting import until

SIGNALS_LOG = "c/news"


class Away(LedgerView):
    """A ledger whose engine is away when a signal is written, until it is back."""

    def __init__(self, inner: Ledger) -> None:
        super().__init__(inner)
        self.is_away = True
        self.ends_after_thread = False
        """Whether the reply to a write into a thread is lost, and nothing is answered after it."""
        self._has_ended = False

    def back(self) -> None:
        self.is_away = self.ends_after_thread = self._has_ended = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if self.is_away and any(write.log == SIGNALS_LOG and write.facts for write in writes):
            raise AWAY
        heads = super().commit(*writes, id=id)
        self._has_ended = self.ends_after_thread and any(
            write.log.startswith("t/") for write in writes
        )
        self._answer()
        return heads

    def last(self, log: str) -> int:
        self._answer()
        return super().last(log)

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        self._answer()
        return super().read(log, after, limit)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        self._answer()
        return super().get(log, kind, key)

    def _answer(self) -> None:
        if self._has_ended:
            raise AWAY


AWAY = Unavailable("the store's server does not answer", "try again")


@pytest.fixture
def away() -> Iterator[tuple[Relay, Away]]:
    with Relay("memory:") as relay:
        engine = open_engine("memory:")
        ledger = Away(engine.ledger)
        relay.transport = Local(Stores(replace(engine, ledger=ledger)))
        yield relay, ledger


@pytest.mark.parametrize("key", ["", "a key"])
def test_a_thread_push_signals_as_soon_as_the_engine_is_back(
    away: tuple[Relay, Away], key: str
) -> None:
    relay, ledger = away
    thread = relay.new_thread("release")
    pushing = relay.once(key) if key else relay

    artifact = pushing.push(b"x" * 100, thread=thread.id, channel="news")
    assert relay.signals("news", after=0).signals == []
    ledger.back()

    until(lambda: relay.signals("news").head > 0, "the signal")
    assert [each.ref for each in relay.signals("news", after=0).signals] == [artifact.ref]


def test_a_thread_push_whose_reply_was_lost_signals_once(away: tuple[Relay, Away]) -> None:
    relay, ledger = away
    thread = relay.new_thread("release")
    ledger.ends_after_thread = True

    with pytest.raises(Unavailable):
        relay.push(b"x" * 100, thread=thread.id, channel="news")
    ledger.back()

    until(lambda: relay.signals("news").head > 0, "the signal")
    assert len(relay.signals("news", after=0).signals) == 1
    assert len(relay.list().artifacts) == 1
