"""A key ends while requests and streams are open under it: they are ended."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from contextrelay import Relay
from contextrelay.model.key import IssuedKey
from tests.server.replies import bearer
from tests.server.serving import Served
from tests.store.engines import until

UNAUTHORIZED = "Missing or invalid API key"


@pytest.fixture(params=["revoked", "expired"])
def ending(request: pytest.FixtureRequest, owner: Relay) -> tuple[IssuedKey, Any]:
    """A key, and the way to let it end."""
    if request.param == "expired":
        return owner.new_key(ttl_s=2), lambda: None
    made = owner.new_key()
    return made, lambda: owner.revoke_key(made.key.id)


def test_a_websocket_ends_with_its_key(guarded: Served, ending: tuple[IssuedKey, Any]) -> None:
    """Promise Z1: expired and revoked keys in the middle of a stream."""
    made, end = ending
    with (
        connect(f"{guarded.ws_url}/ws/room", additional_headers=bearer(made.token)) as one,
        connect(f"{guarded.ws_url}/ws/room?token={made.token}") as two,
    ):
        with Relay(guarded.url, api_key=made.token) as relay:
            relay.publish("room", "hello")
        assert [json.loads(each.recv(10))["message"] for each in (one, two)] == ["hello"] * 2

        end()

        assert [_closed_with(each) for each in (one, two)] == [1008, 1008]
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"{guarded.ws_url}/ws/room", additional_headers=bearer(made.token)),
    ):
        pass
    assert refused.value.response.status_code == 401


def _closed_with(connection: ClientConnection) -> int | None:
    try:
        connection.recv(20)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None
    return None


@pytest.mark.parametrize("path", ["/v1/channels/room/events", "/v1/threads/{thread}/events/stream"])
def test_a_stream_of_events_ends_with_its_key(
    guarded: Served, ending: tuple[IssuedKey, Any], path: str
) -> None:
    """Promise Z1."""
    made, end = ending
    with httpx2.Client(base_url=guarded.url, timeout=20) as client:
        thread = client.post("/threads", json={}, headers=bearer(made.token)).json()["thread_id"]
        target = path.replace("{thread}", thread)
        with client.stream("GET", f"{target}?token={made.token}") as reply:
            assert reply.status_code == 200
            parts = reply.iter_bytes()
            assert next(parts).startswith(b"id: ")

            end()

            with pytest.raises(httpx2.RemoteProtocolError):
                for _ in parts:
                    pass
        assert client.get(f"{target}?token={made.token}").status_code == 401


@pytest.mark.parametrize("path", ["/v1/channels/room", "/v1/threads/{thread}/events"])
def test_a_long_poll_ends_with_its_key(
    guarded: Served, ending: tuple[IssuedKey, Any], path: str
) -> None:
    """Promise Z1."""
    made, end = ending
    after = "&after=1000" if "thread" in path else ""
    with httpx2.Client(base_url=guarded.url, timeout=30, headers=bearer(made.token)) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        target = path.replace("{thread}", thread)
        listeners = guarded.door.hub.listeners
        found: list[httpx2.Response] = []
        asking = threading.Thread(
            target=lambda: found.append(client.get(f"{target}?wait=25{after}"))
        )
        asking.start()
        until(lambda: guarded.door.hub.listeners > listeners, "the long-poll")

        end()

        asking.join(20)
    assert [(reply.status_code, reply.json()["error"]) for reply in found] == [(401, UNAUTHORIZED)]
    assert guarded.door.hub.listeners == listeners


def test_an_upload_ends_with_its_key_and_nothing_is_stored(
    guarded: Served, owner: Relay, ending: tuple[IssuedKey, Any]
) -> None:
    """Promise Z1."""
    made, end = ending
    before = len(owner.list(1000).artifacts)
    with socket.create_connection(("127.0.0.1", guarded.port)) as wire:
        wire.settimeout(20)
        head = f"POST /push HTTP/1.1\r\nhost: 127.0.0.1:{guarded.port}\r\n"
        head += f"authorization: Bearer {made.token}\r\ncontent-length: 1000000\r\n\r\n"
        wire.sendall(head.encode() + b"x" * 1000)

        end()

        answer = wire.recv(65536)
    assert b" 401 " in answer.partition(b"\r\n")[0]
    assert len(owner.list(1000).artifacts) == before


def test_a_download_ends_with_its_key_before_it_is_whole(
    guarded: Served, ending: tuple[IssuedKey, Any]
) -> None:
    """Promise Z1."""
    made, end = ending
    size = 30_000_000
    with Relay(guarded.url, api_key=made.token) as relay:
        ref = relay.push(b"x" * size).ref
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        wire.settimeout(20)
        wire.connect(("127.0.0.1", guarded.port))
        head = f"GET /pull/{ref}?raw=1 HTTP/1.1\r\nhost: 127.0.0.1:{guarded.port}\r\n"
        wire.sendall(f"{head}authorization: Bearer {made.token}\r\n\r\n".encode())
        got = len(wire.recv(1000))

        end()

        until(lambda: not _stays(guarded, made), "the server to send it away")
        while part := _read(wire):
            got += len(part)
    assert got < size


def _stays(guarded: Served, made: IssuedKey) -> bool:
    visitors = guarded.door.callers._visitors  # pyright: ignore[reportPrivateUsage]
    return made.token in visitors


def _read(wire: socket.socket) -> bytes:
    try:
        return wire.recv(65536)
    except ConnectionError:
        return b""
