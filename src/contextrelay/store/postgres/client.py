"""The PostgreSQL client: connections for ledger and blobs, with error conversion and retries.

Rule: a connection has no state between two statements, so that each may use another connection, as
PgBouncer does in transaction mode. Statements are prepared only on direct connections. `ask`
repeats a statement, so it is only for idempotent statements. `once` sends a statement at most once;
after an Unavailable from `once` it is unknown whether the statement was executed.
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

# The maximum number of connections of one process; PostgreSQL's default for all processes is 100.
POSTGRES_CONNECTIONS_MAX = 16


Answer = TypeVar("Answer")
Values = Sequence[object]

FIRST_PAUSE_S = 0.05
# The number of attempts. With the pauses between them they take about 6 s, as long as a fail-over
# may take.
REPEATS_MAX = 7
CONNECT_S_MAX = 5
# A peer that acknowledges nothing for this long is considered dead. A connection that only listens
# has to send something to notice this.
UNANSWERED_MS_MAX = 10_000
# The number of times that a statement is sent before it is prepared.
PREPARE_AFTER = 3
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


def without_password(url: str) -> str:
    """Return an address without user, password and options, for display."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _check(url: str) -> None:
    check_server(url)
    if re.search("%(?![0-9A-Fa-f]{2})|%00", url):
        raise Invalid("the store's address has a % that is not a valid escape", ENCODE)


def _options() -> set[str]:
    """Return the names of the options that libpq accepts in an address."""
    return {each.keyword.decode() for each in Conninfo.get_defaults()} | {"ssl"}


def is_direct(connection: Connection) -> bool:
    """Return True if a connection is direct.

    Behind a pooler, the process id is not that of the server.
    """
    found = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return found == (connection.info.backend_pid,)


class PostgresClient:
    """A database, and the schema that holds a store. Thread-safe."""

    def __init__(self, url: str) -> None:
        url = url.strip()
        _check(url)
        plain, _, query = url.partition("?")
        options = dict(parse_qsl(query))
        self.prefix = options.pop("prefix", "relay")
        if not _PREFIX.match(self.prefix):
            raise Invalid(
                f"invalid schema name {self.prefix[:60]!r}", "use lower-case letters, digits and _"
            )
        for name in options.keys() - _options():
            hint = "omit it, or see docs/engines.md for the options"
            raise Invalid(f"unknown option in the store's address: {name[:40]!r}", hint)
        # Use %20, because libpq does not decode a +.
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
        """Return the store's address for display."""
        return self.address + ("" if self.prefix == "relay" else f"?prefix={self.prefix}")

    def ask(self, sql: str, values: Values = ()) -> list[Any]:
        """Send an idempotent statement, again if there is no reply; return its rows."""
        return self._repeat(lambda: self._send(sql, values), is_passing)

    def once(self, sql: str, values: Values = ()) -> list[Any]:
        """Send a statement once, or again if it was certainly rolled back; return its rows."""
        return self._repeat(lambda: self._send(sql, values, sent_once=True), is_undone)

    def connect(self) -> Connection:
        """Return a dedicated connection, for a caller that needs it for more than one statement.

        Raises:
            Unavailable: the server is unreachable or refuses the connection.
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
        """Yield a function that sends statements in a transaction on a dedicated connection."""
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
        """Return a statement in which {store} is replaced by the schema's name."""
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
                "try again with fewer concurrent requests",
                place=self.address,
            )
        try:
            connection = self._live_connection()
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
            # If there are no values, the text may contain several statements, as a schema step
            # does.
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

    def _live_connection(self) -> Connection:
        """Return an idle connection on which the server has sent no shutdown notice."""
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
                # If the server is unreachable at the first connection, that is reported at once.
                if not was_up or not may_repeat(error.__cause__):
                    raise
            time.sleep(FIRST_PAUSE_S * 2**attempt)
        return send()

    def leave_to_parent(self) -> None:
        """Abandon the parent's connections in a forked child, without closing them."""
        _parents_connections.extend(self._idle)
        self._idle = deque()
        self._free = threading.BoundedSemaphore(POSTGRES_CONNECTIONS_MAX)


Ask = Callable[..., list[Any]]

_clients: WeakSet[PostgresClient] = WeakSet()
_parents_connections: list[Connection] = []
"""Connections kept forever, because closing one would end the session that the parent uses."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: [client.leave_to_parent() for client in tuple(_clients)]
    )
