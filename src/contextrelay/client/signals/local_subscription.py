"""Hearing: the signals of a channel of the embedded store as they come, as a server tells them.

It has the interface of a `Subscription`, so that nobody needs to know which one it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from contextrelay.client.relay import Relay
from contextrelay.model.signal import Signal

# How soon it sees that it was closed.
CLOSING_S_MAX = 0.5


class Hearing:
    """One channel of a store, heard by one thread; another may close it."""

    def __init__(self, relay: Relay, channel: str) -> None:
        self._relay = relay
        self._channel = channel
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._thread = 0

    def run(self, hear: Callable[[dict[str, Any]], object], on_open: Callable[[], object]) -> None:
        """Hear until closed."""
        self._thread = threading.get_ident()
        try:
            place = self._relay.signals(self._channel).head
            on_open()
            while not self._closed.is_set():
                page = self._relay.wait(self._channel, place, CLOSING_S_MAX)
                place = page.gap[1] if page.gap else place
                for signal in page.signals:
                    place = signal.seq
                    hear(self._frame(signal))
                    if self._closed.is_set():
                        return
        finally:
            self._ended.set()

    def _frame(self, signal: Signal) -> dict[str, Any]:
        fields: dict[str, Any] = {"ts": signal.ts, "seq": signal.seq, "from": signal.by}
        if signal.ref is None:
            return {"message": signal.message, **fields}
        return {"url": self._relay.transport.url_of(signal.ref), **fields}

    def close(self) -> None:
        """End it, from any thread; the store may be closed after that."""
        self._closed.set()
        if self._thread not in (0, threading.get_ident()):
            self._ended.wait(10 * CLOSING_S_MAX)
