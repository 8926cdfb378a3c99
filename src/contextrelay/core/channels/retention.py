"""Retention: a sweep deletes old signals.

Two kinds of rows in a channel's log come up on the due list: `kept`, some signals that are old now;
`idle`, a channel that has had none for long.

Rule: a row goes only when what it asks for is done, so that a sweep can stop anywhere.
"""

from __future__ import annotations

from contextlib import suppress

from contextrelay.core.channels.channels import decoded
from contextrelay.core.schema import Kind, walk_facts
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.limits import (
    SIGNAL_AGE_STEPS,
    TOMBSTONE_S,
)
from contextrelay.model.names import CHANNELS
from contextrelay.store.ledger import ONLY, Fact, Row, Stale, Write


def apply_retention(stores: Stores, log: str, row: Row) -> None:
    """Do what a due row of a channel asks for."""
    if row.kind == Kind.KEPT:
        _forget_old(stores, log, row)
    elif row.kind == Kind.IDLE:
        _forget_idle(stores, log, row)


def _forget_old(stores: Stores, log: str, row: Row) -> None:
    kept_ms = stores.settings.signal_kept_s * 1000
    now_ms = stores.now_ms()
    # The head first: what comes after it is not old.
    head = stores.ledger.last(log)
    # The first signal that is not old.
    old_ms = now_ms - kept_ms
    facts = walk_facts(stores.ledger, log)
    oldest = next((fact for fact in facts if _sent_ms(fact, log) > old_ms), None)
    stores.ledger.trim(log, head + 1 if oldest is None else oldest.seq)
    done = Row(Kind.KEPT, row.key, None)
    end_ms = int(row.key)
    if oldest is None:
        idle = Row(Kind.IDLE, ONLY, b"%d" % head, end_ms + TOMBSTONE_S * 1000)
        with suppress(Stale):  # There is a new signal, which has a row of its own.
            stores.ledger.commit(Write(log, rows=(idle,), expect=head))
    elif (sent_ms := _sent_ms(oldest, log)) < end_ms:
        # The settings keep signals longer than they did when these were sent.
        later_ms = sent_ms + kept_ms + kept_ms // SIGNAL_AGE_STEPS
        done = Row(Kind.KEPT, row.key, b"", later_ms)
    stores.ledger.commit(Write(log, rows=(done,)))


def _sent_ms(fact: Fact, log: str) -> int:
    try:
        return decoded(fact, log.removeprefix(CHANNELS)).ts
    except Broken:
        return 0  # Nobody can read it: it is as good as old.


def _forget_idle(stores: Stores, log: str, row: Row) -> None:
    head = stores.ledger.last(log)
    if head != int(row.body or b"0"):
        # There were signals since; the last of them will bring this row back.
        stores.ledger.commit(Write(log, rows=(Row(Kind.IDLE, ONLY, None),)))
    else:
        with suppress(Stale):
            stores.ledger.drop(log, expect=head)
