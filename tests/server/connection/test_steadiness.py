"""The server stays steady: what one client asks holds up no other, and what is due is done."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from contextrelay import Settings, capability
from tests.server.serving import Served, serving, serving_apart
from tests.store.engines import until

WAIT_S_MAX = 20.0


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/push", b'{"data":"x","metadata":{"a":[', b"[]]}}"),
        ("/push", b'{"data":[', b"[]]}"),
        ("/push", b'{"data":"x","other":[', b"[]]}"),
        ("/v1/channels/c", b'{"message":[', b"[]]}"),
        ("/v1/threads", b'{"name":[', b"[]]}"),
    ],
)
def test_much_json_is_not_made_into_much_more(
    tmp_path: Path, path: str, before: bytes, after: bytes
) -> None:
    """Promise Z3: 24 MB of brackets are refused or passed over, and never made into lists."""
    with serving_apart(tmp_path / "store") as served, httpx2.Client(base_url=served.url) as web:
        web.get("/health")
        kib = _peak_kib(served.running.pid)

        body = before + b"[]," * 8_000_000 + after
        reply = web.post(
            path, content=body, headers={"content-type": "application/json"}, timeout=60
        )

        assert reply.status_code in (200, 400, 413)
        assert _peak_kib(served.running.pid) - kib < 5 * len(body) // 1024


def _peak_kib(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("the process shows nothing of its memory")


@contextmanager
def silent_host() -> Generator[str]:
    """Somebody who listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_slow_capabilities_hold_up_nobody_and_are_few_at_once(tmp_path: Path) -> None:
    """Promise Z3."""
    gate = threading.Event()
    begun = threading.Semaphore(0)

    @capability("test.slow", description="waits", args_schema={"type": "object"}, cacheable=False)
    def slow(args: dict[str, object]) -> str:  # pyright: ignore[reportUnusedFunction]
        begun.release()
        gate.wait(WAIT_S_MAX)
        return "done"

    replies: list[int] = []
    with serving(tmp_path) as served:
        thread = httpx2.post(f"{served.url}/threads", json={}).json()["thread_id"]
        asked = {"capability": "test.slow", "thread_id": thread}

        def invoke() -> None:
            reply = httpx2.post(f"{served.url}/cap/invoke", json=asked, timeout=WAIT_S_MAX)
            replies.append(reply.status_code)

        askers = [threading.Thread(target=invoke) for _ in range(16)]
        for asker in askers:
            asker.start()
        for _ in askers:
            assert begun.acquire(timeout=WAIT_S_MAX)

        with httpx2.Client(base_url=served.url) as web:
            assert web.post("/push", json={"data": "x"}).status_code == 200
            one_more = web.post("/cap/invoke", json=asked)
            assert one_more.status_code == 503
        gate.set()
        for asker in askers:
            asker.join(WAIT_S_MAX)

    assert replies == [200] * 16


def test_a_websocket_on_a_used_connection_is_not_ended_by_its_idle_timer(served: Served) -> None:
    """Promise S3."""
    served.server.config.timeout_keep_alive = 1
    with socket.create_connection(("127.0.0.1", served.port), timeout=WAIT_S_MAX) as client:
        host = b"Host: 127.0.0.1:%d\r\n" % served.port
        client.sendall(b"GET /health HTTP/1.1\r\n" + host + b"\r\n")
        assert client.recv(10_000).startswith(b"HTTP/1.1 200")
        client.sendall(
            b"GET /ws/c HTTP/1.1\r\n" + host + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert client.recv(10_000).startswith(b"HTTP/1.1 101")

        client.settimeout(2.5)  # More than twice as long as an idle connection would last.
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_a_request_that_takes_too_long_is_reported_when_the_server_ends(tmp_path: Path) -> None:
    """Promise S3. It is answered, and the server ends without waiting for it for ever."""
    settings = Settings(fetch_private=True)
    with (
        silent_host() as target,
        serving_apart(tmp_path / "store", settings=settings) as served,
    ):
        asked: list[httpx2.Response] = []
        thread = httpx2.post(f"{served.url}/threads", json={}).json()["thread_id"]

        def invoke() -> None:
            body = {"capability": "http.fetch", "thread_id": thread, "args": {"url": target}}
            asked.append(httpx2.post(f"{served.url}/cap/invoke", json=body, timeout=60))

        asker = threading.Thread(target=invoke)
        asker.start()
        until(lambda: _in_flight(served.url) >= 1, "the request")
        os.kill(served.running.pid, signal.SIGTERM)
        served.running.wait(20)
        asker.join(WAIT_S_MAX)

    assert served.running.returncode in (0, -signal.SIGTERM)  # `relay serve` makes it 0.
    assert asked[0].status_code == 503
    assert asked[0].json()["code"] == "unavailable"


def _in_flight(url: str) -> float:
    for line in httpx2.get(f"{url}/metrics").text.splitlines():
        if line.startswith("contextrelay_http_requests_in_flight "):
            return float(line.split()[-1]) - 1  # This one is too.
    return 0


def test_renewing_a_lease_does_not_hold_up_others(tmp_path: Path) -> None:
    """Promise R6."""
    import sqlite3

    store = tmp_path / "store"
    with serving(store, settings=Settings(extend_on_read=True)) as served:
        ref = httpx2.post(f"{served.url}/push", json={"data": "x", "ttl": 1_000}).json()["id"]
        assert not served.door.relay.stores.ledger.reads_wait
        with httpx2.Client(base_url=served.url) as web:
            assert web.get(f"/pull/{ref}").json()["data"] == "x"
        from contextrelay.verbs import Peek, Pull

        assert served.door.relay.waits_for(Pull(ref))
        assert not served.door.relay.waits_for(Peek(ref))
    with sqlite3.connect(store / "relay.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
