"""An older client, that of the published `contextrelay-mcp`, against our script of that name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay

pytestmark = pytest.mark.xdist_group("published")

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / ".published" / "bin"
OURS = Path(sys.executable).with_name("contextrelay-mcp")

CLIENT = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        async def call(name, **args):
            return (await session.call_tool(name, args)).content[0].text
        tools = {}
        for tool in (await session.list_tools()).tools:
            tools[tool.name] = sorted(tool.inputSchema["properties"])
        url = await call("push_context", data="für alle ✓", channel=None, summary="a greeting")
        sealed = await call("push_context", data="hidden", encrypted=True, summary=None)
        print(json.dumps([
            begun.protocolVersion, tools, url,
            await call("peek_context", url=url), await call("pull_context", url=url),
            await call("pull_context", url=sealed),
            await call("pull_context", url=url[:-4] + "0000"),
        ]))

asyncio.run(main())
"""


def run(command: Path, **environment: str) -> list[Any]:
    if not (PUBLISHED / "contextrelay-mcp").exists():
        pytest.fail("the published client is not installed: make .published/.ready")
    done = subprocess.run(
        [PUBLISHED / "python", "-c", CLIENT, command],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def test_an_older_client_finds_the_tools_that_it_knows(tmp_path: Path) -> None:
    """Promise M1."""
    store = tmp_path / "store"

    version, tools, url, peeked, pulled, opened, gone = run(OURS, RELAY_HOME=str(store))

    assert version == "2025-11-25"
    assert set(tools["push_context"]) >= {"channel", "data", "encrypted", "summary"}
    assert tools["bridge_task"] == ["done_channel", "task", "task_channel", "timeout"]
    assert json.loads(peeked)["summary"] == "a greeting"
    assert (pulled, opened) == ("für alle ✓", "hidden")
    assert gone.startswith("Error pulling context: ")
    with Relay(store) as relay:
        assert relay.pull(url).decode() == "für alle ✓"
