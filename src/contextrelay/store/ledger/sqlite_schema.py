"""The SQLite engine's schema: numbered steps, and the upgrade from any step to the newest.

Rule: a migration is a new file in schema/; an existing file is never edited.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from contextrelay.errors import Broken

SCHEMA_VERSION = 3
SCHEMA_FOLDER = Path(__file__).parent / "schema"


def version_of(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def migrations(folder: Path = SCHEMA_FOLDER) -> list[str]:
    """Return the SQL of the steps from an empty file to the newest schema, oldest first."""
    return [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))]


def migrate(connection: sqlite3.Connection, path: Path, steps: list[str]) -> None:
    """Upgrade a database to the newest schema, one transaction per step.

    Raises:
        Broken: the database was written by a newer version.
    """
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    while (version := version_of(connection)) != len(steps):
        if version > len(steps):
            raise Broken(
                f"the store has schema {version}; this version of Context Relay supports up to "
                f"{len(steps)}",
                "upgrade: pip install --upgrade contextrelay",
                place=path,
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(steps[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script: executescript would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement  # The last statement may have no semicolon.
