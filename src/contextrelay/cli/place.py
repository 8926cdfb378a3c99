"""Where a command runs: the folder, and the agent, or the user and the terminal.

Rule: the values remembered for a place are a convenience. No command fails if they cannot be
written.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from contextrelay.errors import RelayError
from contextrelay.identity import AGENT_VARIABLE
from contextrelay.verbs import RememberPush

if TYPE_CHECKING:
    from contextrelay.client.transport.local import Local
    from contextrelay.client.transport.remote import Remote

_CHARS_MAX = 4096


def folder_of(transport: Local | Remote) -> str:
    """Return the path of the current folder, preceded by the host name if the relay is a server."""
    folder = os.fsencode(os.getcwd()).decode(errors="backslashreplace")
    if transport.url_of("").startswith("http"):
        folder = f"{os.uname().nodename}:{folder}"
    return folder[-_CHARS_MAX:]


def places(transport: Local | Remote) -> list[str]:
    """Return the keys of this place, the most specific one first.

    A named agent has only one key. A person has a key for the terminal, if there is one, and a key
    for the folder, in whatever terminal.
    """
    folder = f"{os.getuid() if hasattr(os, 'getuid') else ''} {folder_of(transport)}"
    if agent := os.environ.get(AGENT_VARIABLE):
        return [f"agent {agent} {folder}"[:_CHARS_MAX]]
    terminal = _terminal()
    named = [f"terminal {terminal} {folder}"] if terminal else []
    return [each[:_CHARS_MAX] for each in (*named, f"user {folder}")]


def remember_push(transport: Local | Remote, ref: str) -> None:
    """Store a ref, so that `@last` means this artifact here."""
    with suppress(OSError, RelayError):
        transport.ask(RememberPush(ref, places(transport)[0]))


def _terminal() -> str:
    """Return the name of the terminal of this process, even if its output or input is redirected,
    or "".

    Names of terminals and process ids are reused, so the result includes the session leader, which
    is the shell, and where possible the time when it started. A terminal that exists only for this
    command (`docker exec -t`) is ignored.
    """
    leader = os.getsid(0)
    for handle in (0, 2, 1):
        with suppress(OSError):
            terminal = os.ttyname(handle)
            return f"{terminal} {leader}{_started(leader)}" if leader != os.getpid() else ""
    return ""


def _started(process: int) -> str:
    """Return when a process started, in clock ticks since the boot, or "" if that is unknown."""
    with suppress(OSError, IndexError), open(f"/proc/{process}/stat", "rb") as stat:
        # The name of the program is in parentheses and may contain spaces.
        return f" {stat.read().rpartition(b') ')[2].split()[19].decode()}"
    return ""
