"""Raw HTTP for tests of hostile clients: bytes as they are, over a socket of one's own."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from types import TracebackType
from typing import Self

from msgspec import Struct

ANSWER_S_MAX = 10.0


class Heard(Struct, frozen=True):
    """All that came before the server closed the connection, or fell silent for good."""

    raw: bytes
    is_closed: bool
    took_s: float

    @property
    def statuses(self) -> list[int]:
        """Of every answer; none if there was none."""
        parts = self.raw.split(b"HTTP/1.1 ")
        return [int(part[:3]) for part in parts[1:]]


class Raw:
    """One connection."""

    def __init__(self, port: int, answer_s_max: float = ANSWER_S_MAX) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), answer_s_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, *parts: bytes) -> None:
        """Send some bytes; that nobody listens any more is for who hears to find out."""
        for part in parts:
            try:
                self.socket.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                return

    def hear(self) -> Heard:
        """Read until the server closes."""
        begun_s = time.monotonic()
        raw = b""
        is_closed = False
        try:
            while part := self.socket.recv(65_536):
                raw += part
            is_closed = True
        except ConnectionResetError:
            is_closed = True
        except TimeoutError:
            pass
        return Heard(raw, is_closed, time.monotonic() - begun_s)

    def answer(self, method: str = "GET") -> tuple[int, bytes]:
        """Read one answer; status 0 if there is none."""
        response = http.client.HTTPResponse(self.socket, method=method)
        try:
            response.begin()
            return response.status, response.read()
        except (http.client.HTTPException, ConnectionResetError):
            return 0, b""
        finally:
            response.close()

    def finish(self) -> None:
        """Say that there will be no more; go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()


class HonestClient:
    """An honest client that asks the whole time, and has to be answered the whole time."""

    PAUSE_S = 0.02

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="beside")
        self.answered = 0
        self.slowest_s = 0.0
        self.failed: list[str] = []

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S_MAX)
        try:
            while not self._ended.wait(self.PAUSE_S) and not self.failed:
                begun_s = time.monotonic()
                connection.request("GET", "/health")
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    self.failed.append(f"status {response.status}")
                self.answered += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun_s)
        except (OSError, http.client.HTTPException) as error:
            self.failed.append(repr(error))
        finally:
            connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join(2 * ANSWER_S_MAX)
