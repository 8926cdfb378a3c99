"""The PostgreSQL engine's schema: numbered steps, and the upgrade from any step to the newest.

Rule: a step is a new file in schema/; an existing file is never edited.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from contextrelay.errors import Broken, RelayError
from contextrelay.store.postgres.client import PostgresClient

SCHEMA_FOLDER = Path(__file__).parent / "schema"
SCHEMA_VERSION = 4

VERSION = "SELECT coalesce(max(number), 0) FROM {store}.step"
# A lock, so that only one of two processes that open a new store at once creates it.
TAKE_TURNS = "SELECT pg_advisory_xact_lock(1380273241, hashtext(%b))"
EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = %b"
FIRST = "CREATE TABLE IF NOT EXISTS {store}.step (number int PRIMARY KEY, done_ms bigint NOT NULL)"
DONE = "INSERT INTO {store}.step VALUES (%b, extract(epoch FROM clock_timestamp()) * 1000)"


def bring_up_to_date(client: PostgresClient, steps: list[str] | None = None) -> None:
    """Create the schema, or upgrade it to the newest step.

    Raises:
        Broken: the schema was written by a newer version.
    """
    try:
        version = client.ask(VERSION)[0][0]
    except RelayError as error:
        if not isinstance(error.__cause__, _MISSING):
            raise
        version = 0
    if version != SCHEMA_VERSION or steps is not None:
        with client.transaction() as ask:
            ask(TAKE_TURNS, (client.prefix,))
            if not ask(EXISTS, (client.prefix,)):
                ask("CREATE SCHEMA {store}")
            ask("SET LOCAL search_path TO {store}")
            ask(FIRST)
            version = ask(VERSION)[0][0]
            steps = migrations() if steps is None else steps
            if version > len(steps):
                raise Broken(
                    f"the store has schema {version}; this version of Context Relay supports up to "
                    f"{len(steps)}",
                    "upgrade: pip install --upgrade contextrelay",
                    place=client.address,
                )
            for number in range(version, len(steps)):
                ask(steps[number])
                ask(DONE, (number + 1,))
            ask("SELECT {store}.be_durable()")


def migrations(folder: Path = SCHEMA_FOLDER) -> list[str]:
    """Return the SQL of the steps from an empty schema to the newest, oldest first."""
    return [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))]


_MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
