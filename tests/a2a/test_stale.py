"""Agents that close connections which they said they keep: what is read is asked for again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest
from msgspec.json import encode

from contextrelay.a2a.peer import Peer
from contextrelay.errors import Unavailable
from tests.a2a.asking import Document, message

TASK = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}


class Forgetful:
    """Answers as many requests of a connection as said, and closes it when the next one comes."""

    def __init__(self, port: int, answered: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.heard: list[str] = []
        self._answered = answered
        spoken = {"url": self.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        self._answers: dict[str, Document] = {
            "GET /.well-known/agent-card.json": {"supportedInterfaces": [spoken]},
            "POST /message:send": {"task": TASK},
            "GET /tasks/t1": TASK,
        }

    def attend(self, sock: socket.socket) -> None:
        """Take the requests of one connection."""
        with suppress(OSError), sock:
            sock.settimeout(10)
            for _ in range(self._answered):
                asked = self._hear(sock)
                if not asked:
                    return
                body = encode(self._answers[asked])
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            self._hear(sock)

    def _hear(self, sock: socket.socket) -> str:
        text = sock.recv(65_536)
        while text and not text.endswith(b"}" if text.startswith(b"POST") else b"\r\n\r\n"):
            text += sock.recv(65_536)
        asked = " ".join(text.decode().split(" ")[:2]) if text else ""
        self.heard += [asked] if asked else []
        return asked


@contextmanager
def forgetful(answered: int) -> Generator[Forgetful]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        agent = Forgetful(listening.getsockname()[1], answered)
        attending: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listening.accept()
                    attending.append(threading.Thread(target=agent.attend, args=(sock,)))
                    attending[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield agent
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for each in (accepting, *attending):
                each.join(20)


def test_a_kept_connection_that_is_gone_costs_nothing_that_was_asked() -> None:
    """Promise M2: each answer is had; what is only read is asked twice, a message never."""
    with forgetful(answered=1) as agent:
        peer = Peer(agent.url)
        card = peer.card()
        assert peer.card() == card
        assert peer.send(card, message("hello")) == {"task": TASK}
        assert peer.get_task(card, "t1") == {"task": TASK}
        peer.close()

    assert agent.heard.count("POST /message:send") == 1


def test_an_agent_that_never_answers_is_asked_no_third_time() -> None:
    """Promise M2."""
    with forgetful(answered=0) as agent:
        peer = Peer(agent.url)
        with pytest.raises(Unavailable):
            peer.card()
        peer.close()

    assert len(agent.heard) == 2
