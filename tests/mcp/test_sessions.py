"""Sessions over HTTP, for clients of the older protocol: theirs alone, bounded, and not needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import LoggingMessageNotification

from contextrelay import Relay
from contextrelay.limits import WAIT_S_MAX
from contextrelay.mcp import http_transport
from tests.mcp.connecting import connecting
from tests.server.serving import Served, serving
from tests.store.engines import until

SESSION = http_transport.SESSION_HEADER
ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def asked(served: Served, message: Any, token: str = "", **headers: str) -> httpx2.Response:
    more = {**ACCEPT, **headers, **({"authorization": f"Bearer {token}"} if token else {})}
    return httpx2.post(f"{served.url}/mcp", json=message, headers=more)


def begun(served: Served, token: str = "") -> str:
    """A new session; "" where there is none."""
    answer = asked(served, INITIALIZE, token)
    assert answer.status_code == 200
    return answer.headers.get(SESSION, "")


def test_a_session_begins_with_initialize_and_ends_when_it_is_deleted(tmp_path: Path) -> None:
    """Promise M1."""
    with serving(tmp_path) as served:
        session = begun(served)
        in_it = asked(served, LIST, **{SESSION: session})
        left = httpx2.delete(f"{served.url}/mcp", headers={SESSION: session})
        after = asked(served, LIST, **{SESSION: session})

    assert session
    assert "peek_context" in in_it.text
    assert (left.status_code, after.status_code) == (200, 404)


def test_a_session_is_for_the_key_that_began_it(tmp_path: Path) -> None:
    """Promise Z1."""
    with serving(tmp_path, needs_token=True) as served, Relay(tmp_path) as owner:
        mine, other = (owner.new_key(scope="write").token for _ in range(2))
        session = begun(served, mine)

        assert asked(served, LIST, mine, **{SESSION: session}).status_code == 200
        assert asked(served, LIST, other, **{SESSION: session}).status_code == 404
        assert asked(served, LIST, **{SESSION: session}).status_code == 401


def test_where_several_processes_serve_there_are_no_sessions(tmp_path: Path) -> None:
    """Promise M1: no balancer has to bring a client to the same process."""
    with serving(tmp_path) as served:
        served.door.mcp = http_transport.McpMount(has_sessions=False)
        got = httpx2.get(f"{served.url}/mcp", headers={**ACCEPT, SESSION: "0" * 32})

        assert begun(served) == ""
        assert asked(served, LIST, **{SESSION: "0" * 32}).status_code == 200
        assert (got.status_code, got.headers["allow"]) == (405, "POST")


def test_a_server_that_ends_ends_the_streams_of_its_sessions(tmp_path: Path) -> None:
    """Promise M1."""
    with httpx2.Client(timeout=WAIT_S_MAX) as client:
        with serving(tmp_path) as served:
            headers = {**ACCEPT, SESSION: begun(served)}
            request = client.build_request("GET", f"{served.url}/mcp", headers=headers)
            stream = client.send(request, stream=True)
            assert stream.headers["content-type"].startswith("text/event-stream")
        stream.close()


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_client_that_sets_a_level_is_sent_log_messages(tmp_path: Path, transport: Any) -> None:
    """Promise M1."""
    heard: list[tuple[str, Any]] = []
    both = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, LoggingMessageNotification):
            heard.append((message.params.level, message.params.data))
            if len(heard) == 2:
                both.set()

    async def act(client: Client) -> None:
        await client.call_tool("push_context", {"data": "x"})
        await client.set_logging_level("warning")  # pyright: ignore[reportDeprecated]
        await client.call_tool("push_context", {"data": "x"})
        await client.call_tool("pull_context", {"url": "00000000-0000-4000-8000-000000000000"})
        await client.set_logging_level("debug")  # pyright: ignore[reportDeprecated]
        await client.call_tool("push_context", {"data": "x"})
        with anyio.fail_after(20):
            await both.wait()

    with connecting(tmp_path / "store", transport, "legacy") as place:
        place.run(act, message_handler=hear)

    assert [level for level, _ in heard] == ["warning", "debug"]
    assert [data["tool"] for _, data in heard] == ["pull_context", "push_context"]


def test_subscriptions_end_with_their_session(tmp_path: Path) -> None:
    """Promise M1."""
    with serving(tmp_path) as served:
        session = {SESSION: begun(served)}
        uri = "ctx://channel/reviews"
        subscribe = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe"}
        answer = asked(served, {**subscribe, "params": {"uri": uri}}, **session)
        until(lambda: served.door.hub.listeners == 1, "that the channel is listened to")
        httpx2.delete(f"{served.url}/mcp", headers=session)

        until(lambda: served.door.hub.listeners == 0, "that it is not")
        assert json.loads(answer.text.partition("data: ")[2])["result"] == {}
