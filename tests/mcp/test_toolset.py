"""Toolsets: few tools at first, and what they cost a model; more on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Invalid
from contextrelay.mcp.tools.toolset import EVERY, GROUPS, NAMES, toolset
from tests.mcp.connecting import Place, bad, connecting, good, started

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


def test_the_command_line_takes_the_names_of_groups(tmp_path: Path) -> None:
    """Promise M1."""
    from tests.mcp.connecting import Place as Connection

    words = ("--store", str(tmp_path), "--tools", "threads,signals")
    place = Connection(lambda: started(*words), "modern", tmp_path, "process", str(tmp_path))

    names = {json.loads(each)["name"] for each in place.run(_listed)}

    assert {"relay_state_patch", "relay_thread_new", "relay_wait", "relay_project"} <= names
    assert not {"relay_state", "relay_channel", "relay_project_start"} & names


def test_over_http_the_address_names_groups(tmp_path: Path) -> None:
    """Promise M1."""
    with connecting(tmp_path, "http", "modern") as made:
        place = Place(
            lambda: f"{made.address}/mcp?tools=all", made.era, made.store, "http", made.address
        )
        names = {json.loads(each)["name"] for each in place.run(_listed)}
        # Files of projects are on the client's machine.
        assert names == {name for name, each in toolset("all").tools.items() if not each.is_local}


def test_an_unknown_group_is_refused_with_those_that_there_are() -> None:
    """Promise M1."""
    with pytest.raises(Invalid, match="no tools called 'thread'") as refused:
        toolset("thread")

    assert "threads" in refused.value.hint


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


def test_one_tool_keeps_a_project(stdio: Place, tmp_path: Path) -> None:
    """Promise M1."""

    def call(do: str, **arguments: Any) -> str:
        folder = str(tmp_path / "site")
        return good(stdio.call("relay_project", do=do, folder=folder, **arguments))

    (tmp_path / "site").mkdir()
    call("init", name="Site")
    call("todo", action="add", title="Login page")
    call("task", action="give", task="look at the logs")

    assert "Login page" in call("start")
    assert "look at the logs" in call("look", what="tasks")


def test_what_is_wrong_is_said_by_the_tools_that_are_offered(stdio: Place) -> None:
    """Promise M1."""
    unknown = bad(stdio.call("relay_state", do="fly"))
    missing = bad(stdio.call("relay_state", do="header", thread="nothing"))
    wrong = bad(stdio.call("relay_handoff", do="accept", reference="1a2b"))

    assert "do: header, add, patch, threads, new" in unknown
    assert "relay_state do=threads" in missing
    assert "relay_thread_list" not in missing
    assert "relay_handoff do=accept takes ref" in wrong


def test_descriptions_name_only_tools_that_are_offered() -> None:
    """Promise M1."""
    for name in ("", *NAMES):
        offered = toolset(name)
        for tool in offered.tools.values():
            for word in offered.spell(tool.description).replace(",", " ").replace(".", " ").split():
                if word.strip("():;").startswith("relay_"):
                    assert word.strip("():;") in offered.tools, (name, tool.name, word)
