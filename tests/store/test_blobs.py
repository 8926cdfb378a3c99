"""The one suite that judges every blob store, sentence by sentence of its protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from contextrelay.errors import Broken, RelayError
from contextrelay.limits import CHUNK_BYTES
from contextrelay.store.blobs import Blobs
from tests.store import engines

OPEN = Callable[[], Blobs]
FAR_MS = 2**45
BODY = bytes(range(256)) * 3 * 1_024


def keep(blobs: Blobs, name: str, body: bytes = b"x") -> None:
    with blobs.draft() as draft:
        draft.write(body)
        draft.keep(name)


def all_of(blobs: Blobs, name: str, size_bytes: int) -> bytes:
    return b"".join(blobs.read(name, 0, size_bytes))


def names_in(blobs: Blobs) -> list[str]:
    return sorted(fact.name for fact in blobs.walk())


@pytest.mark.parametrize("size_bytes", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_a_blob_comes_back_as_it_was(blobs: Blobs, size_bytes: int) -> None:
    body = (BODY * 2)[:size_bytes]

    keep(blobs, "aa11", body)

    assert all_of(blobs, "aa11", size_bytes) == body
    assert [fact.size_bytes for fact in blobs.walk()] == [size_bytes]
    assert blobs.stored_bytes("aa11") == size_bytes


def test_the_bytes_of_a_missing_blob_cannot_be_counted(blobs: Blobs) -> None:
    with pytest.raises(Broken):
        blobs.stored_bytes("aa11")


def test_a_blob_that_is_brought_again_is_there_once(blobs: Blobs) -> None:
    keep(blobs, "aa11", BODY)

    keep(blobs, "aa11", BODY)

    assert all_of(blobs, "aa11", len(BODY)) == BODY
    assert names_in(blobs) == ["aa11"]


def test_chunks_of_any_size_and_kind_are_joined(blobs: Blobs) -> None:
    with blobs.draft() as draft:
        draft.write(b"")
        draft.write(BODY[:3])
        draft.write(memoryview(BODY)[3:100_000])
        draft.write(memoryview(bytearray(BODY))[100_000:])
        draft.keep("aa11")

    assert all_of(blobs, "aa11", len(BODY)) == BODY


def test_a_chunk_may_be_changed_by_its_writer_afterwards(blobs: Blobs) -> None:
    chunk = bytearray(b"before")
    with blobs.draft() as draft:
        draft.write(memoryview(chunk))
        chunk[:] = b"after!"
        draft.keep("aa11")

    assert all_of(blobs, "aa11", 6) == b"before"


def test_a_piece_is_read_in_chunks(blobs: Blobs) -> None:
    keep(blobs, "aa11", BODY)

    chunks = list(blobs.read("aa11", 5, 1_000, chunk_bytes=400))

    assert b"".join(chunks) == BODY[5:1_000]
    assert max(map(len, chunks)) <= 400
    assert list(blobs.read("aa11", 5, 5)) == []


def test_a_missing_or_short_blob_is_broken(blobs: Blobs) -> None:
    keep(blobs, "aa11", b"12345")

    with pytest.raises(Broken):
        all_of(blobs, "bb22", 1)
    with pytest.raises(Broken):
        all_of(blobs, "aa11", 6)


def test_a_draft_that_is_not_kept_is_nothing(blobs: Blobs) -> None:
    with blobs.draft() as draft:
        draft.write(BODY)

    assert names_in(blobs) == []
    assert blobs.tidy(FAR_MS) == 0


def test_a_draft_that_fails_is_nothing(blobs: Blobs) -> None:
    def fail() -> None:
        with blobs.draft() as draft:
            draft.write(BODY)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert names_in(blobs) == []
    assert blobs.tidy(FAR_MS) == 0


def test_a_draft_is_no_blob_before_it_is_kept(blobs: Blobs) -> None:
    with blobs.draft() as draft:
        draft.write(BODY)
        assert names_in(blobs) == []
        draft.keep("aa11")
        assert names_in(blobs) == ["aa11"]


def test_a_blob_is_deleted_and_an_absent_one_is_fine(blobs: Blobs) -> None:
    keep(blobs, "aa11")
    keep(blobs, "bb22")

    blobs.delete("aa11")
    blobs.delete("aa11")
    blobs.delete("never")

    assert names_in(blobs) == ["bb22"]
    with pytest.raises(Broken):
        all_of(blobs, "aa11", 1)


def test_walk_shows_every_blob_with_size_and_time(blobs: Blobs) -> None:
    before_ms = int(time.time() * 1_000)
    for number in range(30):
        keep(blobs, f"{number:02}ab", b"x" * number)

    facts = sorted(blobs.walk(), key=lambda fact: fact.name)

    assert [(fact.name, fact.size_bytes) for fact in facts] == [(f"{n:02}ab", n) for n in range(30)]
    # File systems and servers have clocks of their own, coarser than ours.
    assert all(before_ms - 1_000 <= fact.written_ms <= before_ms + 60_000 for fact in facts)


def test_tidy_deletes_old_unfinished_drafts_and_nothing_else(blobs: Blobs) -> None:
    keep(blobs, "aa11")
    with blobs.draft() as draft:
        draft.write(BODY)
        assert blobs.tidy(1_000) == 0
        draft.keep("bb22")

    assert blobs.tidy(FAR_MS) == 0
    assert names_in(blobs) == ["aa11", "bb22"]


def test_a_draft_that_was_tidied_away_cannot_be_kept(blobs: Blobs) -> None:
    def keep_too_late() -> None:
        with blobs.draft() as draft:
            draft.write(BODY[:CHUNK_BYTES])
            assert blobs.tidy(FAR_MS) == 1
            draft.write(BODY[:CHUNK_BYTES])
            draft.keep("aa11")

    with pytest.raises(RelayError):
        keep_too_late()

    assert names_in(blobs) == []


def test_no_blob_is_deleted_while_it_is_held(blobs: Blobs) -> None:
    keep(blobs, "aa11")

    with blobs.hold():
        with blobs.hold():
            blobs.delete("aa11")
        blobs.delete("aa11")
        assert names_in(blobs) == ["aa11"]

    blobs.delete("aa11")
    assert names_in(blobs) == []


def test_blobs_can_be_made_and_read_while_all_are_held(blobs: Blobs) -> None:
    with blobs.hold():
        keep(blobs, "aa11", BODY)

        assert all_of(blobs, "aa11", len(BODY)) == BODY


def test_a_hold_binds_others_too(blobs_kind: str, open_blobs: OPEN) -> None:
    if blobs_kind not in engines.SHARED:
        pytest.skip("these blobs are not shared")
    one, other = open_blobs(), open_blobs()
    keep(one, "aa11", b"12345")

    with one.hold():
        other.delete("aa11")
        assert all_of(other, "aa11", 5) == b"12345"

    other.delete("aa11")
    assert names_in(one) == []


def test_many_writers_and_deleters_do_not_disturb_each_other(blobs: Blobs) -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            keep(blobs, "cc33", BODY)
            blobs.delete("cc33")

    def write(number: int) -> None:
        keep(blobs, f"{number:02}ab", BODY[: number * 1_000])

    with ThreadPoolExecutor(4) as pool:
        churning = pool.submit(churn)
        list(pool.map(write, range(20)))
        stop.set()
        churning.result(engines.WAIT_S_MAX)

    assert names_in(blobs) == [f"{number:02}ab" for number in range(20)]
    assert all_of(blobs, "19ab", 19_000) == BODY[:19_000]


def test_blobs_close_twice(blobs: Blobs) -> None:
    blobs.close()
    blobs.close()
