"""A raw server: sends bytes as a test wrote them, for faults that no well-made server has."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

READ_BYTES = 65_536
READ_S_MAX = 20


class RawServer:
    """Answers each connection with the next of its scripts, the last one again and again."""

    def __init__(self, scripts: Sequence[bytes]) -> None:
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[Any] = []
        """The bodies of the requests, as JSON."""
        self.heads: list[str] = []
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # A thread that waits for a connection is not woken by a close on every system.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(READ_S_MAX)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(READ_S_MAX)
            with connection, suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += connection.recv(READ_BYTES)
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        sizes = [line.split(":")[1] for line in lines if line.startswith("content-length")]
        while len(body) < int(sizes[0] if sizes else 0):
            body += connection.recv(READ_BYTES)
        script = self._scripts[min(len(self.requests), len(self._scripts) - 1)]
        self.heads.append(head.decode())
        self.requests.append(json.loads(body or b"null"))
        connection.sendall(script)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)


@contextmanager
def raw_server(*scripts: bytes) -> Generator[RawServer]:
    server = RawServer(scripts)
    try:
        yield server
    finally:
        server.close()


def stream(kind: str, *events: bytes) -> bytes:
    """A response whose body ends where the connection does."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"
    return head.encode() + b"".join(events)


def torn(kind: str, *events: bytes) -> bytes:
    """A response whose connection is lost before its end."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in events)


def refusal(status: int, body: object, **headers: str) -> bytes:
    """A response that is an error."""
    raw = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Refused", "content-type: application/json", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"content-length: {len(raw)}", "", ""]).encode() + raw
