"""Late signals: the process that pushed sends them as soon as the engine is back.

A push into a thread is stored before its signal is sent. If the engine is away in between, a sweep
sends the signal when its row `pending` is due, SIGNAL_PENDING_S later; here it is retried at once.

Rule: a hint, kept in memory and bounded. The row in the ledger decides whether there is a signal
to send, so it is sent once, whoever sends it.
"""

from __future__ import annotations

import threading

from contextrelay.core.channels.retention import send_pending
from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.limits import SIGNAL_PENDING_S
from contextrelay.model.artifact import Artifact

RETRY_S = 0.5
RETRIES_MAX = int(SIGNAL_PENDING_S / RETRY_S)
WAITING_MAX = 10_000


def send_later(stores: Stores, made: list[Artifact]) -> None:
    """Send the signals of pushes that may be stored, once the engine answers."""
    name = f"late signals/{stores.tenant or ''}"
    waiting = [artifact for artifact in made if artifact.channel is not None]
    if waiting:
        stores.services.get(name, lambda: LateSignals(stores.space)).add(waiting)


class LateSignals:
    """The signals of one space that wait for the engine."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._waiting: dict[str, str] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, made: list[Artifact]) -> None:
        with self._lock:
            for artifact in made:
                if artifact.channel is not None and len(self._waiting) < WAITING_MAX:
                    self._waiting[artifact.ref] = artifact.channel
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="relay-late", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._is_closed.set()
        if (thread := self._thread) is not None:
            thread.join()

    def _run(self) -> None:
        for _ in range(RETRIES_MAX):
            if self._is_closed.wait(RETRY_S) or self._is_done():
                return
            for ref, channel in tuple(self._waiting.items()):
                try:
                    send_pending(self._stores, channel, ref)
                except RelayError:
                    break
                with self._lock:
                    self._waiting.pop(ref, None)
        with self._lock:  # From here on a sweep finds them.
            self._waiting.clear()
            self._thread = None

    def _is_done(self) -> bool:
        with self._lock:
            if self._waiting:
                return False
            self._thread = None
            return True
