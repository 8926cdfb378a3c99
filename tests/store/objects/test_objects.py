"""What holds for object stores: parts, replies that are cut, trouble, which store uses them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.errors import Broken, Invalid, Unavailable
from contextrelay.store.blobs import objects
from contextrelay.store.blobs.files import FileBlobs
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.blobs.objects import OBJECT_PART_BYTES, ObjectBlobs
from contextrelay.store.engine import open_engine, without_secrets
from tests.store.engines import Servers
from tests.store.objects.flaky import FlakyServer
from tests.store.objects.server import S3Server
from tests.store.waiting import free_port

PART = 1_000
BODY = bytes(range(256)) * 20


@pytest.fixture
def s3(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return servers.s3()


@pytest.fixture
def place(s3: S3Server, prefix: str) -> str:
    return f"s3://relay/{prefix}?endpoint=http://127.0.0.1:{s3.port}&region=us-east-1"


@pytest.fixture
def blobs(place: str) -> ObjectBlobs:
    return ObjectBlobs(place, MemoryBlobs(), part_bytes=PART)


@pytest.fixture
def flaky(s3: S3Server) -> Iterator[FlakyServer]:
    with FlakyServer(s3.port) as server:
        yield server


def keep(blobs: ObjectBlobs, name: str, body: bytes) -> None:
    with blobs.draft() as draft:
        draft.write(body)
        draft.keep(name)


# Parts


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 5_120), (999, 1_001), (1_000, 2_000), (5_119, 5_120)]
)
def test_any_range_of_a_body_in_parts_is_read(blobs: ObjectBlobs, start: int, stop: int) -> None:
    keep(blobs, "aa11", BODY)

    chunks = list(blobs.read("aa11", start, stop, chunk_bytes=300))

    assert b"".join(chunks) == BODY[start:stop]
    assert max(map(len, chunks)) <= 300


def test_a_body_in_parts_that_another_deleted_is_broken(place: str) -> None:
    one, other = (ObjectBlobs(place, MemoryBlobs(), part_bytes=PART) for _ in range(2))
    keep(one, "aa11", BODY)
    assert b"".join(one.read("aa11", 0, 10)) == BODY[:10]

    other.delete("aa11")

    with pytest.raises(Broken):
        list(one.read("aa11", 0, 10))
    assert other.tidy(2**45) == 0


def test_an_upload_that_a_crash_cut_off_is_swept(blobs: ObjectBlobs, place: str) -> None:
    """Promise G2."""
    keep(blobs, "aa11", BODY)
    abandoned = blobs.draft()
    abandoned.__enter__().write(BODY)

    later = ObjectBlobs(place, MemoryBlobs(), part_bytes=PART)

    assert later.tidy(1_000) == 0
    assert later.tidy(2**45) == 1
    assert [fact.name for fact in later.walk()] == ["aa11"]
    assert b"".join(later.read("aa11", 0, len(BODY))) == BODY
    assert later.tidy(2**45) == 0


# A server that answers badly


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for an answer a second, not a minute."""
    monkeypatch.setitem(objects._CLIENT, "timeout", "1 second")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("trouble", "times"), [("503", 4), ("cut", 2), ("slow", 4), ("drop", 2)])
def test_a_server_that_answers_badly_is_asked_again(
    flaky: FlakyServer, s3: S3Server, place: str, trouble: str, times: int
) -> None:
    """Promise G2."""
    body = BODY * 100
    blobs = ObjectBlobs(place.replace(str(s3.port), str(flaky.port)), MemoryBlobs())

    flaky.fail(2, trouble)
    keep(blobs, "aa11", body)
    flaky.fail(2, trouble)

    assert b"".join(blobs.read("aa11", 0, len(body))) == body
    assert flaky.failed == times


@pytest.mark.parametrize("trouble", ["503", "drop"])
def test_a_server_that_stays_away_is_unavailable_and_leaves_nothing_half_stored(
    flaky: FlakyServer, s3: S3Server, place: str, blobs: ObjectBlobs, trouble: str
) -> None:
    """Promise G2."""
    through = ObjectBlobs(place.replace(str(s3.port), str(flaky.port)), MemoryBlobs(), PART)

    flaky.fail(1_000, trouble)
    with pytest.raises(Unavailable):
        keep(through, "aa11", BODY)

    assert list(blobs.walk()) == []


def test_a_server_that_says_nothing_is_given_up_after_a_while(
    flaky: FlakyServer, s3: S3Server, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise G2: not after as many tries as one that answers gets, each at full length."""
    monkeypatch.setitem(objects._CLIENT, "read_timeout", "300ms")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(objects, "AGAIN_S_MAX", 0.5)
    blobs = ObjectBlobs(place.replace(str(s3.port), str(flaky.port)), MemoryBlobs())
    keep(blobs, "aa11", BODY)

    flaky.fail(1_000, "slow")
    with pytest.raises(Unavailable):
        list(blobs.read("aa11", 0, len(BODY)))

    assert 1 <= flaky.failed <= 4


def test_trouble_is_said_with_the_next_step(s3: S3Server, place: str) -> None:
    nobody = ObjectBlobs(place.replace(str(s3.port), str(free_port())), MemoryBlobs())
    no_bucket = ObjectBlobs(place.replace("relay/", "nowhere/"), MemoryBlobs())

    with pytest.raises(Unavailable, match="did not respond"):
        nobody.open()
    with pytest.raises(Unavailable, match="bucket not found"):
        no_bucket.open()
    with pytest.raises(Unavailable, match="bucket not found"):
        keep(no_bucket, "aa11", b"1")
    with pytest.raises(Invalid):
        ObjectBlobs(place + "&nonsense=1", MemoryBlobs())


# Ledger and blobs combine


def test_a_store_remembers_where_its_large_bodies_are(
    tmp_path: Path, place: str, prefix: str
) -> None:
    """Promise G2."""
    body = b"large" * 100_000
    with Relay(tmp_path / "store", blobs=place) as relay:
        ref = relay.push(body).ref
        small = relay.push("small").ref

    with Relay(tmp_path / "store") as relay:
        assert relay.pull(ref) == body
        assert relay.pull(small) == b"small"
        assert not list((tmp_path / "store" / "blobs").glob("*-*"))
        assert relay.verify().problems == []
        relay.remove(ref)
        relay.sweep()
    assert list(ObjectBlobs(place, MemoryBlobs()).walk()) == []
    with pytest.raises(Invalid, match="are in s3://relay/"):
        Relay(tmp_path / "store", blobs=tmp_path / "elsewhere")


def test_bodies_stream_into_parts_and_out_again_over_postgresql(
    servers: Servers, place: str, prefix: str
) -> None:
    """Promise G2."""
    body = b"0123456789abcdef" * (OBJECT_PART_BYTES // 16) + b"the end"
    address = f"{servers.postgres()}?prefix={prefix}"
    with Relay(address, blobs=place) as relay, Relay(address) as other:
        artifact = relay.push(body)

        assert other.pull(artifact.ref) == body
        assert other.verify().problems == []


def test_a_store_with_large_bodies_does_not_change_their_place(tmp_path: Path, place: str) -> None:
    with Relay(tmp_path / "store") as relay:
        relay.push(b"large" * 100_000)

    with pytest.raises(Invalid, match="in its default location"):
        Relay(tmp_path / "store", blobs=place)


def test_an_object_store_may_move_to_another_endpoint_with_its_objects(
    tmp_path: Path, s3: S3Server, place: str
) -> None:
    """Promise G2."""
    body = b"large" * 100_000
    with Relay(tmp_path, blobs=place) as relay:
        ref = relay.push(body).ref
    empty = S3Server()
    try:
        with pytest.raises(Invalid, match=f"127.0.0.1%3A{empty.port}") as nothing:
            Relay(tmp_path, blobs=place.replace(str(s3.port), str(empty.port)))
    finally:
        empty.end()
    assert f"127.0.0.1%3A{s3.port}" in nothing.value.hint

    with FlakyServer(s3.port) as moved:
        with Relay(tmp_path, blobs=place.replace(str(s3.port), str(moved.port))) as relay:
            assert relay.pull(ref) == body
        with Relay(tmp_path) as relay:
            assert relay.pull(ref) == body
    with pytest.raises(Unavailable), Relay(tmp_path) as relay:
        relay.pull(ref)
    with Relay(tmp_path, blobs=place) as relay:
        assert relay.pull(ref) == body


def test_a_place_without_objects_may_move_before_there_are_any(tmp_path: Path, place: str) -> None:
    Relay(tmp_path, blobs=place).close()

    with Relay(tmp_path, blobs=place.replace("us-east-1", "us-east-2")) as relay:
        assert relay.push("small").size_bytes == 5


def test_large_bodies_may_be_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_BLOBS", str(tmp_path / "large"))
    with Relay(tmp_path / "store") as relay:
        relay.push(b"large" * 100_000)

    assert len(list(FileBlobs(tmp_path / "large").walk())) == 1


def test_a_backup_goes_to_a_store_with_another_place(tmp_path: Path, place: str) -> None:
    """Promise G3."""
    with Relay(tmp_path / "one", blobs=place) as relay:
        ref = relay.push(b"large" * 100_000).ref
        relay.backup(tmp_path / "tar")

    with Relay(tmp_path / "two", blobs=tmp_path / "large") as relay:
        relay.restore(tmp_path / "tar")

        assert relay.pull(ref) == b"large" * 100_000
    with Relay(tmp_path / "two") as relay:
        assert relay.pull(ref) == b"large" * 100_000


def test_no_credentials_are_remembered() -> None:
    place = (
        "s3://b/p?secret_access_key=x&region=r&access_key_id=y&session_token=z&endpoint=http://h"
    )

    assert without_secrets(place) == "s3://b/p?endpoint=http%3A%2F%2Fh&region=r"


def test_blobs_in_no_known_place_are_invalid(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="ftp://"):
        open_engine(str(tmp_path), "ftp://host/x")


@pytest.mark.parametrize("place", ["s3://", "s3:///prefix", "gs://?endpoint=http://127.0.0.1"])
def test_a_place_without_a_bucket_is_invalid(tmp_path: Path, place: str) -> None:
    with pytest.raises(Invalid, match="missing bucket") as refused:
        open_engine(str(tmp_path / "store"), place)

    assert "://bucket" in refused.value.hint


def test_of_two_who_settle_the_place_at_once_both_use_the_first(tmp_path: Path) -> None:
    places: list[str] = []

    def settle(number: int) -> None:
        try:
            engine = open_engine(str(tmp_path / "store"), str(tmp_path / f"large{number}"))
        except Invalid:
            return
        assert isinstance(engine.blobs, FileBlobs)
        places.append(engine.blobs.folder.name)
        engine.close()

    threads = [threading.Thread(target=settle, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(places)) == 1
