"""Upgrades: finish interrupted pushes of an earlier version once, at the first open.

Earlier versions wrote a push in several steps: a row `pending` in its channel, a row of the index,
body and hold, the artifact, its thread, its signal. Any of them may be the last one done.

Rule: the row `finished` in the log `restore` says that no such push is left. A restore and a
migration bring logs of another store, and check these themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from contextrelay.core.artifacts import bodies
from contextrelay.core.artifacts.catalog import CatalogEntry, entries_before, unindex_write
from contextrelay.core.artifacts.holds import is_put
from contextrelay.core.artifacts.lifetime import replace_with_tombstones
from contextrelay.core.artifacts.records import find, find_tombstone, is_over
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
from contextrelay.limits import PAGE_ROWS_MAX, TOMBSTONE_S, UNFINISHED_PUSH_S
from contextrelay.model.artifact import to_ms
from contextrelay.model.names import CHANNELS
from contextrelay.store.ledger import ONLY, Row, Stale, Write


def finish_pushes(stores: Stores) -> int:
    """Finish or undo interrupted pushes of earlier versions; return their number."""
    count = 0
    for tenant in (None, *tenants(stores.ledger)):
        space = space_of(stores, tenant)
        count += _undo_unfinished(space)
        count += sum(
            _send(space, log, row)
            for log in walk_logs(space.ledger, CHANNELS)
            for row in walk_rows(space.ledger, log, RowKind.PENDING)
        )
    stores.ledger.commit(Write(RESTORE, rows=(Row(RowKind.FINISHED, ONLY, b""),)))
    return count


def _send(stores: Stores, log: str, row: Row) -> int:
    """Send the signal of a stored push, or drop the row of a push that was not stored; return 1."""
    artifact = find(stores.ledger, row.key)
    done = Row(RowKind.PENDING, row.key, None)
    if artifact is None or is_over(artifact, stores.now_ms()):
        stores.ledger.commit(Write(log, rows=(done,)))
    else:
        sent = signal_write(stores, log.removeprefix(CHANNELS), [artifact])
        stores.ledger.commit(sent, Write(log, rows=(done,)))
    return 1


def _undo_unfinished(stores: Stores) -> int:
    """Undo pushes that have an index row, possibly a hold, but no artifact; return their number.

    Index rows older than the cursor of an earlier version's sweep were already checked by that
    sweep.
    """
    row = stores.ledger.get(SWEEP, RowKind.CURSOR, ONLY)
    # A push in progress is safe: it finds the log of its artifact closed, and uses another ref.
    until_ms = stores.now_ms() + UNFINISHED_PUSH_S * 1000
    checked_ms = int(row) if row else 0
    count = 0
    for page in _pages(entries_before(stores.ledger, until_ms), checked_ms):
        dead = [entry for entry in page if _is_abandoned(stores, entry)]
        unheld = [entry for entry in dead if not _is_body_of(stores, entry)]
        bodies.release(stores, [(entry.sha256, entry.ref) for entry in unheld])
        stores.ledger.commit(*(unindex_write(entry.ref, entry.created_ms) for entry in dead))
        count += len(dead)
    return count


def _pages(found: Iterator[CatalogEntry], checked_ms: int) -> Iterator[list[CatalogEntry]]:
    """Yield pages of index entries that an earlier sweep has not checked."""
    while page := [each for each in islice(found, PAGE_ROWS_MAX) if each.created_ms >= checked_ms]:
        yield page


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
        if not is_put(stores.ledger, artifact.ref):
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
    """Return True if the artifact of an entry, finished by a retry under another time, has the same
    body.
    """
    artifact = find(stores.ledger, entry.ref)
    return artifact is not None and artifact.sha256 == entry.sha256
