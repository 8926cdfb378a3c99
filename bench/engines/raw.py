"""Raw clients: what a verb reads and writes, done again by redis-py, psycopg or sqlite3 alone.

A verb's calls to its ledger are recorded (`recorded`) and done again here, in as few round trips as
a correct implementation can: a read is one command; a commit is all or nothing, finds the heads of
its logs, numbers its facts, keeps its rows in order, and publishes which logs have news. What a raw
client leaves out is what ours adds: checks of `expect` and of the lock, retries, our errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast
from zlib import crc32

import psycopg
from msgspec.structs import replace
from redis import Redis, RedisCluster

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.store.ledger import Ledger, Row, Write
from contextrelay.store.ledger.sqlite import connect
from contextrelay.store.ledger.view import LedgerView

Call = tuple[Any, ...]
"""`("last", log)`, `("get", log, kind, key)` or `("commit", write, ...)`."""


class Raw(Protocol):
    """A raw client, over tables or keys that are made as an engine's are."""

    def last(self, log: str) -> object: ...

    def get(self, log: str, kind: str, key: str) -> object: ...

    def commit(self, *writes: Write) -> object: ...


def do(raw: Raw, calls: Iterable[Call]) -> None:
    """Do recorded calls again."""
    for name, *words in calls:
        getattr(raw, name)(*words)


class Recorder(LedgerView):
    """Writes down what is asked of a ledger."""

    def __init__(self, inner: Ledger) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []

    def last(self, log: str) -> int:
        self.calls.append(("last", log))
        return super().last(log)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        self.calls.append(("get", log, kind, key))
        return super().get(log, kind, key)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        self.calls.append(("commit", *writes))
        return super().commit(*writes, id=id)


def recorded(relay: Relay, act: Callable[[], object]) -> list[Call]:
    """The calls that an act makes."""
    transport = cast(Local, relay.transport)
    stores = transport.stores
    recorder = Recorder(stores.ledger)
    transport.stores = replace(stores, engine=replace(stores.engine, ledger=recorder))
    try:
        act()
    finally:
        transport.stores = stores
    return recorder.calls


def others(calls: Sequence[Call], number: int) -> list[Call]:
    """The same calls for another artifact: the logs of it and of its body have another name."""

    def named(log: str) -> str:
        return f"{log}.{number}" if log[:2] in ("a/", "b/") else log

    def renamed(word: Any) -> Any:
        return replace(word, log=named(word.log)) if isinstance(word, Write) else word

    return [
        (name, *map(renamed, words)) if name == "commit" else (name, named(words[0]), *words[1:])
        for name, *words in calls
    ]


class RawSqlite:
    """sqlite3 on a file with our tables, synced at each commit."""

    def __init__(self, path: Any) -> None:
        self._connection = connect(path)

    def last(self, log: str) -> object:
        asked = "SELECT max(seq) FROM fact WHERE log = ?"
        return self._connection.execute(asked, (log,)).fetchone()

    def get(self, log: str, kind: str, key: str) -> object:
        asked = "SELECT body FROM row WHERE log = ? AND kind = ? AND key = ?"
        return self._connection.execute(asked, (log, kind, key)).fetchone()

    def commit(self, *writes: Write) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for write in writes:
            if write.facts:
                head: int = cast(Any, self.last(write.log))[0] or 0
                facts = [(write.log, head + at, body) for at, body in enumerate(write.facts, 1)]
                self._connection.executemany("INSERT INTO fact VALUES (?, ?, ?)", facts)
            rows = [(write.log, row.kind, row.key, row.body, row.due_ms) for row in write.rows]
            if rows:
                self._connection.executemany(
                    "INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?, ?)", rows
                )
        news = "\0".join(write.log for write in writes if write.facts)
        if news:
            execute("INSERT INTO news (writer, logs) VALUES (0, ?)", (news,))
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class RawPostgres:
    """psycopg on our tables: a read is a select, a commit one statement; all are prepared."""

    def __init__(self, url: str, schema: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._commit = _COMMIT.replace("{store}", schema).encode()
        self._last = f"SELECT head FROM {schema}.log WHERE name = %b".encode()
        self._get = f"SELECT body FROM {schema}.item WHERE log = %b AND kind = %b AND key = %b"

    def last(self, log: str) -> object:
        return self._connection.execute(self._last, (log,), binary=True).fetchone()

    def get(self, log: str, kind: str, key: str) -> object:
        values = (log, kind, key.encode())
        return self._connection.execute(self._get.encode(), values, binary=True).fetchone()

    def commit(self, *writes: Write) -> object:
        counts: dict[str, int] = {}
        facts: list[tuple[str, int, bytes]] = []
        rows: list[tuple[Any, ...]] = []
        for write in sorted(writes, key=lambda write: write.log):
            for body in write.facts:
                counts[write.log] = counts.get(write.log, 0) + 1
                facts.append((write.log, counts[write.log], body))
            counts.setdefault(write.log, 0)
            rows += [
                (write.log, row.kind, row.key.encode(), row.body, row.due_ms) for row in write.rows
            ]
        values = [list(counts), list(counts.values()), *_columns(facts, 3), *_columns(rows, 5)]
        return self._connection.execute(self._commit, values, binary=True).fetchall()

    def close(self) -> None:
        self._connection.close()


_COMMIT = """
WITH said AS (
    INSERT INTO {store}.log AS old (name, head)
    SELECT * FROM unnest(%b::text[], %b::bigint[])
    ON CONFLICT (name) DO UPDATE SET head = old.head + excluded.head RETURNING name, head
), counted AS (
    SELECT * FROM unnest(%b::text[], %b::bigint[], %b::bytea[]) AS fact (log, place, body)
), facts AS (
    INSERT INTO {store}.fact (log, seq, body)
    SELECT log, said.head - (SELECT count(*) FROM counted AS other WHERE other.log = counted.log)
        + place, body
    FROM counted JOIN said ON said.name = counted.log
), items AS (
    INSERT INTO {store}.item (log, kind, key, body, due_ms)
    SELECT * FROM unnest(%b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::bigint[])
    ON CONFLICT (log, kind, key) DO UPDATE SET body = excluded.body, due_ms = excluded.due_ms
)
SELECT head, pg_notify('raw', name) FROM said
"""


def _columns(entries: list[Any], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*entries, strict=True)] or [[]] * width


class RawRedis:
    """redis-py on one server: a read is a command, a commit one MULTI ... EXEC in one trip."""

    def __init__(self, url: str, prefix: str) -> None:
        self._redis: Any = cast(Any, Redis).from_url(url, protocol=2)
        self._prefix = prefix

    def last(self, log: str) -> object:
        return self._redis.execute_command("GET", self._key(log, "h"))

    def get(self, log: str, kind: str, key: str) -> object:
        return self._redis.execute_command("HGET", self._key(log, "r"), f"{kind}\0{key}")

    def commit(self, *writes: Write) -> object:
        with self._redis.pipeline(transaction=True) as pipe:
            for write in writes:
                self._index(pipe, write)
                self._write(pipe, write)
            return pipe.execute()

    def close(self) -> None:
        self._redis.close()

    def _index(self, pipe: Any, write: Write) -> None:
        """The name of the log, and its rows that are due, where they are found in order."""
        shard = crc32(write.log.encode()) % 16
        pipe.execute_command("ZADD", f"{self._prefix}:{{logs:{shard:02}}}", 0, write.log)
        for row in write.rows:
            if row.due_ms is not None:
                name = f"{row.due_ms:016x}{write.log}\0{row.kind}\0{row.key}"
                shard = crc32(name.encode()) % 16
                pipe.execute_command("ZADD", f"{self._prefix}:{{due:{shard:02}}}", 0, name)

    def _write(self, pipe: Any, write: Write) -> None:
        for body in write.facts:
            pipe.execute_command("XADD", self._key(write.log, "f"), "*", "b", body)
        if write.facts:
            pipe.execute_command("INCRBY", self._key(write.log, "h"), len(write.facts))
            pipe.execute_command("PUBLISH", f"{self._prefix}:hear", write.log)
        if write.rows:
            fields = [f"{row.kind}\0{row.key}" for row in write.rows]
            values = [word for row in write.rows for word in (_field(row), row.body or b"")]
            zeros = [word for field in fields for word in (0, field)]
            pipe.execute_command("HSET", self._key(write.log, "r"), *values)
            pipe.execute_command("ZADD", self._key(write.log, "k"), *zeros)

    def _key(self, log: str, part: str) -> str:
        return f"{self._prefix}:{{{log}}}:{part}"


class RawCluster(RawRedis):
    """redis-py on a cluster: the index entries go in one trip, then each log's write in one.

    A cluster has no transaction over two slots, and a crash has to leave a prefix of the writes.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self._redis = cast(Any, RedisCluster).from_url(url, protocol=2)
        self._prefix = prefix

    def commit(self, *writes: Write) -> object:
        with self._redis.pipeline() as pipe:
            for write in writes:
                self._index(pipe, write)
            pipe.execute()
        for write in writes:
            with self._redis.pipeline() as pipe:
                self._write(pipe, write)
                pipe.execute()
        return None


def _field(row: Row) -> str:
    return f"{row.kind}\0{row.key}"
