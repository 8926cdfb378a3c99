"""The place that a command is run in: the folder, the user, and a terminal or an agent's name.

Rule: what is remembered of a place is a convenience. Where it cannot be written, nothing fails.
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
    """This folder; with the machine's name where others have folders of the same name."""
    folder = os.fsencode(os.getcwd()).decode(errors="backslashreplace")
    if relay.transport.url_of("").startswith("http"):
        folder = f"{os.uname().nodename}:{folder}"
    return folder[-_CHARS_MAX:]


def push_places(relay: Relay) -> list[str]:
    """The places whose last push `@last` means, the first that has one.

    An agent that has a name has only its own; a terminal its own, and then what was pushed in the
    folder without a terminal.
    """
    folder = f"{os.getuid() if hasattr(os, 'getuid') else ''} {folder_of(relay)}"
    if agent := os.environ.get(AGENT_VARIABLE):
        return [f"agent {agent} {folder}"[:_CHARS_MAX]]
    terminal = _terminal()
    named = [f"terminal {terminal} {folder}"] if terminal else []
    return [each[:_CHARS_MAX] for each in (*named, f"user {folder}")]


def remember_push(relay: Relay, ref: str) -> None:
    """Make an artifact the one that `@last` means here."""
    with suppress(OSError, RelayError):
        relay.transport.ask(RememberPush(ref, push_places(relay)[0]))


def _terminal() -> str:
    """The terminal that this runs in, also where output or input is redirected.

    Names of terminals are used again: what differs is the shell that leads each. One that
    was made for this very command (`docker exec -t`) ends with it, and counts as none.
    """
    leader = os.getsid(0)
    for handle in (0, 2, 1):
        with suppress(OSError):
            return f"{os.ttyname(handle)} {leader}" if leader != os.getpid() else ""
    return ""
