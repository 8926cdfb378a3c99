"""The ledger on PostgreSQL: several relay servers can share one store.

A commit is one call of a function of the schema (schema/0003.sql): one round trip, one transaction.
The function locks the entries of its logs, in order, until its end. So the numbers of a log have no
gap, and no reader sees a number before the lower ones.

Concurrent commits of one process are sent in one call. Every push writes to the log of all
artifacts, so separate calls would each wait for the sync of the previous one.

Rule: every commit has an id, which is written with it. So a call may be sent again after a lost
reply, also together with others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from psycopg import IsolationLevel

from contextrelay.errors import RelayError, Unavailable
from contextrelay.store.clocks import clock_problems
from contextrelay.store.commit_queue import CommitQueue, Ticket
from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import (
    COMMIT_ID_KEPT_S,
    LOCK_KIND,
    LOCK_LOG,
    ONLY,
    UNLOCKED,
    Fact,
    Reads,
    Row,
    Stale,
    Write,
    current_token,
)
from contextrelay.store.postgres.arrays import bigints, bodies, ints, texts
from contextrelay.store.postgres.client import PostgresClient
from contextrelay.store.postgres.notifications import PostgresListener
from contextrelay.store.postgres.schema_steps import bring_up_to_date

LAST = "SELECT head FROM {store}.log WHERE name = %b"
READ = """SELECT seq, body FROM {store}.fact WHERE log = %b AND seq > %b::bigint
          ORDER BY seq LIMIT %b::bigint"""
GET = "SELECT body FROM {store}.item WHERE log = %b AND kind = %b AND key = %b"
GET_EACH = "SELECT log, body FROM {store}.item WHERE log = ANY(%b) AND kind = %b AND key = %b"
ROWS = """SELECT key, body, due_ms FROM {store}.item WHERE log = %b AND kind = %b AND key > %b
          ORDER BY key LIMIT %b::bigint"""
# Seek from one kind to the next, so that the time does not depend on the number of rows.
KINDS = """WITH RECURSIVE found (kind) AS (
               (SELECT kind FROM {store}.item WHERE log = %b ORDER BY kind LIMIT 1)
               UNION ALL SELECT (SELECT kind FROM {store}.item
                                 WHERE log = %b AND kind > found.kind ORDER BY kind LIMIT 1)
               FROM found WHERE found.kind IS NOT NULL)
           SELECT kind FROM found WHERE kind IS NOT NULL"""
LOGS = "SELECT name FROM {store}.log WHERE name >= %b AND name > %b ORDER BY name LIMIT %b::bigint"
DUE = """SELECT log, kind, key, body, due_ms FROM {store}.item WHERE due_ms <= %b::bigint
         ORDER BY due_ms LIMIT %b::bigint"""


class PostgresReads:
    """The read operations, over any function that sends statements."""

    def __init__(self, ask: Callable[..., list[Any]]) -> None:
        self._ask = ask

    def last(self, log: str) -> int:
        found = self._ask(LAST, (log,))
        return found[0][0] if found else 0

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return [Fact(seq, body) for seq, body in self._ask(READ, (log, after, limit))]

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        found = self._ask(GET, (log, kind, key.encode()))
        return found[0][0] if found else None

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        found = dict(self._ask(GET_EACH, (list(logs), kind, key.encode())))
        return [found.get(log) for log in logs]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        found = self._ask(ROWS, (log, kind, after.encode(), limit))
        return [Row(kind, key.decode(), body, due_ms) for key, body, due_ms in found]

    def kinds(self, log: str) -> list[str]:
        return [kind for (kind,) in self._ask(KINDS, (log, log))]

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        found = [name for (name,) in self._ask(LOGS, (prefix, after, limit))]
        return [name for name in found if name.startswith(prefix)]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        found = self._ask(DUE, (now_ms, limit))
        return [
            (log, Row(kind, key.decode(), body, due_ms)) for log, kind, key, body, due_ms in found
        ]


COMMIT = """SELECT {store}.commit_writes(%b::bytea, %b::text, %b::text[],
    %b::int[], %b::int[], %b::bigint[], %b::int[],
    %b::int[], %b::text[], %b::int[], %b::bytea[],
    %b::int[], %b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[])"""
COMMIT_AND_COUNT = COMMIT.replace("commit_writes", "commit_and_count").replace(
    "%b::bytea[])", "%b::bytea[], %b::int[], %b::text[], %b::text[], %b::bigint[], %b::bigint[])"
)
EXCEEDED = "RC001"
"""The code of the error of commit_and_count for a counter that would exceed its maximum."""
SETTLE = "SELECT {store}.settle_commit(%b::bytea)"
FORGET = """DELETE FROM {store}.applied WHERE id IN (
                SELECT id FROM {store}.applied WHERE at_ms < {store}.now_ms() - %b
                ORDER BY at_ms LIMIT %b)"""
TRIM = "SELECT {store}.trim_log(%b::bytea, %b::text, %b::bigint)"
DROP = "SELECT {store}.drop_log(%b::bytea, %b::text, %b::bigint)"
SWAP_LOCK = "SELECT {store}.swap_lock(%b::bytea, %b::bytea)"
RISKY = """SELECT name FROM pg_settings
           WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'"""
TALLIES = "SELECT DISTINCT name FROM {store}.tally"
TALLIED = "SELECT field, amount FROM {store}.tally WHERE name = %b"
# The interval in seconds at which old ids are deleted, and how many at a time: more than are added
# in between.
FORGET_EVERY_S = 10
FORGET_MAX = 50_000

Writes = tuple[bytes, tuple[Write, ...]]
"""A commit: its id, and its writes."""


class PostgresLedger(PostgresReads):
    """Logs and rows in a schema of a database."""

    reads_wait = True
    may_lose = False
    failover_deadline = nullcontext

    def __init__(self, server: PostgresClient | str) -> None:
        self.client = PostgresClient(server) if isinstance(server, str) else server
        super().__init__(self.client.ask)
        self._queue = CommitQueue[Writes](self._try_group)
        self._hints: PostgresListener | None = None
        self._starting = threading.Lock()
        self._forget_s = time.monotonic() + FORGET_EVERY_S
        try:
            bring_up_to_date(self.client)
        except BaseException:
            self.client.close()
            raise

    @property
    def _channel(self) -> str:
        return f"{self.client.prefix}:hear"

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if not writes:
            return []
        heads = self._queue.run((id or os.urandom(16), writes), current_token())
        if time.monotonic() > self._forget_s:
            self._forget_s = time.monotonic() + FORGET_EVERY_S
            # The commit is applied: a failed cleanup must not fail it, and is repeated later.
            with suppress(RelayError):
                self.client.ask(FORGET, (COMMIT_ID_KEPT_S * 1_000, FORGET_MAX))
        return heads

    def applied(self, id: bytes) -> list[int] | None:
        return self.client.ask(SETTLE, (id,))[0][0]

    def confirm(self, log: str) -> None:
        """Do nothing, because facts that can be read are durable."""

    def trim(self, log: str, before: int) -> None:
        if not self.client.once(TRIM, (current_token(), log, before))[0][0]:
            raise locked()

    def drop(self, log: str, expect: int) -> None:
        head = self.client.once(DROP, (current_token(), log, expect))[0][0]
        if head is None:
            raise locked()
        if head != expect:
            raise Stale(log, head)

    def locked_by(self) -> bytes:
        return self.get(LOCK_LOG, LOCK_KIND, ONLY) or UNLOCKED

    def swap_lock(self, old: bytes, new: bytes) -> bool:
        return self.client.once(SWAP_LOCK, (old, new))[0][0]

    def tally(self, name: str) -> dict[str, int]:
        return dict(self.client.ask(TALLIED, (name,)))

    def tallies(self) -> Iterator[str]:
        return (name for (name,) in self.client.ask(TALLIES))

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        with self._starting:
            if self._hints is None:
                self._hints = PostgresListener(self.client, self._channel)
        return self._hints.add(callback)

    @contextmanager
    def snapshot(self) -> Generator[Reads]:
        with self.client.transaction(IsolationLevel.REPEATABLE_READ) as ask:
            view = PostgresReads(ask)
            view.last("")  # The snapshot starts at the first read, so read something.
            yield view

    def contention_lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def check(self) -> list[str]:
        risky = [
            f"the store's server may lose stored data on a power loss: {name} is off; "
            f"set {name} = on in postgresql.conf"
            for (name,) in self.client.ask(RISKY)
        ]
        return risky + clock_problems(self.client.ask("SELECT {store}.now_ms()")[0][0])

    def close(self) -> None:
        """Stop listening and close the client, which the blobs share."""
        if self._hints is not None:
            self._hints.end()
        self.client.close()

    def _try_group(self, group: list[Ticket[Writes]]) -> bool:
        """Do the writes of a group in one call; return False if nothing was done."""
        token = group[0].token or UNLOCKED
        same = [ticket for ticket in group if ticket.token == token]
        is_done = self._do(token, same)
        rest = [ticket for ticket in group if ticket.token != token]
        return self._try_group(rest) and is_done if rest else is_done

    def _do(self, token: bytes, group: list[Ticket[Writes]]) -> bool:
        try:
            changes = [ticket.change for ticket in group]
            values, adds = _arguments(changes), _adds(changes)
            sql = COMMIT_AND_COUNT if adds else COMMIT
            heads = self.client.ask(sql, (token, self._channel, *values, *adds))[0][0]
        except Unavailable as error:
            for ticket in group:
                ticket.error = error
            return True  # All retries were used, so the changes are not tried one by one.
        except RelayError as error:
            for ticket in group:
                ticket.error = error
            if len(group) == 1 and getattr(error.__cause__, "sqlstate", "") == EXCEEDED:
                limited = next(each for each in group[0].change[1] if each.total_max is not None)
                group[0].error = Stale(limited.log, self.last(limited.log))
            return False
        numbers = iter(heads or ())
        for ticket in group:
            ticket.error = locked() if heads is None else None
            if heads is not None:
                _answer(ticket, [next(numbers) for _ in ticket.change[1]])
        return True


def _answer(ticket: Ticket[Writes], heads: list[int | None]) -> None:
    for write, head in zip(ticket.change[1], heads, strict=True):
        if head is not None and head < 0:
            ticket.error = Stale(write.log, -1 - head)
            return
    if None in heads:
        ticket.error = Unavailable("the write was withdrawn before it arrived", "try again")
    ticket.answer = heads


def _adds(callers: Iterable[Writes]) -> list[bytes]:
    """Return the further arguments of the SQL function commit_and_count; [] if nothing is added."""
    adds = [
        (caller, write, field, amount)
        for caller, (_, some) in enumerate(callers)
        for write in some
        for field, amount in write.adds
    ]
    if not adds:
        return []
    return [
        ints([caller for caller, _, _, _ in adds]),
        texts([write.log for _, write, _, _ in adds]),
        texts([field for _, _, field, _ in adds]),
        bigints([amount for _, _, _, amount in adds]),
        bigints([write.total_max for _, write, _, _ in adds]),
    ]


def _arguments(callers: Iterable[Writes]) -> list[bytes]:
    """Return the arguments of the SQL function commit_writes, as arrays."""
    callers = list(callers)
    writes = [(caller, write) for caller, (_, some) in enumerate(callers) for write in some]
    logs = sorted({write.log for _, write in writes})
    place_of = {log: place for place, log in enumerate(logs, 1)}
    facts = [
        (number, write.log, offset, body)
        for number, (_, write) in enumerate(writes, 1)
        for offset, body in enumerate(write.facts, 1)
    ]
    rows = [
        (number, write.log, row)
        for number, (_, write) in enumerate(writes, 1)
        for row in write.rows
    ]
    return [
        texts(logs),
        ints([caller for caller, _ in writes]),
        ints([place_of[write.log] for _, write in writes]),
        bigints([-1 if write.expect is None else write.expect for _, write in writes]),
        ints([len(write.facts) for _, write in writes]),
        ints([number for number, _, _, _ in facts]),
        texts([log for _, log, _, _ in facts]),
        ints([offset for _, _, offset, _ in facts]),
        bodies([body for _, _, _, body in facts]),
        ints([number for number, _, _ in rows]),
        texts([log for _, log, _ in rows]),
        texts([row.kind for _, _, row in rows]),
        bodies([row.key.encode() for _, _, row in rows]),
        bodies([row.body for _, _, row in rows]),
        bigints([row.due_ms for _, _, row in rows]),
        bodies([id for id, _ in callers]),
    ]
