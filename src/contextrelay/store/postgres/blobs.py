"""Blobs in PostgreSQL: an entry for each body, and its bytes in pieces.

Rule: a body without a name is a draft. A piece is written at its offset, so it may be sent twice,
and its commit does not wait for the disk: a crash may lose pieces of a draft. So KEEP, whose commit
syncs everything that it has read, names a draft only if all its bytes are present. The id of a
draft is random, because a sequence may repeat a number after a crash or a fail-over, and then two
drafts would mix.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from contextrelay.errors import Broken, Unavailable
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import BlobFact
from contextrelay.store.postgres.client import PostgresClient

BATCH = 1_000

BEGIN = """INSERT INTO {store}.body (id, written_ms) OVERRIDING SYSTEM VALUE
           VALUES (%b, {store}.now_ms()) ON CONFLICT (id) DO NOTHING"""
WRITE = """WITH lazy AS (SELECT set_config('synchronous_commit', 'off', true)),
           draft AS (UPDATE {store}.body SET written_ms = {store}.now_ms() FROM lazy
                     WHERE id = %b AND name IS NULL RETURNING id)
           INSERT INTO {store}.piece (body, start, bytes) SELECT id, %b, %b FROM draft
           ON CONFLICT (body, start) DO UPDATE SET bytes = excluded.bytes RETURNING body"""
KEEP = """UPDATE {store}.body SET name = %b, size_bytes = %b, written_ms = {store}.now_ms()
          WHERE id = %b AND (name IS NULL OR name = %b) AND {store}.be_durable()
              AND %b = (SELECT coalesce(sum(octet_length(bytes)), 0) FROM {store}.piece
                        WHERE body = %b)
              AND NOT EXISTS (SELECT FROM {store}.body WHERE name = %b AND id <> %b)
          RETURNING id"""
DISCARD = "DELETE FROM {store}.body WHERE id = %b AND name IS NULL"
FIND = """SELECT id, size_bytes,
              (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM {store}.piece
               WHERE piece.body = found.id)
          FROM {store}.body AS found WHERE name = %b"""
PIECE = """SELECT substring(bytes FROM (%b - start + 1)::int FOR %b::int) FROM {store}.piece
           WHERE body = %b AND start = %b"""
# No lock is taken if the first condition matches no row.
DELETE = """DELETE FROM {store}.body WHERE name = %b
            AND pg_try_advisory_xact_lock(1380273241, '{store}.body'::regclass::oid::int)"""
MAY_DELETE = "SELECT pg_try_advisory_xact_lock(1380273241, '{store}.body'::regclass::oid::int)"
HOLD = "SELECT pg_advisory_xact_lock_shared(1380273241, '{store}.body'::regclass::oid::int)"
WALK = """SELECT id, name, size_bytes, written_ms FROM {store}.body
          WHERE id > %b AND name IS NOT NULL ORDER BY id LIMIT %b"""
TIDY = """WITH gone AS (DELETE FROM {store}.body WHERE name IS NULL AND written_ms < %b::bigint
                        RETURNING 1)
          SELECT count(*) FROM gone"""


class PostgresBlobs:
    """Blobs in the ledger's database. The creator of the client closes the client."""

    def __init__(self, client: PostgresClient) -> None:
        self._client = client

    @contextmanager
    def draft(self) -> Generator[_PostgresDraft]:
        draft = _PostgresDraft(self._client)
        try:
            yield draft
        finally:
            if not draft.kept:
                # Ignore errors, so that they do not hide another error. `tidy` deletes a draft that
                # cannot be discarded now.
                with suppress(Unavailable):
                    self._client.ask(DISCARD, (draft.id,))

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        identity, size_bytes, stored_bytes = self._find(name)
        if stored_bytes != size_bytes:
            raise Broken(f"blob {name} has {stored_bytes} of its {size_bytes} bytes")
        if size_bytes < stop:
            raise Broken(f"blob {name} is too short: {size_bytes} bytes")
        while start < stop:
            piece = start - start % CHUNK_BYTES
            length = min(stop, piece + CHUNK_BYTES, start + chunk_bytes) - start
            found = self._client.ask(PIECE, (start, length, identity, piece))
            if not found or len(found[0][0]) != length:
                raise Broken(f"blob {name} was deleted while it was read")
            yield found[0][0]
            start += length

    def stored_bytes(self, name: str) -> int:
        return self._find(name)[2]

    def _find(self, name: str) -> tuple[int, int, int]:
        found = self._client.ask(FIND, (name,))
        if not found:
            raise Broken(f"blob {name} is missing")
        return found[0]

    def delete(self, name: str) -> None:
        self._client.ask(DELETE, (name,))

    def walk(self) -> Iterator[BlobFact]:
        last = 0
        while found := self._client.ask(WALK, (last, BATCH)):
            for _, name, size_bytes, written_ms in found:
                yield BlobFact(name, size_bytes, written_ms)
            last = found[-1][0]

    def tidy(self, before_ms: int) -> int:
        return self._client.ask(TIDY, (before_ms,))[0][0]

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep blobs from being deleted during the block.

        Raises:
            Unavailable: raised after the block, if the hold was interrupted.
        """
        with self._client.transaction() as ask:
            ask(HOLD)
            yield
            ask("SELECT")

    @contextmanager
    def deleting(self) -> Generator[bool]:
        with self._client.transaction() as ask:
            yield ask(MAY_DELETE)[0][0]

    def close(self) -> None:
        """Do nothing, because the creator of the client closes it."""


class _PostgresDraft:
    def __init__(self, client: PostgresClient) -> None:
        self.kept = False
        self.id = int.from_bytes(os.urandom(8)) >> 1  # A positive number that fits in a bigint.
        client.ask(BEGIN, (self.id,))
        self._client = client
        self._size_bytes = 0
        self._waiting = bytearray()

    def write(self, chunk: bytes | memoryview) -> None:
        for start in range(0, len(chunk), CHUNK_BYTES):
            self._waiting += chunk[start : start + CHUNK_BYTES]
            if len(self._waiting) >= CHUNK_BYTES:
                self._send(CHUNK_BYTES)

    def keep(self, name: str) -> None:
        self._send(len(self._waiting))
        size_bytes = self._size_bytes
        values = (name, size_bytes, self.id, name, size_bytes, self.id, name, self.id)
        self.kept = bool(self._client.ask(KEEP, values))
        # After a lost reply the same body is sent again. The first blob stays, and this draft is
        # deleted.
        if not self.kept and not self._client.ask(FIND, (name,)):
            raise _lost_draft()

    def _send(self, size_bytes: int) -> None:
        piece = bytes(self._waiting[:size_bytes])
        if piece and not self._client.ask(WRITE, (self.id, self._size_bytes, piece)):
            raise _lost_draft()
        self._size_bytes += len(piece)
        del self._waiting[:size_bytes]


def _lost_draft() -> Unavailable:
    return Unavailable("the body was lost during the write, by a crash or a sweep", "push again")
