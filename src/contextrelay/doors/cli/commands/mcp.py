"""mcp: the relay as an MCP server on stdin and stdout, for a coding agent to start."""

from __future__ import annotations

from argparse import Namespace
from types import ModuleType

from contextrelay.doors.cli.console import Console
from contextrelay.errors import Unavailable


def mcp(args: Namespace, console: Console) -> None:
    """Serve MCP on stdin and stdout until stdin is closed; agents start this, not people.

    The store is that of --store, else of CONTEXTRELAY_URL (a server, with CONTEXTRELAY_API_KEY),
    else of RELAY_HOME, else ~/.relay. A running server has MCP over HTTP too, at /mcp.
    """
    _parts().run(console.address)


def _parts() -> ModuleType:
    """The door's parts.

    Raises:
        Unavailable: they are not installed.
    """
    from importlib import import_module

    try:
        return import_module("contextrelay.doors.mcp.stdio")
    except ImportError as error:
        if (error.name or "").startswith("contextrelay"):
            raise
        raise Unavailable(
            f"MCP needs {error.name}, which is not installed", "pip install 'contextrelay[mcp]'"
        ) from error
