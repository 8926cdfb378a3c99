"""Retention: a sweep sends signals that were left unsent and deletes old ones.

Three kinds of rows in a channel's log come up on the due list: `pending`, a push whose signal was
not sent; `kept`, some signals that are old now; `idle`, a channel that has had none for long.

Rule: a row goes only when what it asks for is done, so that a sweep can stop anywhere.
"""

from __future__ import annotations

from contextlib import suppress

from contextrelay.core.artifacts.holds import is_put
from contextrelay.core.artifacts.records import find, is_over
from contextrelay.core.channels.channels import decoded, signal_write, trim_surplus
from contextrelay.core.schema import CHANNELS, Kind, channel_log, walk_facts
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.limits import (
    RETRIES_MAX,
    SIGNAL_AGE_STEPS,
    TOMBSTONE_S,
    UNFINISHED_PUSH_S,
)
from contextrelay.model.artifact import Artifact
from contextrelay.store.ledger import ONLY, Fact, Row, Stale, Write


def send_pending(stores: Stores, channel: str, ref: str) -> None:
    """Send the signal of a push that is stored, unless it was sent; else leave it to a sweep."""
    log = channel_log(channel)
    if stores.ledger.get(log, Kind.PENDING, ref) is None:
        return
    artifact = find(stores.ledger, ref)
    if artifact is not None and _is_whole(stores, artifact):
        _send(stores, log, artifact)


def apply_retention(stores: Stores, log: str, row: Row) -> bool:
    """Do what a due row of a channel asks for; whether something was repaired by it."""
    if row.kind == Kind.PENDING:
        return _send_pending(stores, log, row)
    if row.kind == Kind.KEPT:
        _forget_old(stores, log, row)
    elif row.kind == Kind.IDLE:
        _forget_idle(stores, log, row)
    return False


def _send_pending(stores: Stores, log: str, row: Row) -> bool:
    """Send the signal of a push that is stored; forget it if that never happened."""
    now_ms = stores.now_ms()
    artifact = find(stores.ledger, row.key)
    if artifact is None or not _is_whole(stores, artifact):
        # It may only be slow: it has as long as any push has.
        dead_ms = int(row.body or b"0") + UNFINISHED_PUSH_S * 1000
        later = Row(Kind.PENDING, row.key, row.body if now_ms < dead_ms else None, dead_ms)
        stores.ledger.commit(Write(log, rows=(later,)))
        return now_ms >= dead_ms
    if is_over(artifact, now_ms):
        stores.ledger.commit(Write(log, rows=(Row(Kind.PENDING, row.key, None),)))
        return True
    return _send(stores, log, artifact)


def _send(stores: Stores, log: str, artifact: Artifact) -> bool:
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(log)
        if stores.ledger.get(log, Kind.PENDING, artifact.ref) is None:
            return False  # Sent by the push itself, or by another sweep.
        write = signal_write(stores, log.removeprefix(CHANNELS), [artifact], expect=head)
        with suppress(Stale):
            trim_surplus(stores, [write], stores.ledger.commit(write))
            return True
    return False


def _is_whole(stores: Stores, artifact: Artifact) -> bool:
    """Whether a push has done all that comes before its signal."""
    if artifact.thread is None:
        return True
    return is_put(stores.ledger, artifact.ref)


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
    elif stores.ledger.rows(log, Kind.PENDING, "", 1):
        later_ms = stores.now_ms() + UNFINISHED_PUSH_S * 1000
        stores.ledger.commit(Write(log, rows=(Row(Kind.IDLE, ONLY, row.body, later_ms),)))
    else:
        with suppress(Stale):
            stores.ledger.drop(log, expect=head)
