"""Wires for tests: a proxy that loses connections, and a server that answers as a test wants.

Both listen on loopback, on a port of their own, and end with their block.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

Fate = Literal["refuse", "lose", "pass"]


class Listener:
    """Takes connections, each in a thread of its own, until it is ended."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._spawn(self._accept)

    def _spawn(self, act: object, *args: object) -> None:
        thread = threading.Thread(target=act, args=args, daemon=True)  # pyright: ignore[reportArgumentType]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._open.add(client)
                self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            self.handle(client)
        _cut(client)

    def handle(self, client: socket.socket) -> None:
        raise NotImplementedError

    def cut_all(self) -> None:
        """End the connections of now."""
        for each in list(self._open):
            self._open.discard(each)
            _cut(each)

    def end(self) -> None:
        for each in (self._socket, *self._open):
            _cut(each)
        for thread in self._threads:
            thread.join(10)


def _cut(connection: socket.socket) -> None:
    """End a connection at once, also where another thread reads from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class Proxy(Listener):
    """Passes connections on, except those that `fates` says to refuse, or to lose the reply of."""

    def __init__(self) -> None:
        super().__init__()
        self.upstream_port = 0
        self.fates: deque[Fate] = deque()
        self.met: list[Fate] = []
        self.met_s: list[float] = []
        self.bytes_back = 0

    def handle(self, client: socket.socket) -> None:
        fate = self.fates.popleft() if self.fates else "pass"
        self.met.append(fate)
        self.met_s.append(time.monotonic())
        if fate == "refuse":
            return
        with socket.create_connection(("127.0.0.1", self.upstream_port)) as upstream:
            self._open.add(upstream)
            self._spawn(_copy, client, upstream)
            while part := upstream.recv(65536):
                if fate == "lose":
                    return
                self.bytes_back += len(part)
                client.sendall(part)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)


class Scripted(Listener):
    """Answers each request with the next of `replies`, the last one again and again."""

    def __init__(self, *replies: bytes) -> None:
        super().__init__()
        self.replies = deque(replies)
        self.heads: list[str] = []

    def handle(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(65536)
            if not part:
                return
            head += part
        self.heads.append(head.partition(b"\r\n\r\n")[0].decode().lower())
        if self.replies:
            client.sendall(self.replies.popleft() if len(self.replies) > 1 else self.replies[0])
        else:
            client.recv(65536)  # Until the client leaves.


def reply(status: int, body: bytes = b"", *headers: str) -> bytes:
    """One HTTP reply, after which the connection ends."""
    lines = [f"HTTP/1.1 {status} said", f"content-length: {len(body)}", "connection: close"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    listener.start()
    try:
        yield
    finally:
        listener.end()
