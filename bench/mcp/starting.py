"""Starting: from the start of the process to the answer to the first message, against an empty
server on the same SDK.

An agent starts an MCP server with every conversation, and waits for it.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec.json import encode

import contextrelay
from bench.measure import Curve, Result, Skipped, each, interleaved, within

TIMES = 4

EMPTY = """
import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

async def main():
    server = Server("empty")
    async with stdio_server() as (messages, replies):
        await server.run(messages, replies, server.create_initialization_options())

anyio.run(main)
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    try:
        import mcp
    except ImportError as error:
        raise Skipped("pip install 'contextrelay[mcp]'") from error
    for package in (contextrelay, mcp):
        compileall.compile_dir(str(Path(str(package.__file__)).parent), quiet=2)
    relay = [str(Path(sys.executable).with_name("relay")), "mcp", "--store", str(folder)]
    empty = [sys.executable, "-c", EMPTY]

    ours, anchor = interleaved(lambda: _taken(relay, 1), lambda: _taken(empty, 1))
    yield within("relay mcp to its first answer / empty server", ours, anchor, "ms", 1.2)
    ours, anchor = interleaved(lambda: _taken(relay, 2), lambda: _taken(empty, 1))
    yield within("relay mcp with its tools listed / empty server", ours, anchor, "ms", 1.3)


def _taken(command: list[str], answers: int) -> float:
    """Milliseconds until a new process has given so many answers."""

    def start(index: int) -> None:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            for message in (INITIALIZE, LIST)[:answers]:
                running.stdin.write(encode(message) + b"\n")
                running.stdin.flush()
                assert b'"result"' in running.stdout.readline()
            # How it ends is not what is measured.
            running.kill()

    return each(start, TIMES) / 1000
