"""A lossy way to a server: a proxy that passes a request on and then loses the reply."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

from tests.store.engines import free_port

READ_BYTES = 1 << 16


class LossyProxy:
    """Passes bytes both ways. After `lose`, the next request that holds a word gets no reply."""

    def __init__(self, target_port: int = 0) -> None:
        self.port = free_port()
        self.target_port = target_port
        self._word = b""
        self._lost = threading.Event()
        self._sockets: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", self.port))
        self._sockets.append(self._door)

    def lose(self, word: bytes) -> threading.Event:
        """Lose the reply to the next request with that word in it; the event is then set."""
        self._lost.clear()
        self._word = word
        return self._lost

    def lead_to(self, port: int) -> None:
        """From now on to another server; connections to the one before end."""
        self.target_port = port
        for one in self._sockets[1:]:
            _end(one)

    def __enter__(self) -> LossyProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._sockets:
            _end(one)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target_port))
            self._sockets += [near, far]
            threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        """Pass one request and its reply at a time: redis-py sends the next one only then."""
        threading.Thread(target=self._pass_back, args=(near, far), daemon=True).start()
        try:
            while chunk := near.recv(READ_BYTES):
                if self._word and self._word in chunk:
                    self._word = b""
                    self._lost.set()
                far.sendall(chunk)
        except OSError:
            pass
        finally:
            _end(near)
            _end(far)

    def _pass_back(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while chunk := far.recv(READ_BYTES):
                if self._lost.is_set():
                    self._lost.clear()
                    _end(near)
                    return
                near.sendall(chunk)
        except OSError:
            pass


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
