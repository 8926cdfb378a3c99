"""What docs/mcp.md says to write starts what it is meant to start."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from contextrelay.mcp.tools.toolset import toolset
from tests.docs.blocks import blocks_in
from tests.mcp.connecting import Place

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
BIN = Path(sys.executable).parent


def entries() -> list[dict[str, Any]]:
    """The servers that the page says agents start."""
    found: list[dict[str, Any]] = []
    for block in blocks_in("docs/mcp.md", PAGE.read_text()):
        if block.language == "json":
            found.append(json.loads(block.code)["mcpServers"]["relay"])
        elif block.language == "toml":
            found.append(tomllib.loads(block.code)["mcp_servers"]["relay"])
        elif "claude mcp add relay" in block.code:
            words = shlex.split(block.code.splitlines()[0])
            command, *args = words[words.index("--") + 1 :]
            found.append({"command": command, "args": args})
    return found


def test_the_docs_have_one_command_for_every_agent() -> None:
    assert len(entries()) == 3
    assert all(entry == entries()[0] for entry in entries())


def test_the_command_in_the_docs_starts_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise M1."""
    monkeypatch.setenv("PATH", f"{BIN}:/usr/bin:/bin")
    (entry, *_) = entries()
    server = StdioServerParameters(
        **entry, env={"RELAY_HOME": str(tmp_path / "store"), "PATH": f"{BIN}:/usr/bin:/bin"}
    )

    async def tools(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    place = Place(lambda: server, "modern", tmp_path / "store", "process", "")

    assert place.run(tools) == set(toolset().tools)
