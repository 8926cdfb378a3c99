"""The HTTP protocol of one connection: that of uvicorn, with additional limits.

Rule: the size of headers, the time to receive them, and the time that a response may stay unread
are limited. A client that exceeds a limit gets a response if possible, and is then disconnected. If
a client is answered while it is still sending, the server keeps reading for a while and discards
the data, because closing at once could lose the response.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from httptools import HttpRequestParser
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from contextrelay.limits import (
    HEADER_BYTES_IN_MAX,
    HEADERS_IN_MAX,
    KIB,
    LINGER_BYTES_MAX,
    LINGER_ENDLESS_BYTES_MAX,
)
from contextrelay.server.bounds import ServerBounds
from contextrelay.server.request import CONNECTION, ENDED, WAITS, WRITER
from contextrelay.server.security_headers import NO_MORE_LINES, SAFE_LINES

if TYPE_CHECKING:
    from contextrelay.server.app import App

# The number of bytes of a response that a client must read within SLOW_READER_S seconds.
READ_PACE_BYTES = KIB
LINGER_S_MAX = 30
LINGER_IDLE_S = 5
LINGERING_MAX = 256


class Protocol(HttpToolsProtocol):
    """The protocol of one HTTP connection."""

    parser: HttpRequestParser
    _bounds: ServerBounds
    _sending_timer: TimerHandle | None = None
    """The timer that runs while the client has to send something."""
    _reading_timer: TimerHandle | None = None
    """The timer that runs while the client has to read something."""
    _head_bytes = 0
    _unparsed_bytes = 0
    """Number of bytes received since the last complete header."""
    _unread_bytes = 0
    _is_new = True
    _is_in_head = True
    _is_in_body = False
    _is_one_too_many = False
    _active_s = 0.0
    """The time at which data was last received."""
    _is_answered = False
    """True if the fast path has already answered the request that is being read."""
    _running: RequestResponseCycle | None = None
    """The request that is being answered, or that was answered last."""
    _refusal = b""
    """The final response, which is sent after the responses to earlier requests."""
    _is_to_linger = False
    """True if the current response is the last on this connection."""
    _linger_end_s = 0.0
    """The time until which data is read and discarded, or 0 if the connection does not linger."""
    _linger_bytes_max = LINGER_ENDLESS_BYTES_MAX
    _dropped_bytes = 0

    # The connection

    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self._bounds = self._served.bounds
        served = len(self.connections) - len(self._served.lingering)
        self._is_one_too_many = served > self._bounds.connections
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch_sending(0.0)
        self._watch_reading(False)
        self._stop_idle_timer()
        self._served.lingering.pop(self, None)
        super().connection_lost(exc)
        # uvicorn notifies only the latest request, which may still be waiting for its turn.
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Keep the connection open for the response if the client has sent a complete request."""
        running = self._running
        if self._linger_end_s or running is None or not self._is_busy:
            return False
        if self.cycle.more_body or WAITS in running.scope:
            return False
        self.cycle.keep_alive = False
        running.scope[ENDED] = self.transport.close  # pyright: ignore[reportGeneralTypeIssues]
        return True

    @property
    def _is_busy(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    @property
    def _served(self) -> App:
        return cast("App", self.app)  # pyright: ignore[reportUnknownMemberType]

    # A single timer checks whether the connection is idle. Stopping and starting a timer for every
    # request, as uvicorn does, costs as much as finding an artifact.

    def _unset_keepalive_if_required(self) -> None:
        self._active_s = self.loop.time()

    def _stop_idle_timer(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        left_s = self._active_s + self.timeout_keep_alive - self.loop.time()
        if self._is_busy or left_s > 0:
            self._watch_idle(max(left_s, self.timeout_keep_alive / 10))
        else:
            self._end()

    def _watch_idle(self, seconds: float) -> None:
        handler = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(seconds, handler)

    def _end(self) -> None:
        """Close the connection. A client that has not read the last response by now will not read
        it.
        """
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # Reading

    def data_received(self, data: bytes) -> None:
        if self._linger_end_s:
            self._drop(len(data))
            return
        if self._is_new:
            self._is_new = False
            data = _spelled(data)
        was_in_head = self._is_in_head
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._linger_end_s or self.transport.is_closing():
            return
        if not self._is_in_head:
            self._unparsed_bytes = 0
        elif self._unparsed_bytes > HEADER_BYTES_IN_MAX:
            self._refuse(431, "Request Header Fields Too Large")
        if self._is_in_head and not was_in_head:
            self._watch_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._unparsed_bytes = 0
        self._is_in_head = self._is_in_body = True

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if not self._is_in_head:
            return  # These are trailers. The headers before the body can no longer be changed.
        # The parser keeps trailing whitespace, which does not belong to a value (RFC 9110, 5.5).
        value = value.strip(b" \t")
        super().on_header(name, value)
        if len(self.headers) > HEADERS_IN_MAX:
            self._refuse_and_stop(431, "Request Header Fields Too Large")
        if self.headers[-1][0] == b"transfer-encoding" and value.lower() != b"chunked":
            # With a transfer encoding other than chunked, the end of the body would be ambiguous.
            self._refuse_and_stop(400, "Bad Request")

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._watch_sending(0.0)
        if self._is_one_too_many:
            self._refuse_and_stop(503, "Service Unavailable", b"retry-after: 1\r\n")
        if not self.url.startswith(b"/") and not self._is_absolute():
            self._refuse_and_stop(400, "Bad Request")
        self._is_answered = self.url.startswith((b"/pull/", b"/peek/")) and self._answer_quickly()
        if not self._is_answered:
            super().on_headers_complete()

    def _is_absolute(self) -> bool:
        """Return True if the request target is an absolute URL of the host in the Host header. The
        Host itself is checked later.
        """
        host = next((value for name, value in self.headers if name == b"host"), b"")
        start = self.url[: len(b"http://") + len(host) + 1].lower()
        return start.rstrip(b"/") == b"http://" + host.lower() and bool(host)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        writer = ResponseWriter(self.transport)
        cycle.transport = cast("Transport", writer)
        cycle.scope[CONNECTION] = self  # pyright: ignore[reportGeneralTypeIssues]
        cycle.scope[WRITER] = writer  # pyright: ignore[reportGeneralTypeIssues]
        super()._start_asgi_task(cycle, app)

    def _answer_quickly(self) -> bool:
        """Answer the request on the fast path if possible, and return True if it was answered."""
        if self._is_busy or self.flow.write_paused:
            return False
        if self.parser.get_method() != b"GET" or not self.parser.should_keep_alive():
            return False
        quick = self._served.quick
        if quick is None or (pair := quick.answer(self.url, self.headers)) is None:
            return False
        self.transport.writelines(pair)
        return True

    def on_body(self, body: bytes) -> None:
        if not self._is_answered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if self._is_answered:
            self.server_state.total_requests += 1
            if self.timeout_keep_alive_task is None:
                self._watch_idle(self.timeout_keep_alive)
            return
        if not self._is_busy and self.cycle and self.cycle.scope is self.scope:
            # The request was already answered, and the rest of it was discarded.
            self._watch_sending(self.timeout_keep_alive, self._end)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._refusal and not self.pipeline:
            self._say_last(self._refusal)
        if self._is_to_linger:
            self.server_state.total_requests += 1
            self._begin_to_linger()
            return
        self._stop_idle_timer()  # The timer is started again below.
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reading(self.transport.get_write_buffer_size() > 0)
        elif self._is_in_body and not self._is_in_head:
            # The request was answered before it was complete. The rest is discarded, for a limited
            # time.
            self._watch_sending(self._bounds.body_s, self._end)

    # Lingering

    def is_body_coming(self) -> bool:
        return self._running is not None and self._running.more_body

    def linger(self, is_endless: bool) -> None:
        """Keep reading for a while after the current response, so that the client receives the
        response.
        """
        assert self._running is not None
        self._linger_bytes_max = LINGER_ENDLESS_BYTES_MAX if is_endless else LINGER_BYTES_MAX
        # With False, the connection would be closed as soon as the response is sent.
        self._running.keep_alive = True
        self._is_to_linger = True

    def _begin_to_linger(self) -> None:
        """Close the sending side, and read until the client disconnects or a limit is reached."""
        self._stop_idle_timer()
        if self._linger_end_s or self.transport.is_closing():
            return
        self.pipeline.clear()
        lingering = self._served.lingering
        while len(lingering) >= LINGERING_MAX:
            next(iter(lingering))._end_lingering()
        lingering[self] = None
        self._linger_end_s = self.loop.time() + LINGER_S_MAX
        self.transport.write_eof()
        self.flow.resume_reading()
        self._watch_sending(LINGER_IDLE_S, self._end_lingering)

    def _drop(self, size_bytes: int) -> None:
        self._dropped_bytes += size_bytes
        left_s = self._linger_end_s - self.loop.time()
        if left_s <= 0 or self._dropped_bytes > self._linger_bytes_max:
            self._end_lingering()
        else:
            self._watch_sending(min(left_s, LINGER_IDLE_S), self._end_lingering)

    def _end_lingering(self) -> None:
        self._served.lingering.pop(self, None)
        self._watch_sending(0.0)
        self.transport.abort()

    def shutdown(self) -> None:
        if self._linger_end_s:
            self._end_lingering()
        else:
            super().shutdown()

    # Upgrades

    def _should_upgrade(self) -> bool:
        # A client whose response is still pending cannot switch to another protocol.
        return (
            not self._is_busy
            and not self.flow.write_paused
            and self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and super()._should_upgrade()
        )

    def handle_websocket_upgrade(self) -> None:
        # From here on another protocol owns the connection and uses its own timers.
        self._stop_idle_timer()
        self._watch_sending(0.0)
        self._watch_reading(False)
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        # The data that follows is in an unsupported protocol.
        if self._is_busy:
            self.cycle.keep_alive = False

    # Limits

    def _watch_head(self) -> None:
        self._watch_sending(self._bounds.head_s, self._is_late)

    def _is_late(self) -> None:
        if self._is_busy:
            # The late request may not even be read yet, because the response to an earlier request
            # goes first.
            self._watch_head()
        elif self._is_new:
            self.transport.close()
        else:
            self._refuse(408, "Request Timeout")

    def _watch_sending(self, seconds: float, then: Callable[[], None] | None = None) -> None:
        if self._sending_timer is not None:
            self._sending_timer.cancel()
            self._sending_timer = None
        if then is not None and seconds:
            self._sending_timer = self.loop.call_later(seconds, then)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_reading(False)

    def _watch_reading(self, is_watched: bool) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None
        if is_watched:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._reading_timer = self.loop.call_later(self._bounds.read_s, self._check_reading)

    def _check_reading(self) -> None:
        read_bytes = self._unread_bytes - self.transport.get_write_buffer_size()
        if read_bytes < READ_PACE_BYTES:
            self.transport.abort()
        else:
            self._watch_reading(True)

    def _count(self, size_bytes: int) -> None:
        self._unparsed_bytes = 0
        self._head_bytes += size_bytes
        if self._head_bytes > HEADER_BYTES_IN_MAX:
            self._refuse_and_stop(431, "Request Header Fields Too Large")

    def _refuse_and_stop(self, status: int, reason: str, more: bytes = b"") -> None:
        """Refuse a request from within the parser. The exception that this raises ends the
        parser.
        """
        self._refuse(status, reason, more)
        raise ValueError(reason)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Bad Request")

    def _refuse(self, status: int, reason: str, more: bytes = b"") -> None:
        """Send a final response after the responses to earlier requests, and close the
        connection.
        """
        if self._refusal or self.transport.is_closing():
            return
        first_line = f"HTTP/1.1 {status} {reason}\r\n".encode()
        self._refusal = first_line + SAFE_LINES + more + NO_MORE_LINES
        if not self._is_busy:
            self._say_last(self._refusal)
        elif self.cycle.more_body and not self.pipeline:
            # The error is in the body of the request that is being answered.
            self._say_last(b"" if self.cycle.response_started else self._refusal)
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _say_last(self, refusal: bytes) -> None:
        self.transport.write(refusal)
        self._begin_to_linger()


class ResponseWriter:
    """The transport of one response, which can send the header together with the body."""

    __slots__ = ("_header", "_transport", "is_whole")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._header = b""
        self.is_whole = False
        """Whether the header is kept until the body, and both are sent in one system call."""

    def write(self, data: bytes) -> None:
        if self._header:
            self._transport.writelines((self._header, data))
            self._header = b""
        elif self.is_whole:
            self._header = data
            self.is_whole = False
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


def _spelled(data: bytes) -> bytes:
    """Percent-encode a request line that is not ASCII, as the published client sends it."""
    line, end, rest = data.partition(b"\r\n")
    return data if line.isascii() else quote(line, safe=bytes(range(128))).encode() + end + rest
