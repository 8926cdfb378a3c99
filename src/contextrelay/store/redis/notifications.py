"""Notifications over Redis pub/sub: a thread calls a listener with the changed log.

Rule: messages published during a disconnect are lost, so after every reconnect the listener gets
None: "some log". A server that does not answer a PING is considered disconnected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from redis.client import PubSub
from redis.exceptions import RedisError

from contextrelay.errors import RelayError
from contextrelay.store.redis.client import RedisClient

POLL_S = 0.25
FIRST_PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
READY_S_MAX = 5.0
PING_S = 2.0
SILENT_S_MAX = 5.0


class RedisListener:
    """One subscription, which is restored after errors until it is stopped."""

    def __init__(
        self, client: RedisClient, channel: str, callback: Callable[[str | None], None]
    ) -> None:
        self._client = client
        self._channel = channel
        self._callback = callback
        self._stopped = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay-hints", daemon=True)

    def start(self) -> None:
        """Start listening. Messages published after this call are reported, possibly as None."""
        self._thread.start()
        self._ready.wait(READY_S_MAX)

    @property
    def has_ended(self) -> bool:
        return self._stopped.is_set() and not self._thread.is_alive()

    def stop(self) -> None:
        """Stop the calls of the listener, without waiting until the thread has ended."""
        self._stopped.set()

    def end(self) -> None:
        """Stop the calls of the listener, and wait until the thread has ended."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        missed = False
        while not self._stopped.is_set():
            try:
                with self._client.subscribe(self._channel) as hearing:
                    message = _next(hearing, READY_S_MAX)
                    if message is None or message["type"] != "subscribe":
                        raise RedisError("the subscription was not confirmed")
                    pause_s = FIRST_PAUSE_S
                    if missed:
                        self._callback(None)
                    self._ready.set()
                    self._pass_on(hearing)
            except (RedisError, RelayError, OSError):
                missed = True
                self._ready.set()
                self._stopped.wait(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _pass_on(self, hearing: PubSub) -> None:
        heard_s = pinged_s = time.monotonic()
        while not self._stopped.is_set():
            message = _next(hearing, POLL_S)
            now_s = time.monotonic()
            if message is not None:
                heard_s = now_s
                if message["type"] == "message" and not self._stopped.is_set():
                    self._callback(message["data"].decode())
            elif now_s - heard_s > SILENT_S_MAX:
                raise RedisError("the server does not respond")
            elif now_s - max(heard_s, pinged_s) > PING_S:
                cast(Any, hearing).ping()
                pinged_s = now_s


def _next(hearing: PubSub, timeout_s: float) -> dict[str, Any] | None:
    return cast(Callable[..., Any], hearing.get_message)(timeout=timeout_s)
