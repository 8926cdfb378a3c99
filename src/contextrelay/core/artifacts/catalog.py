"""The catalog: an index of all artifacts, newest first.

There is one log per day, so that no log becomes a hot spot or grows without end. Names and keys
count down with time, and the ledger lists in ascending order, so the newest comes first. An index
row is written before its artifact and contains the hash: after a crash a sweep knows what the
unfinished push held.

Days and keys come from the pusher's clock, which may be wrong or jump. To see everything new,
follow the log `i/added`: its facts are the keys in commit order.

Rule: an index row is a hint; the artifact's own log decides whether it exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from contextrelay.core.schema import (
    ADDED,
    ARTIFACT_INDEX,
    RowKind,
    artifact_index_log,
    walk_logs,
    walk_rows,
)
from contextrelay.errors import Broken
from contextrelay.limits import ADDED_KEPT, PAGE_ROWS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.store.ledger import Fact, Ledger, Reads, Row, Write

_END_MS = 10**14 - 1


class CatalogEntry(Struct, frozen=True):
    """One index row: an artifact that exists, or whose push was interrupted."""

    cursor: str
    """The cursor after which a listing can continue."""
    ref: str
    created_ms: int
    sha256: str


def index_writes(made: list[Artifact], created_ms: int) -> list[Write]:
    """Return the writes that index artifacts pushed at the same time; handoffs get a second index
    row.

    The last write appends to the log of additions.
    """
    keys = [_key(created_ms, artifact.ref) for artifact in made]
    rows = [
        Row(kind, key, artifact.sha256.encode())
        for key, artifact in zip(keys, made, strict=True)
        for kind in (_HANDOFF if artifact.media_type == HANDOFF_MEDIA_TYPE else _REF)
    ]
    return [
        Write(artifact_index_log(created_ms), rows=tuple(rows)),
        Write(ADDED, facts=tuple([key.encode() for key in keys])),
    ]


_REF, _HANDOFF = (RowKind.REF,), (RowKind.REF, RowKind.HANDOFF)


def added(fact: Fact) -> tuple[int, str]:
    """Return the time, by the pusher's clock, and the ref in a fact of the log of additions."""
    entry = _entry(ADDED, Row(RowKind.REF, fact.body.decode(errors="replace"), b""))
    return entry.created_ms, entry.ref


def trim_added(ledger: Ledger) -> None:
    """Delete additions that are older than any follower is expected to need."""
    first, last = ledger.read(ADDED, 0, 1), ledger.last(ADDED)
    if first and last - first[0].seq > 2 * ADDED_KEPT:
        ledger.trim(ADDED, last - ADDED_KEPT)


def unindex_write(ref: str, created_ms: int) -> Write:
    key = _key(created_ms, ref)
    return Write(
        artifact_index_log(created_ms),
        rows=(Row(RowKind.REF, key, None), Row(RowKind.HANDOFF, key, None)),
    )


def entries(
    ledger: Reads, after: str = "", page_rows: int = PAGE_ROWS_MAX, kind: str = RowKind.REF
) -> Iterator[CatalogEntry]:
    """Yield index entries, newest first, after a cursor if one is given.

    They are read page by page.
    """
    log, _, key = after.partition("|")
    days = walk_logs(ledger, ARTIFACT_INDEX, log)
    for day in chain((log,), days) if log else days:
        for row in walk_rows(ledger, day, kind, key if day == log else "", page_rows):
            yield _entry(day, row)


def entries_before(ledger: Reads, before_ms: int) -> Iterator[CatalogEntry]:
    """Yield index entries that are older than a time, newest first."""
    return entries(ledger, f"{artifact_index_log(before_ms)}|{_key(before_ms, '')}")


def is_indexed(ledger: Reads, ref: str, created_ms: int) -> bool:
    return (
        ledger.get(artifact_index_log(created_ms), RowKind.REF, _key(created_ms, ref)) is not None
    )


def _entry(log: str, row: Row) -> CatalogEntry:
    left_ms, _, ref = row.key.partition("-")
    try:
        created_ms = _END_MS - int(left_ms)
    except ValueError as error:
        raise Broken(
            f"cannot read an index row in {log}: {error}",
            "check the store: relay verify",
        ) from error
    # A damaged hash must not end a listing, because only a sweep of unfinished pushes uses the
    # hash.
    return CatalogEntry(
        f"{log}|{row.key}", ref, created_ms, (row.body or b"").decode(errors="replace")
    )


def _key(created_ms: int, ref: str) -> str:
    return f"{_END_MS - created_ms:014d}-{ref}"
