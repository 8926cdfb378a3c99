"""The index: which artifacts there are, newest first.

One log a day, so that no single one grows hot or without end. Names and keys count down with time,
and the ledger lists upwards: the newest comes first. An index row is written before the artifact
it points to, and names the hash: after a crash a sweep knows what the unfinished push held.

Days and keys are what the pusher's clock said, and a clock may be wrong or jump. To see all that is
new, follow the log `i/added`: its facts are the keys in the order of commits.

Rule: an index row is a hint; whether the artifact is there, its own log says.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from contextrelay.errors import Broken
from contextrelay.limits import ADDED_KEPT, DAY_S, PAGE_ROWS_MAX
from contextrelay.store.ledger import Fact, Ledger, Reads, Row, Write

PREFIX = "i/a/"
ADDED = "i/added"
EVERY, HANDOFFS = "ref", "handoff"
"""Kinds of rows: every artifact has one of the first, those that are handoffs both."""
_DAY_MS = DAY_S * 1000
_END_DAY = 99_999
_END_MS = 10**14 - 1


class Entry(Struct, frozen=True):
    """One index row: an artifact that is there, or was about to be."""

    cursor: str
    """Where a listing can go on."""
    ref: str
    created_ms: int
    sha256: str


def index_write(ref: str, created_ms: int, sha256: str, is_handoff: bool = False) -> Write:
    """What makes an artifact findable; a handoff is listed among handoffs as well."""
    kinds = (EVERY, HANDOFFS) if is_handoff else (EVERY,)
    key = _key(created_ms, ref)
    return Write(_log(created_ms), rows=tuple(Row(kind, key, sha256.encode()) for kind in kinds))


def added_write(created_ms: int, refs: list[str]) -> Write:
    """What makes those notice new artifacts who follow by position; behind their index rows."""
    return Write(ADDED, facts=tuple(_key(created_ms, ref).encode() for ref in refs))


def added(fact: Fact) -> tuple[int, str]:
    """What a fact of the log of additions tells: when it was made, as told, and its ref."""
    entry = _entry(ADDED, Row(EVERY, fact.body.decode(errors="replace"), b""))
    return entry.created_ms, entry.ref


def trim_added(ledger: Ledger) -> None:
    """Forget additions that are older than any follower is expected to be behind."""
    first, last = ledger.read(ADDED, 0, 1), ledger.last(ADDED)
    if first and last - first[0].seq > 2 * ADDED_KEPT:
        ledger.trim(ADDED, last - ADDED_KEPT)


def unindex_write(ref: str, created_ms: int) -> Write:
    key = _key(created_ms, ref)
    return Write(_log(created_ms), rows=(Row(EVERY, key, None), Row(HANDOFFS, key, None)))


def entries(
    ledger: Reads, after: str = "", page_rows: int = PAGE_ROWS_MAX, kind: str = EVERY
) -> Iterator[Entry]:
    """Walk the index from the newest entry, or from behind a cursor; read page by page."""
    log, _, key = after.partition("|")
    if log:
        yield from _in_day(ledger, log, key, page_rows, kind)
    while days := ledger.logs(PREFIX, log, PAGE_ROWS_MAX):
        for log in days:
            yield from _in_day(ledger, log, "", page_rows, kind)


def entries_before(ledger: Reads, before_ms: int) -> Iterator[Entry]:
    """Walk the index from a moment into the past."""
    return entries(ledger, f"{_log(before_ms)}|{_key(before_ms, '')}")


def is_indexed(ledger: Reads, ref: str, created_ms: int) -> bool:
    return ledger.get(_log(created_ms), EVERY, _key(created_ms, ref)) is not None


def _in_day(ledger: Reads, log: str, key: str, page_rows: int, kind: str) -> Iterator[Entry]:
    while page := ledger.rows(log, kind, key, page_rows):
        for row in page:
            key = row.key
            yield _entry(log, row)


def _entry(log: str, row: Row) -> Entry:
    left_ms, _, ref = row.key.partition("-")
    try:
        created_ms, sha256 = _END_MS - int(left_ms), (row.body or b"").decode("ascii")
    except ValueError as error:
        raise Broken(
            f"an index row in {log} cannot be read: {error}",
            "see what is damaged with: relay verify",
        ) from error
    return Entry(f"{log}|{row.key}", ref, created_ms, sha256)


def _log(created_ms: int) -> str:
    return f"{PREFIX}{_END_DAY - created_ms // _DAY_MS:05d}"


def _key(created_ms: int, ref: str) -> str:
    return f"{_END_MS - created_ms:014d}-{ref}"
