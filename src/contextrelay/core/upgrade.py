"""Upgrades: finish interrupted pushes of an earlier version once, from the first open on.

Earlier versions wrote a push in several steps: a row `pending` in its channel, a row of the index,
body and hold, the artifact, its thread, its signal. Any of them may be the last one done.

Rule: the row `finished` in the log `restore` says that no such push is left. A restore and a
migration bring logs of another store, and check these themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from msgspec.structs import replace

from contextrelay.core.artifacts import bodies
from contextrelay.core.artifacts.catalog import CatalogEntry, entries_before, unindex_write
from contextrelay.core.artifacts.holds import is_in_thread
from contextrelay.core.artifacts.lifetime import replace_with_tombstones
from contextrelay.core.artifacts.records import find, find_tombstone, has_expired
from contextrelay.core.channels import signal_write
from contextrelay.core.schema import (
    RESTORE,
    SWEEP,
    RowKind,
    artifact_log,
    tenants,
    walk_logs,
    walk_rows,
)
from contextrelay.core.spaces import space_of
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.limits import PAGE_ROWS_MAX, RETRIES_MAX, TOMBSTONE_S, UNFINISHED_PUSH_S
from contextrelay.model.artifact import to_ms
from contextrelay.model.names import CHANNELS
from contextrelay.store.ledger import ONLY, Row, Stale, Write

SIGNAL_PENDING_S = 60
"""Earlier versions send the signal of an interrupted push after this long."""


def finish_pushes(stores: Stores) -> int:
    """Finish or undo interrupted pushes of earlier versions; return their number.

    A server of such a version may still be running, so recent pushes are left to a sweep. The store
    is marked as finished when none is left. A damaged record is skipped: `verify` reports it.
    """
    now_ms = stores.now_ms()
    spaces = [space_of(stores, tenant) for tenant in (None, *tenants(stores.ledger))]
    are_finished = [each for space in spaces for each in _finish_in(space)]
    is_done = all(are_finished)
    until = None if is_done else b"%d" % (now_ms - UNFINISHED_PUSH_S * 1000)
    for space in spaces:
        # A sweep continues when the store's own row is due.
        is_due = not is_done and space.tenant is None
        due_ms = now_ms + SIGNAL_PENDING_S * 1000 if is_due else None
        cursor = Row(RowKind.CURSOR, ONLY, until, due_ms)
        space.ledger.commit(Write(SWEEP, rows=(cursor,)))
    mark = Row(RowKind.FINISHED, ONLY, b"" if is_done else None)
    stores.ledger.commit(Write(RESTORE, rows=(mark,)))
    return sum(are_finished)


def _finish_in(stores: Stores) -> Iterator[bool]:
    """Finish the interrupted pushes of a space.

    Yield True for each push that is finished and False for each that is too recent.
    """
    yield from _undo_unfinished(stores)
    for log in walk_logs(stores.ledger, CHANNELS):
        for row in walk_rows(stores.ledger, log, RowKind.PENDING):
            yield send_pending(stores, log, row)


def send_pending(stores: Stores, log: str, row: Row) -> bool:
    """Send the signal of a stored push once, or forget that of one that is not stored.

    Return False if it is too early for that: the push may be in progress.
    """
    done = Row(RowKind.PENDING, row.key, None)
    for _ in range(RETRIES_MAX):
        # Read the head first: it moves if another process sends the signal.
        head = stores.ledger.last(log)
        if stores.ledger.get(log, RowKind.PENDING, row.key) is None:
            return True
        try:
            artifact = find(stores.ledger, row.key)
        except Broken:
            # Not due any more, so that sweeps do not find it again.
            stores.ledger.commit(Write(log, rows=(replace(row, due_ms=None),)))
            return True
        if (
            artifact is not None
            and artifact.thread
            and not is_in_thread(stores.ledger, artifact.ref)
        ):
            artifact = None
        now_ms = stores.now_ms()
        wait_s = UNFINISHED_PUSH_S if artifact is None else SIGNAL_PENDING_S
        if abs(now_ms - _time_ms(row.body)) < wait_s * 1000:
            return False
        write = Write(log)
        if artifact is not None and not has_expired(artifact, now_ms):
            write = signal_write(stores, log.removeprefix(CHANNELS), [artifact])
        with suppress(Stale):
            stores.ledger.commit(replace(write, rows=(*write.rows, done), expect=head))
            return True
    return False


def _time_ms(row: bytes | None) -> int:
    """Return the time in a row, or 0 if it is missing or damaged."""
    try:
        return int(row or b"0")
    except ValueError:
        return 0


def _undo_unfinished(stores: Stores) -> Iterator[bool]:
    """Undo pushes that have an index row, possibly a hold, but no artifact.

    Yield True for each push that was undone and False for each that is too recent to be undone.

    Index rows older than the cursor of an earlier version's sweep were already checked by that
    sweep.
    """
    now_ms = stores.now_ms()
    recent_ms = now_ms - UNFINISHED_PUSH_S * 1000
    checked_ms = _time_ms(stores.ledger.get(SWEEP, RowKind.CURSOR, ONLY))
    if checked_ms > recent_ms:
        checked_ms = 0  # It is damaged, or the clock was ahead.
    found = entries_before(stores.ledger, now_ms + UNFINISHED_PUSH_S * 1000)
    for page in _pages(_until_damaged(found), checked_ms):
        dead: list[CatalogEntry] = []
        for entry in page:
            with suppress(Broken):
                if not _is_unfinished(stores, entry):
                    continue
                if entry.created_ms > recent_ms:
                    yield False
                elif _is_abandoned(stores, entry):
                    dead.append(entry)
        unheld = [entry for entry in dead if not _is_body_of(stores, entry)]
        bodies.release(stores, [(entry.sha256, entry.ref) for entry in unheld])
        stores.ledger.commit(*(unindex_write(entry.ref, entry.created_ms) for entry in dead))
        yield from [True] * len(dead)


def _is_unfinished(stores: Stores, entry: CatalogEntry) -> bool:
    """Return True if a push was interrupted, or is in progress."""
    artifact = find(stores.ledger, entry.ref)
    found = artifact or find_tombstone(stores.ledger, entry.ref)
    if found is None or to_ms(found.created_at) != entry.created_ms:
        return True
    return (
        artifact is not None
        and bool(artifact.thread)
        and not is_in_thread(stores.ledger, entry.ref)
    )


def _pages(found: Iterator[CatalogEntry], checked_ms: int) -> Iterator[list[CatalogEntry]]:
    """Yield pages of index entries that an earlier sweep has not checked."""
    while page := [each for each in islice(found, PAGE_ROWS_MAX) if each.created_ms >= checked_ms]:
        yield page


def _until_damaged(found: Iterator[CatalogEntry]) -> Iterator[CatalogEntry]:
    """Yield entries up to a damaged key of the index, from which no listing can continue."""
    with suppress(Broken):
        yield from found


def _is_abandoned(stores: Stores, entry: CatalogEntry) -> bool:
    """Return True if a push was abandoned.

    The log of its artifact is then closed, so that the push cannot continue.
    """
    artifact = find(stores.ledger, entry.ref)
    found = artifact or find_tombstone(stores.ledger, entry.ref)
    if found is not None and to_ms(found.created_at) != entry.created_ms:
        return True  # A retry with the same key finished this push under another time.
    # Check every thread, not only that of the artifact: it may be removed, and a fork may still
    # hold the artifact.
    if artifact is not None and artifact.thread is not None:
        if not is_in_thread(stores.ledger, artifact.ref):
            replace_with_tombstones(stores, [artifact], "removed")
        return False
    if found is not None:
        return False
    closed = Row(RowKind.CLOSED, ONLY, b"", stores.now_ms() + TOMBSTONE_S * 1000)
    with suppress(Stale):
        stores.ledger.commit(Write(artifact_log(entry.ref), (b"",), (closed,), expect=0))
        return True
    return stores.ledger.get(artifact_log(entry.ref), RowKind.CLOSED, ONLY) is not None


def _is_body_of(stores: Stores, entry: CatalogEntry) -> bool:
    """Return True if the artifact of an entry, finished by a retry, has the same body."""
    artifact = find(stores.ledger, entry.ref)
    return artifact is not None and artifact.sha256 == entry.sha256
