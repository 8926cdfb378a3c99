"""Hints for models: commands of a shell become tools."""

from __future__ import annotations

import pytest

from contextrelay.mcp.tools import tool
from contextrelay.mcp.tools.tool import for_tools
from contextrelay.mcp.tools.toolset import EVERY


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "see what there is with: relay artifact list",
            "see what there is with: relay_artifact_list",
        ),
        (
            "read lines instead: relay get 1a2b3c4d --lines 1:40",
            "read lines instead: relay_get url=1a2b3c4d lines=1:40",
        ),
        ("relay get 1a2b --json-pointer '/a b'", "relay_get url=1a2b json_pointer='/a b'"),
        ("begin with: relay get 1a2b --outline", "begin with: relay_get url=1a2b outline=true"),
        ("see: relay project task list", "see: relay_project_look what=tasks"),
        ("relay project todo unblock TODO-001", "relay_project_todo action=unblock TODO-001"),
        ("say which: --id, one of TASK-001", "say which: id, one of TASK-001"),
        ("say who you are with --by", "say who you are with agent"),
        ("make one: relay push FILE", "make one: push_context FILE"),
        ("try again", "try again"),
        (
            "make it whole: relay verify",
            "make it whole: relay verify (in a shell: ask the person you work for)",
        ),
    ],
)
def test_a_hint_names_the_tool_that_does_it(hint: str, said: str) -> None:
    """Promise M1."""
    assert for_tools(hint) == said


def test_every_tool_that_a_hint_may_name_is_there() -> None:

    named = {tool.split()[0] for tool in tool._TOOLS.values()}  # pyright: ignore[reportPrivateUsage]

    assert named <= set(EVERY)
