"""A server on loopback for tests of fetching: it answers a path with raw bytes, or misbehaves."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Reply = bytes | Callable[[socket.socket, threading.Event], None]
REQUEST_BYTES_MAX = 65_536


class Served:
    """What a server says to each path, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.replies: dict[str, Reply] = {}
        self.requests: list[bytes] = []
        self.over = threading.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def says(self, path: str, body: bytes = b"", status: str = "200 OK", headers: str = "") -> None:
        """Answer a path with a body, with its length unless the headers have one."""
        if "length" not in headers.lower() and "chunked" not in headers.lower():
            headers += f"Content-Length: {len(body)}\r\n"
        headers += "Connection: close\r\n"  # It is, and a client must not ask again on it.
        self.replies[path] = f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Generator[Served]:
    """Serve on a free port of loopback until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    served = Served(listening.getsockname()[1])
    handlers: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            handler = threading.Thread(target=_handle, args=(sock, served, tls))
            handlers.append(handler)
            handler.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield served
    finally:
        served.over.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(10)
        for handler in handlers:
            handler.join(10)


def _handle(sock: socket.socket, served: Served, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError), sock:
        sock.settimeout(10)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_side=True)
        with sock:
            request = b""
            while not _is_whole(request) and len(request) < REQUEST_BYTES_MAX:
                chunk = sock.recv(4096)
                if not chunk:
                    return
                request += chunk
            served.requests.append(request)
            reply = served.replies.get(request.split(b" ")[1].decode(), b"")
            if callable(reply):
                reply(sock, served.over)
            else:
                sock.sendall(reply)


def _is_whole(request: bytes) -> bool:
    """Whether the headers are there, and as much of a body as they announce."""
    head, end, body = request.partition(b"\r\n\r\n")
    announced = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return bool(end) and len(body) >= int(announced or 0)
