"""Over HTTP a tool may do what its caller may, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from contextrelay import Relay
from tests.mcp.connecting import unfenced
from tests.server.serving import Served, serving


def call(served: Served, token: str, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool worked, and what it said."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
    answer = httpx2.post(f"{served.url}/mcp", json=message, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    line = next(line for line in answer.text.splitlines() if line.startswith("data: {"))
    result = json.loads(line.removeprefix("data: "))["result"]
    return not result.get("isError", False), result["content"][0]["text"]


def test_a_tool_does_what_its_callers_key_allows(tmp_path: Path) -> None:
    """Promise M1. Promise Z1."""
    store = tmp_path / "store"
    with Relay(store) as relay:
        reader = relay.new_key(scope="read").token
        writer = relay.new_key(scope="write").token
        other = relay.new_key(scope="write", tenant="other").token
    with serving(store) as served:
        pushed, url = call(served, writer, "push_context", data="ours", channel="c")
        assert pushed

        is_good, pulled = call(served, reader, "pull_context", url=url)
        assert (is_good, unfenced(pulled)) == (True, "ours")
        assert not call(served, reader, "push_context", data="x")[0]
        assert not call(served, reader, "relay_thread_new", name="x")[0]
        assert not call(served, other, "peek_context", url=url)[0]
        assert not call(served, other, "pull_context", url=url)[0]
        assert not call(served, other, "relay_get", url=url)[0]
        heard = call(served, other, "relay_wait", channel="c", after=0, timeout_s=0)
        assert json.loads(heard[1])["signals"] == []
        assert json.loads(call(served, writer, "relay_wait", channel="c", after=0)[1])["signals"]
