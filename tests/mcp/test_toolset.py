"""Toolsets: few tools at first, and what they cost a model; more on request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from contextrelay.content.tokens import count_tokens
from contextrelay.mcp.tools.toolset import EVERY, GROUPS, NAMES, toolset
from tests.mcp.connecting import Place, good

TOOLS_MAX = 10
TOKENS_MAX = 1_500


async def _listed(client: Client) -> list[str]:
    """The tools as the protocol sends them, each as JSON."""
    tools = (await client.list_tools()).tools
    return [each.model_dump_json(by_alias=True, exclude_none=True) for each in tools]


def test_the_tools_cost_a_model_little(place: Place) -> None:
    """Promise M1."""
    listed = place.run(_listed)

    assert 1 < len(listed) <= TOOLS_MAX
    assert sum(count_tokens(each, "o200k_base") for each in listed) <= TOKENS_MAX


@pytest.mark.parametrize("name", NAMES)
def test_a_group_is_offered_tool_by_tool(stdio: Place, name: str) -> None:
    """Promise M1."""
    some = stdio.run(_listed)
    more = set(toolset(name).tools) - set(toolset().tools)

    assert more
    assert not more & {json.loads(each)["name"] for each in some}
    if name == "all":
        assert set(toolset(name).tools) == EVERY.keys() - {
            group.name for group, _ in GROUPS.values()
        }


def test_one_tool_does_what_a_group_does(place: Place) -> None:
    """Promise M1."""

    async def act(client: Client) -> tuple[Any, ...]:
        call = client.call_tool
        made = await call("relay_state", {"do": "new", "name": "release"})
        entry = {"thread": "release", "kind": "fact", "text": "v2 ships on Friday", "key": "ship"}
        added = await call("relay_state", {"do": "add", **entry})
        header = await call("relay_state", {"do": "header", "thread": "release"})
        ask = {"thread": "release", "to": "reviewer", "ask": "review it"}
        given = await call("relay_handoff", {"do": "give", **ask})
        ref = given.structured_content["ref"]
        taken = await call("relay_handoff", {"do": "accept", "ref": ref})
        sent = await call("relay_channel", {"do": "publish", "channel": "ci", "message": "green"})
        heard = await call("relay_channel", {"do": "wait", "channel": "ci", "after": 0})
        return made, added, header, taken, sent, heard

    made, added, header, taken, sent, heard = place.run(act)

    assert made.structured_content["name"] == "release"
    assert added.structured_content["version"] == 2
    assert "v2 ships on Friday" in good(header)
    assert "review it" in good(taken)
    assert sent.structured_content == {"seq": 1}
    assert [each["message"] for each in heard.structured_content["signals"]] == ["green"]
