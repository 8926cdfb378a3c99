"""MCP over stdin and stdout (`relay mcp`), until the client closes stdin.

Rule: stdout carries only messages, and invalid input is answered with an error. The store is opened
at the first use, so that a model can read why the store cannot be opened. Otherwise the server
would just not start.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from contextrelay.client.relay import AsyncRelay
from contextrelay.identity import agent_name
from contextrelay.mcp.server import Asking, make_server
from contextrelay.mcp.tools.tool import Others, OwnRefs, ToolVisit
from contextrelay.mcp.tools.toolset import toolset

Message = SessionMessage | Exception
INTERRUPTED = 130


def run(address: str | None, tools: str = "") -> None:
    """Serve the relay at an address on stdin and stdout, with the tools of some groups listed.

    Raises:
        Invalid: a group is unknown.
    """
    toolset(tools)
    signal.signal(signal.SIGINT, _interrupted)
    try:
        anyio.run(_serve_stdio, address, tools)
    except BaseExceptionGroup as errors:
        if errors.split(BrokenPipeError)[1] is not None:
            raise
        # The client was killed, as agents often are. This is not an error of the server.
        raise BrokenPipeError("the client is gone") from None


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Exit at once: a thread of the SDK reads stdin, and would delay a normal exit.

    No write is lost or partial.
    """
    with suppress(OSError):
        os.write(2, b"interrupted; an agent ends this by closing its stdin\n")
    os._exit(INTERRUPTED)


async def _serve_stdio(address: str | None, tools: str) -> None:
    async with stdio_server() as (messages, replies):
        await serve(address, messages, replies, tools)


async def serve(
    address: str | None,
    messages: ReadStream[Message],
    replies: WriteStream[SessionMessage],
    tools: str = "",
) -> None:
    """Answer the messages of one client until the client closes its stream."""
    host = _Host(address)
    server = make_server(host.visit, stays=True, has_files=True, tools=tools)
    passed_on, valid = anyio.create_memory_object_stream[Message]()

    async def pass_on() -> None:
        # The SDK does not answer invalid messages.
        async with passed_on:
            async for message in messages:
                if isinstance(message, Exception):
                    await replies.send(SessionMessage(_refusal(message)))
                else:
                    await passed_on.send(message)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            await server.run(valid, replies, server.create_initialization_options())
            group.cancel_scope.cancel()
    finally:
        await host.close()


class _Host:
    """The relay of this process."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._relay: AsyncRelay | None = None
        self._others = Others()
        self._own = OwnRefs()

    def visit(self, asking: Asking) -> ToolVisit:
        if self._relay is None:
            self._relay = AsyncRelay(self._address)
        return ToolVisit(
            self._relay, agent_name(None), others=self._others, address=self._address, own=self._own
        )

    async def close(self) -> None:
        await self._others.close()
        if self._relay is not None:
            await self._relay.close()


def _refusal(error: Exception) -> types.JSONRPCError:
    data = types.ErrorData(code=types.PARSE_ERROR, message="not valid JSON")
    if isinstance(error, ValidationError):
        kinds = [each["type"] for each in error.errors(include_input=False)]
        if "json_invalid" not in kinds:
            data = types.ErrorData(code=types.INVALID_REQUEST, message="not a JSON-RPC message")
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=data)
