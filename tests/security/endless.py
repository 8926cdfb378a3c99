"""A provider whose replies do not end: the first part of the path says in which way."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from threading import Event, Thread

from tests.runs.providers.vendors import Vendor, event

OK = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: "
PIECE = "x" * 8_000


def thought(vendor: Vendor, text: str) -> bytes:
    """A piece of reasoning as a vendor sends it; an empty piece of text for an empty one."""
    field = "content" if not text else "thinking" if vendor.id == "ollama" else "reasoning_content"
    match vendor.id:
        case "anthropic":
            delta = {"type": "thinking_delta", "thinking": text}
            return event("content_block_delta", index=0, delta=delta)
        case "responses":
            return event("response.reasoning_text.delta", item_id="r", output_index=0, delta=text)
        case "chat":
            choices = [{"index": 0, "delta": {field: text}}]
            return f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': choices})}\n\n".encode()
        case _:
            message = {"role": "assistant", field: text}
            return json.dumps({"model": "m", "message": message, "done": False}).encode() + b"\n"


def begun(vendor: Vendor) -> bytes:
    """The events that come before the first piece."""
    if vendor.id != "anthropic":
        return b""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    return vendor.said("")[0] + event("content_block_start", index=0, content_block=block)


def replies(vendor: Vendor) -> dict[str, Callable[[], Iterator[bytes]]]:
    """What is sent for each attack."""
    head = f"{OK}{vendor.kind}\r\n\r\n".encode()
    first = b'{"message": "' if vendor.id == "ollama" else b"data: "
    error = b"HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n"
    return {
        "thinking": lambda: chain([head, begun(vendor)], repeat(thought(vendor, PIECE))),
        "words": lambda: chain([head, begun(vendor)], repeat(thought(vendor, "x") * 100)),
        "empty": lambda: chain([head, begun(vendor)], repeat(thought(vendor, "") * 4)),
        "comments": lambda: chain(
            [head], repeat(b" \n" if vendor.id == "ollama" else b":\n\n" * 10)
        ),
        "line": lambda: chain([head, first], repeat(PIECE.encode())),
        "error": lambda: chain([error, b'{"error": {"message": "'], repeat(PIECE.encode())),
        "gzip": lambda: chain(
            [f"{OK}{vendor.kind}\r\ncontent-encoding: gzip\r\n\r\n".encode()], _bomb()
        ),
        "progress": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    }


def _bomb() -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    while True:
        yield packer.compress(bytes(2**20))


class Endless:
    """A server of these replies."""

    def __init__(self, vendor: Vendor, pause_s: float = 0) -> None:
        self._replies, self._pause_s = replies(vendor), pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._closed = Event()
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closed.is_set():
            with suppress(OSError):
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(10)
                    name = connection.recv(65_536).split(b" ", 2)[1].decode().split("/")[1]
                    for piece in self._replies[name]():
                        connection.sendall(piece)
                        if self._closed.wait(self._pause_s) if self._pause_s else False:
                            break

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@contextmanager
def endless(vendor: Vendor, pause_s: float = 0) -> Generator[Endless]:
    server = Endless(vendor, pause_s)
    try:
        yield server
    finally:
        server.close()
