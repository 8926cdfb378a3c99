"""The PostgreSQL client: connections for ledger and blobs, with our errors and our retries.

Rule: no state stays in a connection between two statements, so that each may be sent over another
one: PgBouncer in transaction mode does that. Statements are prepared only where no such is between.
`ask` is repeated, so it is only for what may be done twice; `once` is sent at most once, and an
Unavailable from it leaves open whether it was done.
"""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode
from weakref import WeakSet

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.pq import Conninfo, TransactionStatus

from contextrelay.errors import Invalid, RelayError, Unavailable
from contextrelay.limits import BUSY_MS_MAX
from contextrelay.store.postgres.error_mapping import is_passing, is_undone, translate
from contextrelay.store.server_address import ENCODE, check_server

# Of one process to PostgreSQL, whose own default for all of them is 100.
POSTGRES_CONNECTIONS_MAX = 16


Answer = TypeVar("Answer")
Values = Sequence[object]

FIRST_PAUSE_S = 0.05
# Together with the pauses between them about 6 s: as long as a fail-over may take.
REPEATS_MAX = 7
CONNECT_S_MAX = 5
# A peer that acknowledges nothing for so long is gone; who only listens has to ask whether it is.
UNANSWERED_MS_MAX = 10_000
# How often a statement is sent before it is prepared.
PREPARE_AFTER = 3
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


def without_password(url: str) -> str:
    """An address that may be shown: no user, no password, no options."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _check(url: str) -> None:
    check_server(url)
    if re.search("%(?![0-9A-Fa-f]{2})|%00", url):
        raise Invalid("the store's address has a % that begins no character", ENCODE)


def _options() -> set[str]:
    """The options that libpq takes in an address."""
    return {each.keyword.decode() for each in Conninfo.get_defaults()} | {"ssl"}


def is_direct(connection: Connection) -> bool:
    """Whether a server answers itself: a pooler between says the number of no process of it."""
    found = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return found == (connection.info.backend_pid,)


class PostgresClient:
    """A database, and the schema in it that holds a store. Safe to use from many threads."""

    def __init__(self, url: str) -> None:
        url = url.strip()
        _check(url)
        plain, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        self.prefix = options.pop("prefix", "relay")
        if not _PREFIX.match(self.prefix):
            raise Invalid(
                f"{self.prefix[:60]!r} cannot name a schema", "use small letters, digits and _"
            )
        for name in options.keys() - _options():
            hint = "leave it out, or see docs/engines.md for the options"
            raise Invalid(f"the store's address has an unknown option {name[:40]!r}", hint)
        # libpq takes a + as it is.
        self._conninfo = f"{plain}?{urlencode(options, quote_via=quote)}" if options else plain
        self.address = without_password(url)
        self._idle: deque[Connection] = deque()
        self._free = threading.BoundedSemaphore(POSTGRES_CONNECTIONS_MAX)
        self._spelled: dict[str, bytes] = {}
        self._was_up = False
        self._is_closed = False
        _clients.add(self)

    @property
    def shown(self) -> str:
        """The address of the store, as it may be shown."""
        return self.address + ("" if self.prefix == "relay" else f"?prefix={self.prefix}")

    def ask(self, sql: str, values: Values = ()) -> list[Any]:
        """Send a statement that may be done twice, again while nobody answers; its rows."""
        return self._repeat(lambda: self._send(sql, values), is_passing)

    def once(self, sql: str, values: Values = ()) -> list[Any]:
        """Send a statement at most once, except where it was undone for sure; its rows."""
        return self._repeat(lambda: self._send(sql, values, sent_once=True), is_undone)

    def connect(self) -> Connection:
        """A connection of its own, for who keeps it longer than a statement.

        Raises:
            Unavailable: nobody answers, or we are refused.
        """
        if self._is_closed:
            raise Unavailable("the store was closed", "open the relay again", place=self.address)
        try:
            connection = psycopg.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=CONNECT_S_MAX,
                tcp_user_timeout=UNANSWERED_MS_MAX,
                keepalives_idle=UNANSWERED_MS_MAX // 2_000,
                keepalives_interval=1,
                keepalives_count=UNANSWERED_MS_MAX // 2_000,
                client_encoding="utf8",
                application_name="contextrelay",
            )
            if is_direct(connection):
                connection.prepare_threshold = PREPARE_AFTER
        except psycopg.Error as error:
            raise translate(error, self.address, is_connecting=True) from error
        self._was_up = True
        return connection

    @contextmanager
    def transaction(self, isolation: IsolationLevel | None = None) -> Generator[Ask]:
        """A transaction on a connection of its own, given as what asks in it."""
        connection = self.connect()
        connection.isolation_level = isolation
        connection.read_only = None if isolation is None else True

        def ask(sql: str, values: Values = ()) -> list[Any]:
            return self._execute(connection, sql, values)

        try:
            with connection.transaction():
                yield ask
        except psycopg.Error as error:
            raise translate(error, self.address) from error
        finally:
            connection.close()

    def spelled(self, sql: str) -> bytes:
        """A statement with the schema's name in it, where it says {store}."""
        found = self._spelled.get(sql)
        if found is None:
            found = self._spelled[sql] = sql.replace("{store}", f'"{self.prefix}"').encode()
        return found

    def close(self) -> None:
        self._is_closed = True
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _send(self, sql: str, values: Values, *, sent_once: bool = False) -> list[Any]:
        if not self._free.acquire(timeout=BUSY_MS_MAX / 1_000):
            raise Unavailable(
                f"all {POSTGRES_CONNECTIONS_MAX} connections to the store's server are in use",
                "try again, with fewer requests at a time",
                place=self.address,
            )
        try:
            connection = self._one_alive()
            try:
                return self._execute(connection, sql, values, sent_once=sent_once)
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _execute(
        self, connection: Connection, sql: str, values: Values, *, sent_once: bool = False
    ) -> list[Any]:
        try:
            # Without values it may be several statements at once: those of a step of the schema.
            cursor = connection.execute(self.spelled(sql), values or None, binary=bool(values))
            return [] if cursor.rownumber is None else cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error, self.address, sent_once=sent_once) from error

    def _give_back(self, connection: Connection) -> None:
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
            if self._is_closed:
                self.close()
        else:
            connection.close()

    def _one_alive(self) -> Connection:
        """An idle connection to which the server has said nothing: it would say good-bye."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            waiting = select.poll()
            waiting.register(connection.fileno(), select.POLLIN)
            if not waiting.poll(0):
                return connection
            connection.close()
        return self.connect()

    def _repeat(
        self, send: Callable[[], Answer], may_repeat: Callable[[BaseException | None], bool]
    ) -> Answer:
        for attempt in range(REPEATS_MAX):
            was_up = self._was_up
            try:
                return send()
            except RelayError as error:
                # Who cannot reach the server at its very start hears of it at once.
                if not was_up or not may_repeat(error.__cause__):
                    raise
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        return send()

    def leave_to_parent(self) -> None:
        """In a forked child: let go of the parent's connections without closing them."""
        _parents_connections.extend(self._idle)
        self._idle = deque()
        self._free = threading.BoundedSemaphore(POSTGRES_CONNECTIONS_MAX)


Ask = Callable[..., list[Any]]

_clients: WeakSet[PostgresClient] = WeakSet()
_parents_connections: list[Connection] = []
"""Kept for ever: closing one would end the session that the parent is using."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: [client.leave_to_parent() for client in tuple(_clients)]
    )
