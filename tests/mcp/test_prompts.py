"""Prompts for people to pick, and completion of their arguments and those of resources."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptResult, PromptReference, ResourceTemplateReference, TextContent

from contextrelay import Relay
from tests.mcp.connecting import Place

FACT = {"id": "f1", "key": "ship", "value": "v2 ships on Friday"}


def _text(result: GetPromptResult) -> str:
    content = result.messages[0].content
    assert isinstance(content, TextContent)
    return content.text


def test_prompts_are_listed_and_written(place: Place) -> None:
    """Promise M1."""
    with Relay(place.store) as relay:
        thread = relay.new_thread("release")
        thread.patch([{"op": "add", "path": "/facts/-", "value": FACT}])

    async def act(client: Client) -> tuple[Any, ...]:
        listed = (await client.list_prompts()).prompts
        start = await client.get_prompt("cold_start", {"thread": "release"})
        over = await client.get_prompt("hand_off", {"thread": "release", "to": "reviewer"})
        end = await client.get_prompt("finish")
        return listed, *(_text(each) for each in (start, over, end))

    listed, start, over, end = place.run(act)

    assert [each.name for each in listed] == ["cold_start", "hand_off", "finish"]
    assert all(each.description for each in listed)
    assert thread.id in start
    assert "v2 ships on Friday" in start
    assert "written by others" in start
    # By the tools that are offered.
    assert "relay_handoff do=give" in over
    assert "'reviewer'" in over
    assert "relay_project do=finish" in end


def test_a_prompt_that_cannot_be_written_is_an_error_with_the_next_step(stdio: Place) -> None:
    """Promise M1."""

    async def failed(client: Client, name: str, arguments: dict[str, str]) -> str:
        with pytest.raises(MCPError) as error:
            await client.get_prompt(name, arguments)
        return str(error.value)

    async def act(client: Client) -> list[str]:
        return [
            await failed(client, "cold", {}),
            await failed(client, "cold_start", {}),
            await failed(client, "cold_start", {"thread": "none"}),
            await failed(client, "finish", {"thread": "", "loud": "yes"}),
        ]

    unknown, missing, nothing, odd = stdio.run(act)

    assert "cold_start" in unknown
    assert "missing argument 'thread'" in missing
    assert "thread not found: 'none'. Next: list the threads: relay_state do=threads" in nothing
    assert "unknown argument 'loud'" in odd


def test_arguments_are_completed(place: Place) -> None:
    """Promise M1."""
    with Relay(place.store) as relay:
        thread = relay.new_thread("release")
        thread.patch([{"op": "add", "path": "/facts/-", "value": FACT}])
        thread.hand_off("reviewer", "look at it", by="writer")
        ref = relay.push("a report", name="report.md").ref

    prompt = PromptReference(name="hand_off")
    template = ResourceTemplateReference(uri="ctx://thread/{thread}/state/{version}")
    whole = ResourceTemplateReference(uri="ctx://{ref}")

    async def act(client: Client) -> list[list[str]]:
        asked: list[tuple[Any, dict[str, str], dict[str, str] | None]] = [
            (prompt, {"name": "thread", "value": "rel"}, None),
            (prompt, {"name": "to", "value": ""}, None),
            (template, {"name": "version", "value": ""}, {"thread": "release"}),
            (template, {"name": "version", "value": ""}, None),
            (whole, {"name": "ref", "value": ref[:4]}, None),
            (
                ResourceTemplateReference(uri="ctx://{ref}"),
                {"name": "ref", "value": "report"},
                None,
            ),
            (template, {"name": "thread", "value": "rel"}, None),
        ]
        answers = [
            await client.complete(each, argument, context_arguments=others)
            for each, argument, others in asked
        ]
        return [each.completion.values for each in answers]

    threads, agents, versions, unknown, refs, named, ids = place.run(act)

    assert threads == ["release"]
    assert agents == ["reviewer"]
    assert versions == ["3", "2", "1"]
    assert unknown == []
    assert ref in refs
    assert named == [ref]
    assert ids == [thread.id]  # A URI has no name of a thread in it.
