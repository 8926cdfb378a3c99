"""News of the SQLite engine: heard once, by name, and never more than is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from contextrelay.store.ledger.sqlite_notifications import CHARS_MAX, KEPT, NotificationReader, add
from contextrelay.store.ledger.sqlite_schema import migrations

ME, OTHER = 1, 2


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in migrations():
            connection.executescript(step)
        yield connection


def news(connection: sqlite3.Connection) -> NotificationReader:
    def ask(sql: str, values: tuple[object, ...]) -> list[Any]:
        return connection.execute(sql, values).fetchall()

    return NotificationReader(ask)


def test_what_others_wrote_since_is_reported_once(connection: sqlite3.Connection) -> None:
    add(connection, OTHER, ["before"])
    found = news(connection)
    add(connection, OTHER, ["a", "b/ü"])
    add(connection, ME, ["mine"])
    add(connection, OTHER, ["a"])

    assert found.logs(ME) == ["a", "b/ü"]
    assert found.logs(ME) == []


def test_who_looks_too_late_hears_of_some_log(connection: sqlite3.Connection) -> None:
    found = news(connection)
    for _ in range(3 * KEPT):
        add(connection, OTHER, ["a"])

    assert found.logs(ME) == [None]
    add(connection, OTHER, ["b"])
    assert found.logs(ME) == ["b"]


def test_only_the_newest_news_is_kept(connection: sqlite3.Connection) -> None:
    for _ in range(5 * KEPT):
        add(connection, OTHER, ["a"])
        (count,) = connection.execute("SELECT count(*) FROM news").fetchone()
        assert count < 2 * KEPT


def test_more_logs_than_an_entry_may_name_are_some_log(connection: sqlite3.Connection) -> None:
    found = news(connection)

    add(connection, OTHER, [f"{number:0600d}" for number in range(CHARS_MAX // 600 + 1)])

    assert found.logs(ME) == [None]
