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
        assert "operations is a text that is not a JSON array" in refused
        assert "send operations as a list" in refused
    assert "operations" in word


def test_what_cannot_be_patched_is_refused_in_words(stdio: Place) -> None:
    """Promise M1."""
    stdio.call("relay_thread_new", name="release")
    wrong = {"op": "add", "path": "/facts/-", "value": "v2 ships on Friday"}

    answer = bad(stdio.call("relay_state_patch", thread="release", operations=[wrong]))

    assert (
        answer == "Error: /facts/0 is not an object. Next: pass an object with id, key, value, at."
    )
    missing = bad(stdio.call("relay_state_header", thread="nothing"))
    assert "there is no thread 'nothing'" in missing
    assert "relay_state do=threads" in missing


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


def test_who_waits_hears_what_comes_meanwhile_and_holds_up_nobody(place: Place) -> None:
    """Promise M1."""
    heard: list[Any] = []

    async def act(client: Client) -> None:
        async def wait() -> None:
            arguments = {"channel": "c", "after": 0, "timeout_s": 50}
            heard.append((await client.call_tool("relay_wait", arguments)).structured_content)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await client.call_tool("relay_thread_list", {})
            await client.call_tool("relay_publish", {"channel": "c", "message": "after"})

    place.run(act)

    assert [each["message"] for each in heard[0]["signals"]] == ["after"]


def test_a_thread_is_handed_over_and_taken(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> tuple[Any, Any]:
        await client.call_tool("relay_thread_new", {"name": "release"})
        fact = {"thread": "release", "kind": "fact", "text": "v2 ships on Friday"}
        await client.call_tool("relay_state_add", fact)
        asked = {"thread": "release", "to": "writer", "ask": "write the notes"}
        given = await client.call_tool("relay_handoff_give", asked)
        ref = given.structured_content["ref"]
        return given, await client.call_tool("relay_handoff_accept", {"ref": ref})

    given, taken = place.run(act)

    assert given.structured_content["to"] == "writer"
    assert "write the notes" in good(taken)
    assert "v2 ships on Friday" in good(taken)


def test_a_fact_with_a_key_takes_the_place_of_the_older_one(stdio: Place) -> None:
    """Promise M1. Promise T2."""
    thread = json.loads(good(stdio.call("relay_thread_new", name="work")))["thread_id"]
    named = {"thread": thread, "kind": "fact", "key": "ships"}
    good(stdio.call("relay_state_add", text="on Friday", **named))
    good(stdio.call("relay_state_add", text="on Monday", **named))

    with Relay(stdio.store) as relay:
        facts = relay.thread(thread).state()["facts"]

    assert [(each["key"], each["value"]) for each in facts] == [("ships", "on Monday")]
    wrong = stdio.call("relay_state_add", **{**named, "kind": "step", "text": "x"})
    assert "a step has no key" in bad(wrong)


def test_a_wait_reports_progress_to_a_client_that_wants_it(place: Place) -> None:
    """Promise M1."""
    reports: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async def act(client: Client) -> Any:
        arguments = {"do": "wait", "channel": "c", "timeout_s": 1}
        return await client.call_tool("relay_channel", arguments, progress_callback=hear)

    assert good(place.run(act))
    assert [(total, message) for _, total, message in reports] == [(1, "waiting for a signal")]


def test_a_wait_that_is_cancelled_holds_up_nobody(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> Any:
        with anyio.move_on_after(1):
            await client.call_tool("relay_channel", {"do": "wait", "channel": "c", "timeout_s": 60})
        return await client.call_tool("relay_state", {"do": "threads"})

    assert good(place.run(act))
