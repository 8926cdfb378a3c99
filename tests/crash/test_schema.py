"""The schema on disk: old stores open, upgrade whole or not at all, and keep what they have."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from contextrelay import Gone, Relay
from contextrelay.store.ledger.sqlite_schema import (
    SCHEMA_FOLDER,
    SCHEMA_VERSION,
    migrate,
    migrations,
    version_of,
)

V1 = Path(__file__).with_name("v1.sql")
"""A store as the first schema was written: `python -m tests.crash.test_schema` shows how."""

V1_TEXT = b"kept since the first schema"
V1_TEXT_REF = "11111111-1111-4111-8111-111111111111"
V1_REMOVED_REF = "22222222-2222-4222-8222-222222222222"


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def v1_store(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    with opened(folder / "relay.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(V1.read_text())
    return folder / "relay.db"


def steps_with(folder: Path, second: str) -> list[str]:
    """The first step as it is, and a second one."""
    folder.mkdir(exist_ok=True)
    shutil.copy(SCHEMA_FOLDER / "0001.sql", folder)
    (folder / "0002.sql").write_text(second)
    return migrations(folder)


def dump(connection: sqlite3.Connection) -> list[str]:
    return list(connection.iterdump())


def test_there_is_a_step_for_every_version() -> None:
    assert len(migrations()) == SCHEMA_VERSION


def test_a_store_of_the_first_schema_opens_with_all_it_holds(tmp_path: Path) -> None:
    """Promise G1. This store never changes; every later schema must still read it."""
    v1_store(tmp_path)

    with Relay(tmp_path) as relay:
        assert relay.pull(V1_TEXT_REF) == V1_TEXT
        assert relay.peek(V1_TEXT_REF).metadata == {"made": "by hand"}
        with pytest.raises(Gone):
            relay.peek(V1_REMOVED_REF)
        assert relay.verify().problems == []
        assert relay.pull(relay.push(V1_TEXT).ref) == V1_TEXT


def test_a_further_step_upgrades_and_keeps_everything(tmp_path: Path) -> None:
    path = v1_store(tmp_path)
    steps = steps_with(
        tmp_path / "steps", "CREATE TABLE more (a TEXT);\nINSERT INTO more VALUES (';');"
    )
    with opened(path) as connection:
        before = connection.execute("SELECT * FROM row ORDER BY 1, 2, 3").fetchall()

        migrate(connection, path, steps)

        assert version_of(connection) == 2
        assert connection.execute("SELECT * FROM row ORDER BY 1, 2, 3").fetchall() == before
        assert connection.execute("SELECT * FROM more").fetchall() == [(";",)]


def test_an_upgrade_done_twice_is_done_once(tmp_path: Path) -> None:
    path = v1_store(tmp_path)
    steps = steps_with(tmp_path / "steps", "CREATE TABLE more (a TEXT);")
    with opened(path) as first, opened(path) as second:
        migrate(first, path, steps)
        migrate(second, path, steps)

        assert version_of(second) == 2


def test_a_step_that_fails_leaves_the_old_version_untouched(tmp_path: Path) -> None:
    path = v1_store(tmp_path)
    second = "CREATE TABLE more (a TEXT);\nDELETE FROM row;\nINSERT INTO nowhere VALUES (1);"
    with opened(path) as connection:
        before = dump(connection)

        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, path, steps_with(tmp_path / "steps", second))

        assert version_of(connection) == 1
        assert dump(connection) == before
        assert not connection.in_transaction
    with Relay(tmp_path) as relay:
        assert relay.pull(V1_TEXT_REF) == V1_TEXT


def test_a_step_whose_last_statement_is_not_ended_is_not_left_out(tmp_path: Path) -> None:
    """A forgotten semicolon must not be a step that counts as done and was not."""
    path = v1_store(tmp_path)
    steps = steps_with(
        tmp_path / "steps", "CREATE TABLE more (a TEXT);\nCREATE TABLE most (a TEXT)\n"
    )
    with opened(path) as connection:
        with suppress(sqlite3.Error, ValueError):
            migrate(connection, path, steps)

        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert version_of(connection) == 1 or {"more", "most"} <= tables


def _make_v1() -> str:
    """How v1.sql was made, by the code of its time. Not to be run again: the file is the point."""
    import tempfile

    from contextrelay.client.transport.local import Local
    from contextrelay.core.stores import Stores

    refs = iter((V1_TEXT_REF, V1_REMOVED_REF))

    def chosen(count: int) -> bytes:
        return bytes.fromhex(next(refs).replace("-", "")) if count == 16 else bytes(count)

    with tempfile.TemporaryDirectory() as folder:
        with Relay(folder) as relay:
            stores = Stores(
                relay.transport.stores.engine,
                now_ms=lambda: 1_800_000_000_000,
                random_bytes=chosen,
            )
            relay.transport = Local(stores)
            relay.push(V1_TEXT, name="old.txt", metadata={"made": "by hand"}, ttl_s=None)
            relay.remove(relay.push(b"removed long ago", ttl_s=None).ref)
        with opened(Path(folder) / "relay.db") as connection:
            return "\n".join((*dump(connection), "PRAGMA user_version = 1;"))


if __name__ == "__main__":
    print(_make_v1())
