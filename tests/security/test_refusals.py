"""Refusals that are seen: also by clients that send all of a body before they read anything.

A connection that is closed while its client still sends is reset, and the answer may be lost with
it. So who is refused is read on from, for a while, and what comes is dropped. That has bounds too.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

import httpx2
import pytest

from contextrelay import Relay
from contextrelay.model.settings import Settings
from contextrelay.server import http_connection
from contextrelay.server.app import App
from tests.security.raw import Raw
from tests.server.serving import Served, serving
from tests.store.engines import until

BODY_BYTES_MAX = 1 << 20
# More than all buffers between a client and a server on loopback hold.
LARGE = b"a" * 30_000_000
LATE_S_MAX = 20.0
PUBLISHED = Path(__file__).resolve().parents[2] / ".published" / "bin" / "python"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("refusals") / "store"


@pytest.fixture(scope="module")
def served(store: Path) -> Generator[Served]:
    """A server that everybody may ask."""
    with serving(store, settings=Settings(body_bytes_max=BODY_BYTES_MAX)) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(served: Served, store: Path) -> Generator[Served]:
    """A server that asks everybody for a token."""
    with serving(store, needs_token=True) as running:
        yield running


def app_of(served: Served) -> App:
    app = served.server.config.loaded_app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(App, app)


def head(served: Served, path: str = "/push", more: str = "", size: int = len(LARGE)) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{more}"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()


def sent_first(served: Served, *parts: bytes) -> int:
    """The status that a client sees which sends everything, and then reads."""
    with socket.create_connection(("127.0.0.1", served.port), LATE_S_MAX) as wire:
        for part in parts:
            wire.sendall(part)
        with closing(http.client.HTTPResponse(wire, method="POST")) as response:
            response.begin()
            response.read()
            assert response.getheader("connection") == "close"
            return response.status


def test_who_sends_everything_first_sees_that_it_was_too_much(served: Served) -> None:
    """Promise Z3. Every time."""
    assert [sent_first(served, head(served), LARGE) for _ in range(30)] == [413] * 30


def test_chunks_that_nobody_announced_are_seen_to_be_too_much(served: Served) -> None:
    """Promise Z3."""
    begin = head(served).replace(b"Content-Length: 30000000", b"Transfer-Encoding: chunked")
    chunk = b"%x\r\n" % 1_000_000 + LARGE[:1_000_000] + b"\r\n"

    assert sent_first(served, begin, chunk * 14, b"0\r\n\r\n") == 413


def test_every_early_refusal_is_seen(guarded: Served, store: Path) -> None:
    """Promise Z3."""
    with Relay(store) as relay:
        tokens = {
            402: relay.new_key(quota_bytes=1).token,
            403: relay.new_key(scope="read").token,
            404: relay.new_key().token,
            429: relay.new_key(requests_per_minute=1).token,
        }
    asking = {status: f"Authorization: Bearer {token}\r\n" for status, token in tokens.items()}
    asking |= {401: "", 421: asking[404]}
    for status in (402, 429):
        used = {"Authorization": f"Bearer {tokens[status]}"}
        assert httpx2.post(f"{guarded.url}/push", content=b"a", headers=used).status_code == 200

    def request(status: int) -> bytes:
        path = {402: "/v1/threads/import", 404: "/nowhere"}.get(status, "/push")
        whole = head(guarded, path, asking[status])
        return whole.replace(b"127.0.0.1", b"evil.example") if status == 421 else whole

    seen = {status: sent_first(guarded, request(status), LARGE) for status in asking}

    assert seen == {status: status for status in asking}


def test_a_request_that_cannot_be_read_is_reported_however_much_follows(served: Served) -> None:
    """Promise Z3."""
    assert sent_first(served, b"garbage\r\n\r\n", LARGE[:14_000_000]) == 400


@pytest.mark.parametrize("kind", ["http.client", "httpx", "published"])
def test_the_clients_that_there_are_see_it(served: Served, kind: str) -> None:
    """Promise Z3."""
    if kind == "http.client":
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LATE_S_MAX)
        connection.request("POST", "/push", LARGE)
        assert connection.getresponse().status == 413
        connection.close()
    elif kind == "httpx":
        assert httpx2.post(f"{served.url}/push", content=LARGE).status_code == 413
    else:
        if not PUBLISHED.exists():
            pytest.fail("the published client is not installed: make .published/.ready")
        script = (
            "import json, sys\nfrom contextrelay import ContextRelay\n"
            "try:\n    ContextRelay(sys.argv[1]).push('a' * 30_000_000)\n"
            "except Exception as error:\n    print(json.dumps(repr(error)))\n"
        )
        done = subprocess.run(
            [PUBLISHED, "-c", script, served.url],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            timeout=60,
        )
        assert "413" in json.loads(done.stdout), done.stderr.decode()


def test_a_refusal_of_what_is_all_here_keeps_the_connection(served: Served) -> None:
    """Promise Z3. Nothing is in the way of the next request."""
    with Raw(served.port) as raw:
        for _ in range(3):
            raw.say(head(served, "/nowhere", size=5), b"hello")
            assert raw.answer()[0] == 404


# That lingering is no way to hold something


def refused(served: Served, stack: ExitStack) -> Raw:
    """A client that was refused, has read that, and stays."""
    raw = stack.enter_context(Raw(served.port, LATE_S_MAX))
    raw.say(head(served), b"a" * 100_000)
    assert raw.answer()[0] == 413
    return raw


def test_who_stays_after_a_refusal_is_let_go_of_soon(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3. Whether it falls silent, or goes on sending."""
    monkeypatch.setattr(http_connection, "LINGER_IDLE_S", 0.3)
    monkeypatch.setattr(http_connection, "LINGER_S_MAX", 1.5)
    with ExitStack() as stack:
        refused(served, stack)
        until(lambda: not app_of(served).lingering, "that the silent one is gone")
        sender = refused(served, stack)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_on(sender)
        assert not app_of(served).lingering


def send_on(sender: Raw) -> None:
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < LATE_S_MAX:
        sender.socket.sendall(b"a" * 1_000)
        time.sleep(0.05)


def test_what_is_dropped_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise Z3."""
    monkeypatch.setattr(http_connection, "LINGER_BYTES_MAX", 5_000_000)
    with ExitStack() as stack:
        sender = refused(served, stack)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            sender.socket.sendall(LARGE)


def test_those_who_linger_are_bounded_and_count_for_no_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3. The oldest goes for the newest."""
    monkeypatch.setattr(http_connection, "LINGERING_MAX", 3)
    with ExitStack() as stack:
        for _ in range(8):
            refused(served, stack)
            assert len(app_of(served).lingering) <= 3
        assert sent_first(served, head(served), LARGE) == 413
    until(lambda: not app_of(served).lingering, "that all are gone")
    until(lambda: not served.server.server_state.connections, "that no connection is left")
