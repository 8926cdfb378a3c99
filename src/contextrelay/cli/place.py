"""Where a command runs: the folder, the user, and the terminal or the name of the agent.

Rule: the values remembered for a place are a convenience. No command fails if they cannot be
written.
"""

from __future__ import annotations

import os
from contextlib import suppress

from contextrelay.cli.parser import AGENT_VARIABLE
from contextrelay.client.relay import Relay
from contextrelay.errors import RelayError
from contextrelay.verbs import RememberPush

_CHARS_MAX = 4096


def folder_of(relay: Relay) -> str:
    """Return the path of the current folder, preceded by the host name if the relay is a server."""
    folder = os.fsencode(os.getcwd()).decode(errors="backslashreplace")
    if relay.transport.url_of("").startswith("http"):
        folder = f"{os.uname().nodename}:{folder}"
    return folder[-_CHARS_MAX:]


def push_places(relay: Relay) -> list[str]:
    """Return the keys under which the last push is stored for `@last`, in the order of lookup.

    A named agent has only one key. A terminal has a key of its own, followed by the key for pushes
    that were made in this folder without a terminal.
    """
    folder = f"{os.getuid() if hasattr(os, 'getuid') else ''} {folder_of(relay)}"
    if agent := os.environ.get(AGENT_VARIABLE):
        return [f"agent {agent} {folder}"[:_CHARS_MAX]]
    terminal = _terminal()
    named = [f"terminal {terminal} {folder}"] if terminal else []
    return [each[:_CHARS_MAX] for each in (*named, f"user {folder}")]


def remember_push(relay: Relay, ref: str) -> None:
    """Store a ref, so that `@last` means this artifact here."""
    with suppress(OSError, RelayError):
        relay.transport.ask(RememberPush(ref, push_places(relay)[0]))


def _terminal() -> str:
    """Return the name of the terminal of this process, even if its output or input is redirected,
    or "".

    Terminal names are reused, so the result includes the process id of the session leader, the
    shell. A terminal that exists only for this command (`docker exec -t`) is ignored.
    """
    leader = os.getsid(0)
    for handle in (0, 2, 1):
        with suppress(OSError):
            return f"{os.ttyname(handle)} {leader}" if leader != os.getpid() else ""
    return ""
