"""Threads and signals for models."""

from __future__ import annotations

import json
from typing import Any

import anyio
from mcp import Client

from contextrelay import Relay
from tests.mcp.connecting import Place, bad, good


def test_a_thread_is_begun_changed_and_read_by_its_name(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> tuple[Any, ...]:
        made = await client.call_tool("relay_thread_new", {"name": "release"})
        added = await client.call_tool(
            "relay_state_add", {"thread": "release", "kind": "step", "text": "write the notes"}
        )
        done = {"op": "replace", "path": "/plan/0/status", "value": "done"}
        patch = {"thread": "release", "operations": [done], "expected": 2}
        patched = await client.call_tool("relay_state_patch", patch)
        late = await client.call_tool("relay_state_patch", patch)
        header = await client.call_tool("relay_state_header", {"thread": "release"})
        listed = await client.call_tool("relay_thread_list", {})
        return made, added, patched, late, header, listed

    made, added, patched, late, header, listed = place.run(act)

    thread = made.structured_content["thread_id"]
    assert added.structured_content["version"] == 2
    assert patched.structured_content == {"thread_id": thread, "version": 3}
    assert bad(late).startswith("Error: ")
    assert json.loads(good(header))["version"] == 3
    assert [each["name"] for each in json.loads(good(listed))["threads"]] == ["release"]
    with Relay(place.store) as relay:
        handle = relay.thread(thread)
        state = handle.state()
        assert [(step["step"], step["status"]) for step in state["plan"]] == [
            ("write the notes", "done")
        ]
        # Who did it is the name that the client gives itself.
        assert {each.event.by for each in handle.events()} == {"mcp"}


def test_operations_may_come_as_json_text(place: Place) -> None:
    """Promise M1."""
    question = {"id": "q1", "question": "when?", "status": "open"}
    operations = [{"op": "add", "path": "/open_questions/-", "value": question}]
    place.call("relay_thread_new", name="release")

    for each in (json.dumps(operations), f" {json.dumps(operations).replace('q1', 'q2')}\n"):
        good(place.call("relay_state_patch", thread="release", operations=each))
    torn = bad(place.call("relay_state_patch", thread="release", operations="[{"))
    deep = bad(place.call("relay_state_patch", thread="release", operations="[" * 100_000))
    word = bad(place.call("relay_state_patch", thread="release", operations="add it"))

    with Relay(place.store) as relay:
        state = relay.thread("release").state()
        assert [each["id"] for each in state["open_questions"]] == ["q1", "q2"]
    for refused in (torn, deep):
        assert "operations is not a valid JSON array" in refused
        assert "send operations as a list" in refused
    assert "operations" in word


def test_a_message_is_waited_for_and_heard(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> list[Any]:
        sent = await client.call_tool("relay_publish", {"channel": "c", "message": {"a": [1]}})
        pushed = await client.call_tool("push_context", {"data": "x", "channel": "c"})
        heard = await client.call_tool("relay_wait", {"channel": "c", "after": 0})
        more = await client.call_tool("relay_wait", {"channel": "c", "after": 2, "timeout_s": 0.1})
        return [sent, pushed, heard, more]

    sent, pushed, heard, more = place.run(act)

    assert sent.structured_content == {"seq": 1}
    message, push = heard.structured_content["signals"]
    assert (message["message"], message["from"]) == ({"a": [1]}, "mcp")
    assert push["url"] == good(pushed)
    assert more.structured_content == {"signals": [], "head": 2}


def test_a_wait_that_is_cancelled_holds_up_nobody(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> Any:
        with anyio.move_on_after(1):
            await client.call_tool("relay_channel", {"do": "wait", "channel": "c", "timeout_s": 60})
        return await client.call_tool("relay_state", {"do": "threads"})

    assert good(place.run(act))
