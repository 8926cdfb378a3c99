"""Sessions of `DistributedContextStore` in a ledger: a log each, with a row for each block.

Rule: the head of the log moves with every change of the session's own row, so that neither a sweep
nor another writer undoes a change that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from contextrelay.core.schema import UNREADABLE, Kind, session_log, walk_rows
from contextrelay.errors import Broken, Conflict
from contextrelay.limits import PAGE_ROWS_MAX, RETRIES_MAX
from contextrelay.store.ledger import ONLY, Ledger, Row, Stale, Write


class Entry(Struct, frozen=True):
    """A session without its blocks, and until when it is kept."""

    fields: dict[str, str]
    until_ms: int


_encoder = Encoder()
_decoder = Decoder(Entry)


class LedgerSessions:
    """Sessions in the ledger of any engine."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put_blocks(
        self, session: str, blocks: Mapping[str, bytes], now_ms: int, ttl_s: int
    ) -> None:
        """Keep blocks; where there is no session, for so long, so that a sweep finds them."""
        if self.find(session, now_ms) is None:
            head = self._ledger.last(session_log(session))
            with suppress(Stale):  # Another stores it just now.
                self._write(session, Entry({}, now_ms + ttl_s * 1000), (), expect=head)
        rows = [Row(Kind.BLOCK, key, body) for key, body in blocks.items()]
        for start in range(0, len(rows), PAGE_ROWS_MAX):
            page = tuple(rows[start : start + PAGE_ROWS_MAX])
            self._ledger.commit(Write(session_log(session), rows=page))

    def put(
        self, session: str, fields: dict[str, str], gone: Iterable[str], now_ms: int, ttl_s: int
    ) -> None:
        """Keep a session for so long, without the blocks that are gone; forget those that ended."""
        self._write(session, Entry(fields, now_ms + ttl_s * 1000), gone, expect=None)
        for log, row in self._ledger.due(now_ms, PAGE_ROWS_MAX):
            if row.kind == Kind.SESSION:
                forget_ended(self._ledger, log, now_ms)

    def keep(self, session: str, now_ms: int, ttl_s: int) -> None:
        """Keep a session, if it is there, for so long from now on."""
        log = session_log(session)
        for _ in range(RETRIES_MAX):
            head = self._ledger.last(log)
            if (entry := _entry(self._ledger, log)) is None:
                return
            with suppress(Stale):
                kept = Entry(entry.fields, now_ms + ttl_s * 1000)
                self._write(session, kept, (), expect=head)
                return
        raise Conflict(f"session {session} is written by many at once", "try it again")

    def find(self, session: str, now_ms: int) -> dict[str, str] | None:
        """The fields of a session; none in it where only blocks were kept so far."""
        entry = _entry(self._ledger, session_log(session))
        return entry.fields if entry and entry.until_ms > now_ms else None

    def blocks(self, session: str, keys: list[str]) -> list[bytes]:
        """The blocks that are there, in the order of their keys."""
        rows = walk_rows(self._ledger, session_log(session), Kind.BLOCK)
        found = {row.key: row.body for row in rows}
        return [body for key in keys if (body := found.get(key)) is not None]

    def delete(self, session: str, keys: list[str]) -> None:
        log = session_log(session)
        with suppress(Stale):  # It is stored again just now.
            self._ledger.drop(log, expect=self._ledger.last(log))

    def _write(self, session: str, entry: Entry, gone: Iterable[str], expect: int | None) -> None:
        log = session_log(session)
        rows = [Row(Kind.SESSION, ONLY, _encoder.encode(entry), entry.until_ms)]
        rows += [Row(Kind.BLOCK, key, None) for key in gone]
        (head,) = self._ledger.commit(Write(log, (b"",), tuple(rows), expect))
        self._ledger.trim(log, head)


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
