"""Clients for tests: the SDK's own, over both transports and in both generations of the protocol.

    with connecting(tmp_path / "store", "stdio", "legacy") as place:    # or "http", "modern"
        place.run(act)      # act: async, takes a client; a new connection each time

stdio is what `relay mcp` does with each message, in this process (a start takes seconds),
process a real one, http the `/mcp` of a real server. What ends with `-url` asks a server, with
nothing in a store of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
from mcp import Client, StdioServerParameters
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, TextContent
from msgspec import Struct

from contextrelay.mcp.stdio import serve
from tests.server.serving import serving

Result = TypeVar("Result")
Transport = Literal["stdio", "http", "stdio-url", "process", "process-url"]
Era = Literal["legacy", "modern"]

LEGS: list[tuple[Transport, Era]] = [
    ("stdio", "legacy"),
    ("stdio", "modern"),
    ("http", "legacy"),
    ("http", "modern"),
    ("stdio-url", "modern"),
]
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
ACT_S_MAX = 60


class Place(Struct, frozen=True):
    """Where a client connects to, and how."""

    server: Callable[[], Any]
    """What a client is given, for each connection."""
    era: Era
    store: Path
    transport: Transport
    address: str
    """Of the store, for other clients of it: a folder or a URL."""

    def run(self, act: Callable[[Client], Awaitable[Result]], **options: Any) -> Result:
        """Connect, act, and leave."""
        # "auto" asks the server which generation it speaks, and takes the newest.
        mode = "legacy" if self.era == "legacy" else "auto"

        async def main() -> Result:
            with anyio.fail_after(ACT_S_MAX):
                async with Client(self.server(), mode=mode, **options) as client:
                    assert client.protocol_version == VERSIONS[self.era]
                    return await act(client)

        return anyio.run(main)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call one tool."""
        return self.run(lambda client: client.call_tool(tool, arguments))


@contextmanager
def connecting(store: Path, transport: Transport, era: Era) -> Generator[Place]:
    """A place to connect to, over a store."""
    if transport in ("stdio", "process"):
        yield _place(store, transport, era, str(store))
        return
    with serving(store) as served:
        yield _place(store, transport, era, served.url)


def _place(store: Path, transport: Transport, era: Era, address: str) -> Place:
    def server() -> Any:
        if transport == "http":
            return f"{address}/mcp"
        if transport in ("stdio", "stdio-url"):
            return _in_this_process(address)
        return started("--store" if transport == "process" else "--url", address)

    return Place(server, era, store, transport, address)


@asynccontextmanager
async def _in_this_process(address: str) -> AsyncGenerator[Any]:
    async with (
        create_client_server_memory_streams() as (client, server),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve, address, *server)
        yield client
        await client[1].aclose()


def started(*words: str) -> StdioServerParameters:
    """How a client starts `relay mcp`."""
    command = ["-m", "contextrelay", "mcp", *words]
    return StdioServerParameters(command=sys.executable, args=command)


def text_of(result: CallToolResult) -> str:
    """The text that a model reads."""
    first = result.content[0]
    assert isinstance(first, TextContent)
    return first.text


def unfenced(shown: str) -> str:
    """What stands in the fence that an answer begins with, without the line end before its end."""
    match = re.match(r"BEGIN UNTRUSTED DATA ([0-9a-f]{8}): .*\nsource: .*\n", shown)
    assert match, shown
    inner, end, _ = shown[match.end() :].partition(f"END UNTRUSTED DATA {match[1]}")
    assert end, shown
    return inner.removesuffix("\n")


def good(result: CallToolResult) -> str:
    """The text of an answer that is no error."""
    assert not result.is_error, text_of(result)
    return text_of(result)


def bad(result: CallToolResult) -> str:
    """The text of an answer that is an error."""
    assert result.is_error, text_of(result)
    return text_of(result)
