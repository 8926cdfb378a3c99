"""Sessions in a ledger: kept for their time, and then gone."""

from __future__ import annotations

import pytest

from contextrelay import Broken
from contextrelay.core.packing.sessions import LedgerSessions
from contextrelay.core.schema import SESSIONS, Kind, session_log
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.verbs import Sweep
from tests.core.clock import Clock
from tests.core.keyed import owner, stores_of

FIELDS = {"agent_id": "planner"}


def test_a_session_goes_with_the_sweep_after_its_time_unless_it_is_kept() -> None:
    """Promise K2: a session and its blocks expire together."""
    clock = Clock()
    relay = owner(clock)
    ledger = stores_of(relay).ledger
    sessions = LedgerSessions(ledger)
    for name in ("ends", "stays"):
        sessions.put_blocks(name, {"b1": b"{}"}, clock.at_ms, ttl_s=60)
        sessions.put(name, FIELDS, (), clock.at_ms, ttl_s=60)
    clock.pass_ms(50_000)
    sessions.keep("stays", clock.at_ms, ttl_s=60)
    sessions.keep("nowhere", clock.at_ms, ttl_s=60)
    clock.pass_ms(20_000)

    assert sessions.find("ends", clock.at_ms) is None
    relay.transport.ask(Sweep())

    assert ledger.logs(SESSIONS, "", 10) == [session_log("stays")]
    assert sessions.find("stays", clock.at_ms) == FIELDS
    assert sessions.blocks("stays", ["b1", "b2"]) == [b"{}"]


def test_blocks_without_a_session_go_after_their_time() -> None:
    """Of who was cut off before the session was stored, or named one that is not there."""
    ledger = MemoryLedger()
    sessions = LedgerSessions(ledger)
    sessions.put_blocks("alone", {"b1": b"{}"}, now_ms=1_000, ttl_s=1)

    assert not sessions.find("alone", 1_500)
    sessions.put("other", FIELDS, (), now_ms=3_000, ttl_s=1)

    assert ledger.logs(SESSIONS, "", 10) == [session_log("other")]


def test_storing_a_session_forgets_those_that_ended() -> None:
    ledger = MemoryLedger()
    sessions = LedgerSessions(ledger)
    sessions.put("old", FIELDS, (), now_ms=1_000, ttl_s=1)

    sessions.put("new", FIELDS, (), now_ms=3_000, ttl_s=1)

    assert ledger.logs(SESSIONS, "", 10) == [session_log("new")]
    assert len(ledger.read(session_log("new"), 0, 10)) == 1


def test_what_cannot_be_read_is_said_to_be_broken() -> None:
    ledger = MemoryLedger()
    ledger.commit(Write(session_log("bad"), rows=(Row(Kind.SESSION, ONLY, b"{"),)))

    with pytest.raises(Broken, match="s/bad"):
        LedgerSessions(ledger).find("bad", 0)
