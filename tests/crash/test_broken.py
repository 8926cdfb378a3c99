"""Damaged stores: a clear error that names the file, or a problem that names the ref.

Rule: never a wrong body, and never an error that is not ours.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from contextrelay import Broken, NotFound, Relay, RelayError
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.bodies import location_of
from contextrelay.core.stores import Stores
from contextrelay.model.reports import Problem
from contextrelay.store.blobs.files import FileBlobs
from tests.rigs import length, rig

PAGE_BYTES = 4_096
FLIPS = length(thin=40, long=200, full=2_000)

SMALL = b"a small body " * 20
LARGE = Random(1).randbytes(100_000)
MADE_MS = 1_800_000_000_000

# What may stand in a row instead: no JSON, JSON with a text that is no UTF-8, other JSON, nothing.
JUNK = (b"\xc2\xc3", b'{"ref":"\xc3("}', b"[1]", b"")


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was closed well, the same to the byte on every run."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    with Relay(folder) as relay:
        engine = relay.transport.stores.engine
        chance = Random(7).randbytes
        relay.transport = Local(Stores(engine, now_ms=lambda: MADE_MS, random_bytes=chance))
        relay.push(SMALL, name="small", ttl_s=None)
        relay.push(LARGE, name="large", ttl_s=None)
        for number in range(150):
            relay.push(Random(number).randbytes(500), name=f"some-{number}", ttl_s=None)
    return folder


@pytest.fixture
def store(whole_store: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(whole_store, tmp_path / "store")


def named(relay: Relay, name: str) -> str:
    return next(each.ref for each in relay.list(limit=1_000).artifacts if each.name == name)


def blob_of(relay: Relay, ref: str) -> Path:
    stores = relay.transport.stores
    at = location_of(stores.ledger, relay.peek(ref).sha256)
    assert at is not None
    assert at.blob is not None
    assert isinstance(stores.blobs, FileBlobs)
    return Path(stores.blobs.path(at.blob))


def problems_of(relay: Relay) -> list[Problem]:
    """What verify finds; that it cannot even begin is a finding as well."""
    try:
        return relay.verify().problems
    except Broken as broken:
        return [Problem(what=error_text(broken), next_step=broken.hint)]


def error_text(error: RelayError) -> str:
    """What an error says; one without a next step is not good enough."""
    assert error.hint, error
    return error.message


def check_refused(folder: Path, act: Callable[[], object]) -> None:
    with pytest.raises(Broken) as refused:
        act()

    assert str(folder / "relay.db") in refused.value.local_message
    assert refused.value.hint


def execute(database: Path, sql: str, *values: object) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(sql, values)
    connection.close()


# The database file


def test_a_text_file_in_place_of_the_database_is_refused(store: Path) -> None:
    text = "this is my diary, not a database\n" * 1_000
    (store / "relay.db").write_text(text)

    check_refused(store, lambda: Relay(store))

    assert (store / "relay.db").read_text() == text


def test_a_folder_in_place_of_the_database_is_refused(store: Path) -> None:
    (store / "relay.db").unlink()
    (store / "relay.db").mkdir()

    check_refused(store, lambda: Relay(store))


@pytest.mark.parametrize("how", ["emptied", "deleted"])
def test_blobs_without_their_database_are_not_taken_for_a_new_store(store: Path, how: str) -> None:
    """It would look empty, and the next sweep would delete every body that is left."""
    if how == "emptied":
        os.truncate(store / "relay.db", 0)
    else:
        (store / "relay.db").unlink()

    check_refused(store, lambda: Relay(store))


def test_an_empty_database_without_blobs_is_a_new_store(tmp_path: Path) -> None:
    """A power loss in the first moment of a store leaves this; nothing was acknowledged yet."""
    (tmp_path / "relay.db").touch()

    with Relay(tmp_path) as relay:
        assert relay.pull(relay.push(SMALL).ref) == SMALL


def test_a_database_of_a_newer_version_is_refused_and_untouched(store: Path) -> None:
    execute(store / "relay.db", "PRAGMA user_version = 99")
    before = (store / "relay.db").read_bytes()

    with pytest.raises(Broken, match="schema 99") as refused:
        Relay(store)

    assert "upgrade" in refused.value.hint
    assert str(store / "relay.db") in refused.value.local_message
    assert (store / "relay.db").read_bytes() == before


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_truncated_database_gives_clear_errors_and_no_wrong_body(
    store: Path, part: float
) -> None:
    size_bytes = (store / "relay.db").stat().st_size
    os.truncate(store / "relay.db", int(size_bytes * part) // PAGE_BYTES * PAGE_BYTES)

    assert use(store) != "all is well"


@rig
@pytest.mark.parametrize("seed", range(FLIPS))
def test_flipped_bytes_in_the_database_give_clear_errors_and_no_wrong_body(
    store: Path, seed: int
) -> None:
    """Sixteen bytes in a row are changed at a place that is chance; that may also be free room."""
    chance = Random(seed)
    with (store / "relay.db").open("r+b") as file:
        place = chance.randrange((store / "relay.db").stat().st_size - 16)
        file.seek(place)
        file.write(chance.randbytes(16))

    use(store)


def use(store: Path) -> str:
    """Read and write all there is; anything may fail, if it does so with an error of ours."""
    try:
        with Relay(store) as relay:
            acts = relay.survey, relay.sweep, lambda: relay.push(b"new"), lambda: _read_all(relay)
            heard = [_tried(act) for act in acts]
            heard += [problem.what for problem in problems_of(relay)]
    except RelayError as error:
        return error_text(error)
    return "; ".join(each for each in heard if each) or "all is well"


def _read_all(relay: Relay) -> None:
    for artifact in relay.list(limit=1_000).artifacts:
        _tried(lambda ref=artifact.ref, name=artifact.name: _read(relay, ref, name))


def _read(relay: Relay, ref: str, name: str | None) -> None:
    body = relay.pull(ref)
    if name and name.startswith("some-") and name.removeprefix("some-").isdecimal():
        expected = Random(int(name.removeprefix("some-"))).randbytes(500)
    else:
        expected = {"small": SMALL, "large": LARGE}.get(name or "", body)
    assert body == expected, f"{ref} ({name}) has a wrong body, and nobody said so"


def _tried(act: Callable[[], object]) -> str:
    try:
        act()
    except RelayError as error:
        return error_text(error)
    return ""


def test_a_missing_log_of_sqlite_loses_at_most_what_was_in_it(tmp_path: Path) -> None:
    """Somebody deleted relay.db-wal after a crash: what is left is older, and whole."""
    folder = tmp_path / "store"
    with Relay(folder) as relay:
        relay.push(SMALL, name="small", ttl_s=None)
    with Relay(folder) as relay:
        relay.push(LARGE, name="large", ttl_s=None)
        crashed = tmp_path / "crashed"
        shutil.copytree(folder, crashed, ignore=shutil.ignore_patterns("*-wal", "*-shm"))

    with Relay(crashed) as relay:
        assert [relay.pull(each.ref) for each in relay.list().artifacts] == [SMALL]
        assert problems_of(relay) == []


# Rows that are not what they were


def spoil(store: Path, name: str, kind: str, junk: bytes) -> str:
    """Put junk in the place of a row that an artifact needs; its ref."""
    with Relay(store) as relay:
        ref = named(relay, name)
        sha256 = relay.peek(ref).sha256
    log = {"artifact": f"a/{ref}", "ref": "i/a/%"}.get(kind, f"b/{sha256}")
    key = f"%{ref}" if kind == "ref" else "%"
    sql = "UPDATE row SET body = ? WHERE log LIKE ? AND kind = ? AND key LIKE ?"
    execute(store / "relay.db", sql, junk, log, kind, key)
    return ref


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("kind", ["artifact", "at", "body", "ref"])
def test_a_damaged_row_gives_clear_errors(store: Path, kind: str, junk: bytes) -> None:
    ref = spoil(store, "small", kind, junk)

    with Relay(store) as relay:
        _tried(lambda: relay.list(limit=1_000))
        _tried(relay.survey)
        _tried(relay.sweep)
        _tried(lambda: relay.push(SMALL))
        for act in (relay.peek, relay.pull, relay.lineage, relay.pin, relay.remove):
            _tried(lambda act=act: act(ref))


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("kind", ["artifact", "at", "body"])
def test_verify_names_the_ref_of_a_damaged_row(store: Path, kind: str, junk: bytes) -> None:
    ref = spoil(store, "small", kind, junk)

    with Relay(store) as relay:
        assert ref in {problem.ref for problem in problems_of(relay)}


def test_a_damaged_index_key_gives_clear_errors(store: Path) -> None:
    """The key holds the time; one that is no number was found by flipping bytes."""
    execute(store / "relay.db", "UPDATE row SET key = 'x' || key WHERE kind = 'ref'")

    with Relay(store) as relay:
        for act in (lambda: relay.list(limit=1_000), relay.survey, relay.sweep):
            _tried(act)


def test_a_complaint_of_sqlite_that_is_no_utf8_is_translated_too(store: Path) -> None:
    """SQLite quotes the damaged schema, and Python cannot read the quotation."""
    database = store / "relay.db"
    whole = database.read_bytes()
    damaged = whole.replace(b"tablefactfact", b"table\xf3actfact", 1)
    damaged = damaged.replace(b"CREATE TABLE fact", b"CREATE TXBLE fact", 1)
    assert damaged != whole
    database.write_bytes(damaged)

    check_refused(store, lambda: Relay(store).list())


def test_a_description_with_a_wrong_size_does_not_cut_the_body(store: Path) -> None:
    """Nothing but the hash says what the body is."""
    with Relay(store) as relay:
        ref = named(relay, "small")
    sql = "UPDATE row SET body = CAST(replace(body, ?, ?) AS BLOB) WHERE log = ? AND kind = ?"
    sizes = f'"size":{len(SMALL)}', '"size":100'
    execute(store / "relay.db", sql, *sizes, f"a/{ref}", "artifact")

    with Relay(store) as relay:
        assert relay.peek(ref).size_bytes == 100
        with suppress(Broken):
            assert relay.pull(ref) == SMALL


# Blob files


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path / "store") as relay:
        yield relay


@pytest.fixture
def large(relay: Relay) -> str:
    relay.push(SMALL, name="small")
    return relay.push(LARGE, name="large").ref


@pytest.mark.parametrize("place", [0, len(LARGE) // 2, len(LARGE) - 1])
def test_a_changed_blob_is_refused_and_named(relay: Relay, large: str, place: int) -> None:
    """Promise R9. Every byte that is given out was checked, whichever of them changed."""
    changed = bytearray(LARGE)
    changed[place] ^= 1
    blob_of(relay, large).write_bytes(changed)

    with pytest.raises(Broken) as refused:
        relay.pull(large)

    assert refused.value.hint
    assert {problem.ref for problem in problems_of(relay)} == {large}


@pytest.mark.parametrize("size_bytes", [0, 1, 99_999])
def test_a_cut_blob_is_refused_and_named(relay: Relay, large: str, size_bytes: int) -> None:
    os.truncate(blob_of(relay, large), size_bytes)

    with pytest.raises(Broken):
        relay.pull(large)

    assert {problem.ref for problem in problems_of(relay)} == {large}


def test_bytes_behind_the_end_of_a_blob_are_not_given_out(relay: Relay, large: str) -> None:
    os.truncate(blob_of(relay, large), len(LARGE) + 1)

    assert relay.pull(large) == LARGE
    assert b"".join(relay.stream(large)) == LARGE


def test_a_deleted_blob_is_refused_and_named(relay: Relay, large: str) -> None:
    path = blob_of(relay, large)
    path.unlink()

    with pytest.raises(Broken, match="cannot be read") as refused:
        relay.pull(large)
    with pytest.raises(Broken):
        b"".join(relay.stream(large))

    assert str(path) in refused.value.local_message
    assert {problem.ref for problem in problems_of(relay)} == {large}


def test_each_copy_of_a_store_is_checked_for_itself(
    relay: Relay, large: str, tmp_path: Path
) -> None:
    """A restore keeps the names of blobs: that one was right says nothing about the other."""
    relay.backup(tmp_path / "backup.tar")
    assert relay.pull(large) == LARGE
    with Relay(tmp_path / "copy") as copy:
        copy.restore(tmp_path / "backup.tar")
        blob_of(copy, large).write_bytes(bytes(len(LARGE)))

        with pytest.raises(Broken):
            copy.pull(large)


def test_content_that_was_damaged_can_be_pushed_again(relay: Relay, large: str) -> None:
    """Who still has the content can mend the store with it."""
    blob_of(relay, large).unlink()
    relay.remove(large)

    again = relay.push(LARGE).ref

    assert relay.pull(again) == LARGE
    assert problems_of(relay) == []


def test_an_unknown_ref_in_a_damaged_store_is_still_not_found(relay: Relay, large: str) -> None:
    blob_of(relay, large).unlink()

    with pytest.raises(NotFound):
        relay.peek("00000000-0000-4000-8000-000000000000")
