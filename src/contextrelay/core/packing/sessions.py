"""Sessions of `DistributedContextStore` in the ledger: a log each, with a row for each block.

Rule: the head of the log moves with every change of the session's own row, so that neither a sweep
nor another writer undoes a change that it has not seen.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, Kind, session_log, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, Conflict
from contextrelay.limits import PAGE_ROWS_MAX, RETRIES_MAX
from contextrelay.model.package import StoredSession
from contextrelay.store.ledger import ONLY, Ledger, Row, Stale, Write
from contextrelay.verbs import Body, DeleteSession, PutSession, ReadSession


class Entry(Struct, frozen=True):
    """A session without its blocks, and until when it is kept."""

    fields: dict[str, str]
    until_ms: int


_encoder = Encoder()
_decoder = Decoder(Entry)


@answers(PutSession)
def put_session(stores: Stores, verb: PutSession, body: Body) -> None:
    log = session_log(verb.session)
    now_ms = stores.now_ms()
    blocks = [Row(Kind.BLOCK, key, each) for key, each in verb.blocks.items()]
    blocks += [Row(Kind.BLOCK, key, None) for key in verb.gone]
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(log)
        fields = verb.fields
        if fields is None:
            # Without a session the blocks are kept for their time, so that a sweep finds them.
            fields = {} if (known := _entry(stores.ledger, log)) is None else known.fields
        entry = Entry(fields, now_ms + verb.ttl_s * 1000)
        row = Row(Kind.SESSION, ONLY, _encoder.encode(entry), entry.until_ms)
        with suppress(Stale):
            write = Write(log, (b"",), (row, *blocks), expect=head)
            stores.ledger.trim(log, stores.ledger.commit(write)[0])
            break
    else:
        raise Conflict(f"session {verb.session} is written by many at once", "try it again")
    for due_log, due in stores.ledger.due(now_ms, PAGE_ROWS_MAX):
        if due.kind == Kind.SESSION:
            forget_ended(stores.ledger, due_log, now_ms)


@answers(ReadSession)
def read_session(stores: Stores, verb: ReadSession, body: Body) -> StoredSession | None:
    log = session_log(verb.session)
    entry = _entry(stores.ledger, log)
    if entry is None or entry.until_ms <= stores.now_ms():
        return None
    rows = walk_rows(stores.ledger, log, Kind.BLOCK)
    return StoredSession(entry.fields, {row.key: row.body for row in rows if row.body is not None})


@answers(DeleteSession)
def delete_session(stores: Stores, verb: DeleteSession, body: Body) -> None:
    log = session_log(verb.session)
    with suppress(Stale):  # It is stored again just now.
        stores.ledger.drop(log, expect=stores.ledger.last(log))


def forget_ended(ledger: Ledger, log: str, now_ms: int) -> None:
    """Drop the log of a session whose time is over."""
    head, entry = ledger.last(log), _entry(ledger, log)
    if entry is not None and entry.until_ms <= now_ms:
        with suppress(Stale):  # It is stored again just now.
            ledger.drop(log, expect=head)


def _entry(ledger: Ledger, log: str) -> Entry | None:
    raw = ledger.get(log, Kind.SESSION, ONLY)
    try:
        return None if raw is None else _decoder.decode(raw)
    except UNREADABLE as error:
        raise Broken(f"{log} cannot be read: {error}", "delete it and store it again") from error
