"""Sessions in a ledger: kept for their time, and then gone."""

from __future__ import annotations

import pytest

from contextrelay import Broken
from contextrelay.core.schema import SESSIONS, RowKind, session_log
from contextrelay.model.package import StoredSession
from contextrelay.store.ledger import ONLY, Row, Write
from contextrelay.verbs import PutSession, ReadSession, Sweep
from tests.core.clock import Clock, local

FIELDS = {"agent_id": "planner"}
BLOCKS = {"b1": b"{}"}


def test_a_session_goes_with_the_sweep_after_its_time_unless_it_is_stored_again() -> None:
    """Promise K2: a session and its blocks expire together."""
    clock = Clock()
    core = local(clock)
    for name in ("ends", "stays"):
        core.ask(PutSession(name, FIELDS, BLOCKS, ttl_s=60))
    clock.pass_ms(50_000)
    core.ask(PutSession("stays", None, {"b2": b"[]"}, ttl_s=60))
    clock.pass_ms(20_000)

    assert core.ask(ReadSession("ends")) is None
    core.ask(Sweep())

    assert core.stores.ledger.logs(SESSIONS, "", 10) == [session_log("stays")]
    assert core.ask(ReadSession("stays")) == StoredSession(FIELDS, {**BLOCKS, "b2": b"[]"})


def test_blocks_without_a_session_go_after_their_time() -> None:
    """Of who named a session that is not there."""
    clock = Clock()
    core = local(clock)
    core.ask(PutSession("alone", None, BLOCKS, ttl_s=1))

    assert core.ask(ReadSession("alone")) == StoredSession({}, BLOCKS)
    clock.pass_ms(2_000)
    core.ask(PutSession("other", FIELDS, {}, ttl_s=1))

    assert core.stores.ledger.logs(SESSIONS, "", 10) == [session_log("other")]
    assert len(core.stores.ledger.read(session_log("other"), 0, 10)) == 1


def test_what_cannot_be_read_is_said_to_be_broken() -> None:
    core = local(Clock())
    core.stores.ledger.commit(Write(session_log("bad"), rows=(Row(RowKind.SESSION, ONLY, b"{"),)))

    with pytest.raises(Broken, match="s/bad"):
        core.ask(ReadSession("bad"))
