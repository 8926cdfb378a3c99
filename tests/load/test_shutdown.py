"""Ending under load: what was begun and those who wait are answered, in a short time."""

from __future__ import annotations

import http.client
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.json import decode

from contextrelay.server.serve import SHUTDOWN_S_MAX
from tests.cli.shell import Shell
from tests.security.hostile import WS, WS_KEY, WS_VERSION
from tests.security.raw import Raw
from tests.store.engines import until

BODY = b"a" * 300_000
RESTARTING = 1012


class Asking:
    """Clients that push and pull one after the other until the server is gone."""

    def __init__(self, port: int, count: int) -> None:
        self.port = port
        self.answered = 0
        self.cut: list[str] = []
        """Answers that ended in their middle, or were none."""
        self.stored: list[str] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        ref = ""
        try:
            while True:
                if ref:
                    connection.request("GET", f"/pull/{ref}?raw=1")
                else:
                    connection.request("POST", "/push", BODY)
                response = connection.getresponse()
                ref = self._take(response, ref)
        except (ConnectionError, http.client.RemoteDisconnected):
            # There was no answer: what it asked last came when the server had stopped to listen.
            return
        finally:
            connection.close()

    def _take(self, response: http.client.HTTPResponse, ref: str) -> str:
        try:
            body = response.read()
        except (ConnectionError, http.client.HTTPException) as error:
            self.cut.append(repr(error))
            raise ConnectionAbortedError from error
        if response.status != 200 or (ref and body != BODY):
            self.cut.append(f"status {response.status}, {len(body)} bytes")
        self.answered += 1
        if ref:
            return ""
        self.stored.append(decode(body)["id"])
        return self.stored[-1]

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


def _opened(stack: ExitStack, port: int, request: bytes) -> Raw:
    raw = stack.enter_context(Raw(port, SHUTDOWN_S_MAX))
    raw.say(request.replace(b"HOST", b"127.0.0.1:%d" % port))
    return raw


def _first(raw: Raw) -> bytes:
    """What comes before an empty line."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += raw.socket.recv(1)
    return head


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_ended_answers_what_it_began(tmp_path: Path, workers: int) -> None:
    """Promise S3. Nothing is cut off, subscribers get 1012, and it ends with 0 in time."""
    events = b"GET /v1/channels/quiet/events HTTP/1.1\r\nHost: HOST\r\n\r\n"
    poll = b"GET /v1/channels/quiet?wait=60 HTTP/1.1\r\nHost: HOST\r\n\r\n"
    push = b"POST /push HTTP/1.1\r\nHost: HOST\r\nContent-Length: 20\r\n\r\nhalf of it"
    with (
        ExitStack() as stack,
        Shell(tmp_path).started("serve", "--port", "0", "--workers", str(workers)) as server,
    ):
        port = int(server.line().rpartition(":")[2])
        sockets = [_opened(stack, port, WS + WS_KEY + WS_VERSION + b"\r\n") for _ in range(10)]
        streams = [_opened(stack, port, events) for _ in range(10)]
        heads = [_first(each)[:12] for each in (*sockets, *streams)]
        polls = [_opened(stack, port, poll) for _ in range(10)]
        halves = [_opened(stack, port, push) for _ in range(10)]
        asking = Asking(port, 8)
        until(lambda: asking.answered >= 50, "some load")

        begun_s = time.monotonic()
        server.running.send_signal(signal.SIGTERM)
        heard = [each.hear() for each in (*sockets, *streams, *polls)]
        waited_s = time.monotonic() - begun_s
        for each in halves:
            each.say(b" and the r")
        answers = [each.answer() for each in halves]
        code, _, said = server.ended()
        took_s = time.monotonic() - begun_s
        asking.join()

    assert heads == [b"HTTP/1.1 101"] * 10 + [b"HTTP/1.1 200"] * 10
    assert all(each.is_closed for each in heard)
    assert [each.raw[:4] for each in heard[:10]] == [b"\x88\x02" + RESTARTING.to_bytes(2)] * 10
    assert all(each.raw.endswith(b"0\r\n\r\n") for each in heard[10:20])
    assert [each.statuses for each in heard[20:]] == [[200]] * 10
    assert [status for status, _ in answers] == [200] * 10
    assert not asking.cut
    assert (code, said) == (0, "")
    assert waited_s < SHUTDOWN_S_MAX / 2
    assert took_s < SHUTDOWN_S_MAX
