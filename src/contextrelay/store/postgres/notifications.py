"""Notifications over LISTEN and NOTIFY: one thread calls all listeners with the changed log.

Rule: notifications during a disconnect are lost, so after every reconnect listeners get None: "some
log". Behind PgBouncer in transaction mode no notification ever arrives, so there the thread polls
for writes.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg

from contextrelay.errors import RelayError
from contextrelay.store.postgres.client import PostgresClient, is_direct

FIRST_PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
READY_S_MAX = 5.0
POLL_S = 0.05

# The result changes with every transaction that writes.
WRITTEN = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"

Callback = Callable[[str | None], None]


class PostgresListener:
    """One listening connection, which is restored after errors until the listener is closed."""

    def __init__(self, client: PostgresClient, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._listeners: list[Callback] = []
        self._ended = threading.Event()
        self._ready = threading.Event()
        self._bell, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="relay-hints", daemon=True)
        self._thread.start()

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` from now on. Writes after this call are reported, possibly as None."""
        self._listeners.append(callback)
        self._ready.wait(READY_S_MAX)

        def stop() -> None:
            with suppress(ValueError):
                self._listeners.remove(callback)

        return stop

    def end(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._bell.close()
            if self._thread is not threading.current_thread():
                self._thread.join()

    def _announce(self, log: str | None) -> None:
        for callback in tuple(self._listeners):
            callback(log)

    def _run(self) -> None:
        pause_s, missed = FIRST_PAUSE_S, False
        while not self._ended.is_set():
            try:
                with self._client.connect() as connection:
                    hears = is_direct(connection)
                    if hears:
                        connection.execute(f'LISTEN "{self._channel}"'.encode())
                    if missed:
                        self._announce(None)
                    self._ready.set()
                    missed, pause_s = True, FIRST_PAUSE_S
                    self._pass_on(connection) if hears else self._poll(connection)
            except (psycopg.Error, RelayError, OSError):
                missed = True
                self._ready.set()
                self._wait(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
        self._woken.close()

    def _pass_on(self, connection: psycopg.Connection) -> None:
        while not self._ended.is_set():
            select.select([connection, self._woken], [], [])
            for notify in connection.notifies(timeout=0):
                self._announce(notify.payload)

    def _poll(self, connection: psycopg.Connection) -> None:
        seen = None
        while not self._ended.is_set():
            written = connection.execute(WRITTEN.encode()).fetchone()
            if seen is not None and written != seen:
                self._announce(None)
            seen = written
            self._wait(POLL_S if self._listeners else POLL_S * 20)

    def _wait(self, wait_s: float) -> None:
        select.select([self._woken], [], [], wait_s)
