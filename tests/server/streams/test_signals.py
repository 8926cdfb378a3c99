"""Signals over WebSockets: through real servers, with real clients."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close
from websockets.sync.client import ClientConnection, connect

from contextrelay.model.settings import Settings
from contextrelay.server import serve
from contextrelay.server.streams import signals
from contextrelay.store.ledger import Write
from tests.server.serving import Apart, Served, serving, serving_apart
from tests.store.engines import Servers, new_prefix, until, url_of

WAIT_S = 10
UPGRADE = (
    b"GET /ws/reviews HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@contextmanager
def listening(served: Served | Apart, channel: str, **query: int) -> Generator[ClientConnection]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    url = f"{served.ws_url}/ws/{quote(channel, safe='')}{'?' if asked else ''}{asked}"
    with connect(url, open_timeout=WAIT_S) as listener:
        yield listener


def publish(served: Served | Apart, channel: str, *messages: Any) -> list[int]:
    """Publish messages, and return their seqs."""
    with Client(base_url=served.url, timeout=WAIT_S, verify=False) as client:
        path = f"/v1/channels/{quote(channel, safe='')}"
        replies = [client.post(path, json={"message": message}) for message in messages]
    assert {reply.status_code for reply in replies} <= {201}, replies
    return [reply.json()["seq"] for reply in replies]


def push(served: Served | Apart, channel: str, body: bytes = b"hello") -> str:
    """Push a body to a channel, and return its ref."""
    with Client(base_url=served.url, timeout=WAIT_S, verify=False) as client:
        reply = client.post("/v1/artifacts", params={"channel": channel}, content=body)
    assert reply.status_code == 201, reply.text
    return reply.json()["ref"]


def heard(listener: ClientConnection) -> dict[str, Any]:
    return json.loads(listener.recv(timeout=WAIT_S))


def the_rest(listener: ClientConnection) -> tuple[list[int], Close | None]:
    """The seqs of what still comes, and how the server closes."""
    seqs: list[int] = []
    try:
        while True:
            seqs.append(heard(listener)["seq"])
    except ConnectionClosed as closed:
        return seqs, closed.rcvd


# Frames


def test_a_push_reaches_its_subscribers_as_a_url_that_can_be_pulled(served: Served) -> None:
    """Promise S1."""
    with listening(served, "reviews") as listener:
        ref = push(served, "reviews", b"the review")
        frame = heard(listener)

    assert frame["url"] == f"{served.url}/pull/{ref}"
    assert frame.keys() == {"url", "ts", "seq", "from"}
    assert frame["seq"] == 1
    with Client(timeout=WAIT_S, verify=False) as client:
        assert client.get(frame["url"]).json()["data"] == "the review"


def test_what_is_no_upgrade_or_has_no_channel_is_refused(served: Served) -> None:
    """Promise S1."""
    with Client(base_url=served.url) as client:
        plain, nameless = client.get("/ws/reviews"), client.get("/ws/")

    assert (plain.status_code, plain.text) == (426, "Expected WebSocket upgrade")
    assert plain.headers["upgrade"] == "websocket"
    assert (nameless.status_code, nameless.text) == (400, "Missing channel")
    assert refusal(f"{served.ws_url}/ws/") == (400, "Missing channel")
    assert refusal(f"{served.ws_url}/ws") == (400, "Missing channel")
    assert refusal(f"{served.ws_url}/elsewhere")[0] == 404


@pytest.mark.parametrize(
    "rest",
    ["a%00b", "a?after=-1", "a?after=1&after=2"],
)
def test_a_channel_or_place_that_cannot_be_is_refused(
    served: Served, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise Z3. To refuse is no fault of the server, and none is logged."""
    assert refusal(f"{served.ws_url}/ws/{rest}")[0] == 400

    until(lambda: not served.server.server_state.tasks, "the end of it")
    assert not [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_foreign_host_or_origin_does_not_get_in(served: Served) -> None:
    """Promise Z2."""
    url = f"{served.ws_url}/ws/reviews"

    with socket.create_connection(("127.0.0.1", served.port)) as other:
        assert refusal(f"ws://evil.example:{served.port}/ws/reviews", sock=other)[0] == 421
    assert refusal(url, origin="https://evil.example")[0] == 403


def refusal(url: str, **more: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused, connect(url, open_timeout=WAIT_S, **more):
        pass
    return refused.value.response.status_code, refused.value.response.body.decode()


# Channels


@pytest.mark.parametrize("name", ["a/b", "100%", "a//b/"])
def test_a_channel_has_any_name(served: Served, name: str) -> None:
    """Promise S2."""
    with listening(served, name) as listener:
        ref = push(served, name)

        assert heard(listener)["url"].endswith(ref)


# Resuming


def test_what_is_no_longer_kept_is_reported_as_a_gap(tmp_path: Path) -> None:
    """Promise S4."""
    with serving(tmp_path / "store", settings=Settings(signals_kept_max=10)) as served:
        publish(served, "reviews", *range(30))
        with listening(served, "reviews", after=5) as listener:
            gap, first = heard(listener), heard(listener)

    assert gap["gap"][0] == 6
    assert first["seq"] == gap["gap"][1] + 1
    assert first["seq"] >= 20


def test_nothing_is_lost_when_the_server_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Promise S4."""
    store = tmp_path / "store"
    seqs: list[int] = []
    with serving_apart(store) as served, listening(served, "reviews") as listener:
        publish(served, "reviews", 1, 2, 3)
        seqs.append(heard(listener)["seq"])
        served.kill()
        seqs += the_rest(listener)[0]
    with serving_apart(store, port=served.port) as again:
        publish(again, "reviews", 4, 5)
        with listening(again, "reviews", after=seqs[-1]) as listener:
            while seqs[-1] < 5:
                seqs.append(heard(listener)["seq"])

    assert seqs == [1, 2, 3, 4, 5]


# Bounds


def test_a_slow_reader_is_cut_off_and_resumes_without_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise S2. Promise S4."""
    monkeypatch.setattr(signals, "SLOW_READER_S", 0.3)
    large = "x" * 60_000
    with serving(tmp_path / "store") as served:
        slow_url = f"{served.ws_url}/ws/busy"
        with connect(slow_url, max_queue=1, ping_interval=None) as slow:
            with listening(served, "busy") as quick:
                for number in range(300):
                    publish(served, "busy", large)
                    assert heard(quick)["seq"] == number + 1  # Held up by nobody.
                until(lambda: served.door.hub.listeners == 1, "the slow one to be cut off")
            seqs, close = the_rest(slow)
        assert close is not None
        assert close.code == 1013
        assert close.reason == f"too slow; resume with ?after={seqs[-1]}"
        with listening(served, "busy", after=seqs[-1]) as resumed:
            seqs += [heard(resumed)["seq"] for _ in range(300 - seqs[-1])]

    assert seqs == list(range(1, 301))


def test_one_who_never_reads_again_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3."""
    monkeypatch.setattr(signals, "SLOW_READER_S", 0.2)
    monkeypatch.setattr("contextrelay.server.ws_connection.CUT_S_MAX", 0.2)
    with serving(tmp_path / "store") as served:
        url = f"{served.ws_url}/ws/busy"
        with connect(url, max_queue=1, ping_interval=None, close_timeout=0.1):
            publish(served, "busy", *["x" * 60_000] * 200)
            state = served.server.server_state
            until(lambda: not state.connections, "the connection to end")


def test_one_who_leaves_frees_its_place(served: Served) -> None:
    """Promise S2."""
    hub = served.door.hub
    with listening(served, "reviews"), listening(served, "reviews"):
        assert hub.listeners == 2

    until(lambda: hub.listeners == 0, "the places to be free")


def test_there_are_only_so_many_places(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise Z3."""
    monkeypatch.setattr("contextrelay.server.streams.hub.LISTENERS_MAX", 1)
    with listening(served, "reviews"):
        assert refusal(f"{served.ws_url}/ws/reviews")[0] == 503


def test_frames_of_clients_are_dropped_and_pings_answered(served: Served) -> None:
    """Promise S3."""
    with listening(served, "reviews") as listener:
        for _ in range(50):
            listener.send("hello?")
            listener.send(b"\0" * 1000)
        assert listener.ping().wait(WAIT_S)
        publish(served, "reviews", "still here")

        assert heard(listener)["message"] == "still here"


def test_a_subscriber_is_pinged_and_one_that_never_answers_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise S3: every 30 s; here sooner."""
    assert serve.KEEPALIVE_S == 30
    monkeypatch.setattr(serve, "KEEPALIVE_S", 0.2)
    with serving(tmp_path / "store") as served, listening(served, "reviews") as listener:
        with socket.create_connection(("127.0.0.1", served.port), WAIT_S) as silent:
            silent.sendall(UPGRADE % served.port)
            received = b""
            while part := silent.recv(1_000):  # Until the server ends it.
                received += part
        publish(served, "reviews", "still here")

        frames = received.partition(b"\r\n\r\n")[2]
        assert frames[0] == 0x89  # A ping; the next byte is its length.
        assert frames[2 + frames[1] :][:1] == b"\x88"  # Then the close, nothing else.
        assert served.door.hub.listeners == 1
        assert heard(listener)["message"] == "still here"


def test_a_frame_that_is_too_large_ends_the_connection(served: Served) -> None:
    """Promise Z3."""
    with listening(served, "reviews") as listener:
        listener.send("x" * 100_000)
        _, close = the_rest(listener)

    assert close is not None
    assert close.code == 1009


def test_a_server_that_closes_says_so(tmp_path: Path) -> None:
    """Promise S3."""
    with serving(tmp_path / "store") as served:
        listener = connect(f"{served.ws_url}/ws/reviews")
    with listener, pytest.raises(ConnectionClosed) as closed:
        heard(listener)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012


# Several servers over one store


@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgres"])
def test_a_push_into_one_server_reaches_the_subscribers_of_another(
    tmp_path: Path, servers: Servers, engine: str
) -> None:
    """Promise G2."""
    store = str(tmp_path / "store")
    if engine != "sqlite":
        store = f"{url_of(engine, servers)}?prefix={new_prefix()}"
    with (
        serving_apart(store) as one,
        serving(store) as two,
        listening(one, "shared") as at_one,
        listening(two, "shared") as at_two,
    ):
        ref = push(one, "shared")
        publish(two, "shared", "from two")

        for listener in (at_one, at_two):
            first, second = heard(listener), heard(listener)
            assert first["url"].endswith(f"/pull/{ref}")
            assert second["message"] == "from two"
            assert [first["seq"], second["seq"]] == [1, 2]


def test_the_processes_of_one_server_behave_as_one(tmp_path: Path) -> None:
    """Promise G2."""
    with serving_apart(tmp_path / "store", workers=2) as served, ExitStack() as stack:
        listeners = [stack.enter_context(listening(served, "shared")) for _ in range(12)]
        for number in range(12):
            publish(served, "shared", number)

        for listener in listeners:
            assert [heard(listener)["message"] for _ in range(12)] == list(range(12))


def test_a_broken_signal_is_reported_as_a_gap(served: Served) -> None:
    """Promise S4."""
    publish(served, "reviews", "a")
    served.door.relay.stores.ledger.commit(Write("c/reviews", (b"{broken",)))
    publish(served, "reviews", "b")
    with listening(served, "reviews", after=0) as listener:
        notices = [heard(listener) for _ in range(3)]

    assert [each.get("message", each.get("gap")) for each in notices] == ["a", [2, 2], "b"]


def test_half_an_upgrade_leaves_nothing(served: Served) -> None:
    """Promise Z3."""
    with socket.create_connection(("127.0.0.1", served.port)) as half:
        half.sendall(b"GET /ws/reviews HTTP/1.1\r\nUpgrade: websocket\r\n")

    assert served.door.hub.listeners == 0
