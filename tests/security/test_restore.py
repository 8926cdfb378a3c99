"""Hostile backups: whatever is in the file, a clear error, an empty store, nothing outside it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import msgpack

from contextrelay import Conflict, Relay, RelayError
from contextrelay.core.backup import BackupPart, End
from contextrelay.core.schema import RESTORE
from contextrelay.store.ledger import Row, Write
from tests.rigs import length, rig

LARGE = Random(5).randbytes(100_000)
SHA256 = hashlib.sha256(LARGE).hexdigest()
BLOB = f"{SHA256}-0011223344556677"


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("backup")
    with Relay(folder / "store") as relay:
        relay.push(LARGE, name="large", ttl_s=None)
        for number in range(30):
            relay.push(b"%d" % number, ttl_s=None)
        relay.backup(folder / "backup.tar")
    return (folder / "backup.tar").read_bytes()


def end(logs: int = 0, bodies: int = 0, body_bytes: int = 0, created_ms: int = 1) -> bytes:
    return msgpack.encode(End(created_ms, logs, bodies, body_bytes))


def tar(*members: tuple[str, bytes], **special: Any) -> bytes:
    """A tar of these members; `special` goes into the header of the first."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in special.items():
                setattr(info, field, value)
            special = {}
            file.addfile(info, io.BytesIO(content))
    return out.getvalue()


def page(*parts: BackupPart | dict[str, object] | list[object]) -> bytes:
    return msgpack.encode(parts)


def check_refused(folder: Path, content: bytes) -> None:
    """Restoring this fails with an error of ours; the store stays empty, and so do its walls."""
    file = folder / "hostile.tar"
    file.write_bytes(content)
    with Relay(folder / "store") as relay:
        with pytest.raises(RelayError) as refused:
            relay.restore(file)

        assert refused.value.hint
        stores = relay.transport.stores
        assert stores.ledger.logs("", "", 10) == [RESTORE]
        assert relay.list().artifacts == []
        assert list((folder / "store").glob("**/*.draft")) == []
    assert {path.name for path in folder.iterdir()} == {"hostile.tar", "store"}


# Cut and changed


def places(size_bytes: int) -> Iterator[int]:
    """Byte counts at which to cut: the edges, tar's blocks, and chance."""
    chance = Random(3)
    yield from (0, 1, 511, 512, 513, size_bytes - 512, size_bytes - 1, size_bytes)
    yield from (chance.randrange(size_bytes) for _ in range(40))
    yield from (chance.randrange(size_bytes // 512) * 512 for _ in range(20))


def test_a_backup_cut_anywhere_is_refused_and_leaves_the_store_empty(
    backup: bytes, tmp_path: Path
) -> None:
    """Promise Z3. Only the padding behind the last member may be missing."""
    assert backup[-1_024:] == bytes(1_024)
    for number, place in enumerate(places(len(backup) - 1_024 - 512)):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_refused(folder, backup[:place])


def test_a_refused_backup_does_not_stand_in_the_way_of_a_good_one(
    backup: bytes, tmp_path: Path
) -> None:
    """The store is still empty: it can be filled."""
    (tmp_path / "cut.tar").write_bytes(backup[: len(backup) - 2_048])
    (tmp_path / "good.tar").write_bytes(backup)
    with Relay(tmp_path / "store") as relay:
        with pytest.raises(RelayError):
            relay.restore(tmp_path / "cut.tar")

        relay.restore(tmp_path / "good.tar")

        assert len(relay.list(limit=100).artifacts) == 31
        assert relay.verify().problems == []


def test_a_body_that_does_not_fit_its_hash_is_refused(backup: bytes, tmp_path: Path) -> None:
    """Promise Z3."""
    place = backup.index(LARGE[:100])
    check_refused(tmp_path, backup[: place + 50] + b"\0" + backup[place + 51 :])


@rig
def test_flipped_bytes_never_bring_a_wrong_body(backup: bytes, tmp_path: Path) -> None:
    """Refused, or taken; but what is then given out is what was pushed."""
    right = {LARGE, *(b"%d" % number for number in range(30))}
    for seed in range(length(30, 150, 2_000)):
        chance = Random(seed)
        changed = bytearray(backup)
        # Most of it is the one large body; look at the rest of it more often.
        start = 0 if seed % 3 == 0 else len(LARGE)
        changed[chance.randrange(start, len(changed))] ^= 1 << chance.randrange(8)
        file = tmp_path / f"{seed}.tar"
        file.write_bytes(changed)
        with Relay(tmp_path / str(seed)) as relay, suppress(RelayError):
            relay.restore(file)
            for artifact in relay.list(limit=100).artifacts:
                with suppress(RelayError):
                    assert relay.pull(artifact.ref) in right


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", bytes(10_240), b"\x1f\x8b" + bytes(600), b"PK\x03\x04" * 500, b"\xff" * 5_000],
    ids=["empty", "short", "zeros", "gzip", "zip", "ones"],
)
def test_junk_is_refused(tmp_path: Path, content: bytes) -> None:
    """Promise Z3."""
    check_refused(tmp_path, content)


def test_random_junk_is_refused(tmp_path: Path) -> None:
    """Promise Z3."""
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check_refused(folder, Random(seed).randbytes(Random(seed).randrange(20_000)))


# Members that have no place in a backup


@pytest.mark.parametrize(
    "name",
    [
        f"blobs/../{BLOB}",
        f"blobs/../../{BLOB}",
        f"blobs//{BLOB}",
        f"/blobs/{BLOB}",
        f"blobs/{SHA256}-/../../../x",
        f"blobs/{SHA256}-a\\b",
        f"blobs/{SHA256}-\n",
        "blobs/",
        "blobs",
        "../blobs/x",
        "/etc/passwd",
        f"blobs/{SHA256}-" + "a" * 200,
        "relay.db",
        "end/",
    ],
)
def test_a_member_whose_name_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """Promise Z4. The content fits the hash; only the name is wrong."""
    check_refused(tmp_path, tar((name, LARGE), ("end", end(bodies=1))))


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
        tarfile.GNUTYPE_SPARSE,
    ],
)
def test_a_member_that_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    """Promise Z4."""
    content = tar((f"blobs/{BLOB}", b""), ("end", end()), type=kind, linkname="/etc/passwd")
    check_refused(tmp_path, content)


@pytest.mark.parametrize("size", [2**31, 2**33 - 1, 2**60])
def test_a_huge_announced_size_is_refused_without_taking_room(tmp_path: Path, size: int) -> None:
    """Promise Z3."""
    for name in (f"blobs/{BLOB}", "ledger/00000000", "end"):
        header = tarfile.TarInfo(name)
        header.size = size
        folder = tmp_path / name.partition("/")[0]
        folder.mkdir()
        check_refused(folder, header.tobuf(tarfile.GNU_FORMAT) + bytes(10_240))


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    """Promise Z3."""
    header = tarfile.TarInfo("ledger/00000000")
    header.size = -1
    check_refused(tmp_path, header.tobuf(tarfile.GNU_FORMAT) + bytes(10_240))


# Pages that are not what they should be

BAD_PAGES: dict[str, bytes] = {
    "junk": b"\xff\xff",
    "nothing": b"",
    "a map": msgpack.encode({"a": 1}),
    "deep": b"\x91" * 100_000,
    "announces much": b"\xdd\xff\xff\xff\xff",
    "parts without fields": page({"log": "a/x"}),
    "a number as a log": page({"log": 7, "after": 0}),
    "after too large": page({"log": "a/x", "after": 2**64 - 1}),
    "after at the edge": page({"log": "a/x", "after": 2**63 - 1}),
    "after negative": page({"log": "a/x", "after": -5, "facts": [b"a"], "is_first": True}),
    "due too large": page(BackupPart("a/x", 0, [], [Row("artifact", "-", b"{}", 2**64 - 1)], True)),
    "no utf-8": b"\x91\x82\xa3log\xa2\xc3\x28\xa5after\x00",
}


@pytest.mark.parametrize("content", BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_bad_page_is_refused(tmp_path: Path, content: bytes) -> None:
    """Promise Z3."""
    check_refused(tmp_path, tar(("ledger/00000000", content), ("end", end(logs=1))))


@pytest.mark.parametrize("created_ms", [2**62, -(2**62), 10**17])
def test_a_time_that_no_calendar_has_is_refused(tmp_path: Path, created_ms: int) -> None:
    """Promise Z3."""
    content = page(BackupPart("a/x", 0, [b"a"], [], True))
    members = ("ledger/00000000", content), ("end", end(logs=1, created_ms=created_ms))
    check_refused(tmp_path, tar(*members))


@pytest.mark.parametrize(
    "content",
    [end(logs=5), end(bodies=1), b"", b"\xc0", msgpack.encode({"created_ms": "x"})],
    ids=["logs", "bodies", "nothing", "nil", "text"],
)
def test_a_wrong_end_is_refused(tmp_path: Path, content: bytes) -> None:
    """Promise Z3."""
    check_refused(tmp_path, tar(("end", content)))


def test_a_body_row_that_points_outside_is_refused_on_read(tmp_path: Path) -> None:
    """Promise Z4. The ledger of a backup is as foreign as the rest of it."""
    secret = tmp_path / "secret"
    secret.write_bytes(LARGE)
    with Relay(tmp_path / "first") as relay:
        ref = relay.push(LARGE, ttl_s=None).ref
        stores = relay.transport.stores
        at = b'{"size_bytes":100000,"blob":"../../secret"}'
        stores.ledger.commit(Write(f"b/{SHA256}", rows=(Row("at", "-", at),)))

        with pytest.raises(RelayError) as refused:
            relay.pull(ref)
        with pytest.raises(RelayError):
            relay.backup(tmp_path / "backup.tar")

        assert refused.value.hint
        assert not (tmp_path / "backup.tar").exists()


def test_a_store_that_is_not_empty_takes_no_backup(backup: bytes, tmp_path: Path) -> None:
    (tmp_path / "backup.tar").write_bytes(backup)
    with Relay(tmp_path / "store") as relay:
        relay.push(b"mine")

        with pytest.raises(Conflict):
            relay.restore(tmp_path / "backup.tar")

        assert [relay.pull(each.ref) for each in relay.list().artifacts] == [b"mine"]


@pytest.mark.parametrize("name", ["absent.tar", ".", "a\0b"])
def test_a_backup_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with Relay("memory:") as relay, pytest.raises(RelayError) as refused:
        relay.restore(f"{tmp_path}/{name}")

    assert refused.value.hint
