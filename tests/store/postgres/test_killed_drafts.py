"""Blobs that were being written when PostgreSQL was killed: complete, or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress

import pytest

from contextrelay import Relay
from contextrelay.errors import Broken, RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.postgres.blobs import PostgresBlobs
from contextrelay.store.postgres.ledger import PostgresLedger
from tests.store.postgres.server import PostgresServer

BODY = bytes(range(256)) * (CHUNK_BYTES // 256) + b"the end"


@pytest.fixture(scope="module")
def synchronous_commit() -> str:
    return "on"


@pytest.fixture(scope="module")
def server(synchronous_commit: str) -> Iterator[PostgresServer]:
    """A server that writes out what no commit waits for only after 10 s."""
    server = PostgresServer(synchronous_commit=synchronous_commit, wal_writer_delay="10s")
    server.start()
    yield server
    server.end()


@pytest.fixture
def ledger(server: PostgresServer, prefix: str) -> Iterator[PostgresLedger]:
    ledger = PostgresLedger(f"{server.url}?prefix={prefix}")
    yield ledger
    ledger.close()


def restart(server: PostgresServer) -> None:
    server.kill()
    server.start()


def test_a_draft_that_lost_its_pieces_in_a_crash_is_not_kept(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    """Promise G2. The pieces are not synced one by one, so the end is refused, not acknowledged."""
    blobs = PostgresBlobs(ledger.client)
    with blobs.draft() as draft:
        draft.write(BODY)
        restart(server)

        with pytest.raises(Unavailable, match="push again"):
            draft.keep("aa11")

    assert list(blobs.walk()) == []
    with pytest.raises(Broken):
        list(blobs.read("aa11", 0, 1))


@pytest.mark.parametrize("synchronous_commit", ["off"], scope="module")
def test_a_draft_begun_before_a_crash_writes_into_no_later_one(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    """Where commits do not wait for the disk, a sequence would give the same id again."""
    blobs = PostgresBlobs(ledger.client)
    with blobs.draft() as early:
        restart(server)
        with blobs.draft() as later:
            later.write(BODY)
            with suppress(Unavailable):
                early.write(BODY[::-1])
                early.keep("aa11")
            later.keep("bb22")

    for name, body in (("aa11", BODY[::-1]), ("bb22", BODY)):
        if name in {fact.name for fact in blobs.walk()}:
            assert b"".join(blobs.read(name, 0, len(BODY))) == body
    assert "bb22" in {fact.name for fact in blobs.walk()}


def test_a_push_through_a_crash_is_acknowledged_with_its_body(
    server: PostgresServer, ledger: PostgresLedger, prefix: str
) -> None:
    """Promise G2."""

    def body() -> Iterator[bytes]:
        yield BODY
        restart(server)
        yield b"the rest"

    with Relay(f"{server.url}?prefix={prefix}") as relay:
        with pytest.raises(RelayError, match="push again"):
            relay.push(body())
        artifact = relay.push(BODY)

        assert hashlib.sha256(relay.pull(artifact.ref)).hexdigest() == artifact.sha256
        assert relay.verify().problem_count == 0


def test_a_blob_without_one_of_its_pieces_is_refused_before_its_first_chunk(
    ledger: PostgresLedger,
) -> None:
    blobs = PostgresBlobs(ledger.client)
    with blobs.draft() as draft:
        draft.write(BODY)
        draft.keep("aa11")
    ledger.client.ask("DELETE FROM {store}.piece WHERE start > 0")

    with pytest.raises(Broken, match=f"{CHUNK_BYTES} of its {len(BODY)} bytes"):
        next(blobs.read("aa11", 0, 10))

    assert blobs.stored_bytes("aa11") == CHUNK_BYTES
