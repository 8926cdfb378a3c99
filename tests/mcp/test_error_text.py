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
            "list the artifacts: relay artifact list",
            "list the artifacts: relay_artifact_list",
        ),
        ("relay get 1a2b --json-pointer '/a b'", "relay_get url=1a2b json_pointer='/a b'"),
        ("see: relay project task list", "see: relay_project_look what=tasks"),
        ("say which: --id, one of TASK-001", "say which: id, one of TASK-001"),
        ("make one: relay push FILE", "make one: push_context FILE"),
    ],
)
def test_a_hint_names_the_tool_that_does_it(hint: str, said: str) -> None:
    """Promise M1."""
    assert for_tools(hint) == said


def test_every_tool_that_a_hint_may_name_is_there() -> None:

    named = {tool.split()[0] for tool in tool._TOOLS.values()}  # pyright: ignore[reportPrivateUsage]

    assert named <= set(EVERY)
