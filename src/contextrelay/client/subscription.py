"""Subscriptions: the signals of a channel as they arrive, in order, each once.

A server sends signals over a WebSocket. If the server numbers them, a subscription that lost its
connection continues where it was, even before the first signal, because the handshake contains the
channel's position.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from msgspec import DecodeError
from msgspec.json import decode

from contextrelay.client.relay import Relay
from contextrelay.client.transport.address import ServerAddress
from contextrelay.client.transport.http_flow import server_error
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import CONNECT_S_MAX, KEEPALIVE_S, MESSAGE_BYTES_MAX, RECONNECT_S_MIN
from contextrelay.model.signal import Signal

SEQ_HEADER = "x-relay-seq"
FRAME_BYTES_MAX = 2 * MESSAGE_BYTES_MAX
# The maximum number of seconds until a local subscription notices that it was closed.
_CLOSING_S_MAX = 0.5

Frame = dict[str, Any]

log = logging.getLogger("contextrelay.subscription")


class Subscription:
    """A subscription to a channel of a server. One thread runs it; another may close it."""

    def __init__(self, server: ServerAddress, channel: str, reconnect_s_max: float) -> None:
        self._server = server
        self._channel = channel
        self._reconnect_s_max = reconnect_s_max
        self._seq: int | None = None
        self._connection: Any = None
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def run(self, hear: Callable[[Frame], object], on_open: Callable[[], object]) -> None:
        """Call `hear` with each signal until the subscription is closed; reconnect after 1, 2, 4
        ... seconds.

        Raises:
            RelayError: the server refuses the subscription, so that a retry cannot help.
        """
        from websockets.exceptions import InvalidStatus, WebSocketException

        delay_s = float(RECONNECT_S_MIN)
        while not self._closed.is_set():
            try:
                with self._opened() as connection:
                    delay_s = float(RECONNECT_S_MIN)
                    on_open()
                    for raw in connection:
                        self._take(raw, hear)
            except InvalidStatus as error:
                if 300 <= error.response.status_code < 500:
                    raise _refusal(error.response) from error
                log.info("%s is not connected: %s", self._channel, error)
            except (OSError, WebSocketException) as error:
                log.info("%s was lost: %s", self._channel, error)
            if self._closed.wait(min(delay_s, self._reconnect_s_max)):
                return
            delay_s = min(delay_s * 2, self._reconnect_s_max)

    def _opened(self) -> Any:
        from websockets.sync.client import reconnect

        class Connecting(reconnect):
            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc  # A redirect could send the API key to another server.

        place = "" if self._seq is None else f"?after={self._seq}"
        headers = self._server.headers()
        headers.pop("accept-encoding")
        connection = Connecting(
            f"ws{self._server.url[4:]}/ws/{quote(self._channel, safe='')}{place}",
            additional_headers=headers,
            proxy=None if self._server.is_loopback else True,
            compression=None,
            open_timeout=CONNECT_S_MAX,
            ping_interval=KEEPALIVE_S,
            ping_timeout=KEEPALIVE_S,
            close_timeout=1,
            max_size=FRAME_BYTES_MAX,
        ).connect()
        with self._lock:
            self._connection = connection
        if self._closed.is_set():
            connection.close()
        assert connection.response is not None, "handshake already done"
        seq = connection.response.headers.get(SEQ_HEADER, "")
        if self._seq is None and seq.isascii() and seq.isdigit():
            self._seq = int(seq)
        return connection

    def _take(self, raw: str | bytes, hear: Callable[[Frame], object]) -> None:
        """Call `hear` with the signal in a message, unless it was received before."""
        try:
            frame = decode(raw, type=Frame)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            return
        if "gap" in frame:
            self._skip(frame["gap"])
            return
        seq = frame.get("seq")
        if isinstance(seq, int):
            if self._seq is not None and seq <= self._seq:
                return
            self._seq = seq
        hear(frame)

    def _skip(self, gap: Any) -> None:
        """Continue after deleted signals, or from 1 if the channel was created again."""
        log.warning("signals of channel %r were already deleted: %s", self._channel, gap)
        with suppress(TypeError, ValueError, IndexError):
            self._seq = int(gap[1])

    def close(self) -> None:
        """Close the subscription, from any thread."""
        self._closed.set()
        with self._lock:
            connection = self._connection
        if connection is not None:
            with suppress(OSError, RuntimeError):
                connection.close()


class LocalSubscription:
    """A subscription to a channel of the embedded store, with the interface of `Subscription`."""

    def __init__(self, relay: Relay, channel: str) -> None:
        self._relay = relay
        self._channel = channel
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._thread = 0

    def run(self, hear: Callable[[Frame], object], on_open: Callable[[], object]) -> None:
        """Call `hear` with each signal until the subscription is closed."""
        self._thread = threading.get_ident()
        try:
            place = self._relay.signals(self._channel).head
            on_open()
            while not self._closed.is_set():
                page = self._relay.wait(self._channel, place, _CLOSING_S_MAX)
                place = page.gap[1] if page.gap else place
                for signal in page.signals:
                    place = signal.seq
                    hear(self._frame(signal))
                    if self._closed.is_set():
                        return
        finally:
            self._ended.set()

    def _frame(self, signal: Signal) -> Frame:
        fields: Frame = {"ts": signal.ts, "seq": signal.seq, "from": signal.by}
        if signal.ref is None:
            return {"message": signal.message, **fields}
        return {"url": self._relay.transport.url_of(signal.ref), **fields}

    def close(self) -> None:
        """Close the subscription, from any thread; the store may be closed after that."""
        self._closed.set()
        if self._thread not in (0, threading.get_ident()):
            self._ended.wait(10 * _CLOSING_S_MAX)


def _refusal(response: Any) -> RelayError:
    """Return the error for a refused handshake."""
    status: int = response.status_code
    if status < 400:
        place = str(response.headers.get("location", ""))[:200]
        return Invalid(
            f"the server redirects to {place!r}",
            "redirects are not followed; if that is the relay, use its address",
        )
    text = bytes(response.body or b"")[:1000].decode(errors="replace").strip()
    return server_error({"error": text}, status)
