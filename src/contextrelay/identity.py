"""Identity: the name of the agent that a client acts for, and of the user of this machine."""

from __future__ import annotations

import os

from contextrelay.documents.bounds import check_label

AGENT_VARIABLE = "RELAY_AGENT"


def agent_name(given: str | None) -> str:
    """Return the name of the agent of a client: the one given, or else RELAY_AGENT, or else "".

    Raises:
        Invalid: the name contains control characters.
        TooLarge: the name is too long.
    """
    name = os.environ.get(AGENT_VARIABLE, "") if given is None else given
    return check_label(name, AGENT_VARIABLE if given is None else "agent") if name else ""


def user_name() -> str:
    """Return the name of the user of this machine, from the password database where there is one,
    because environment variables can be forged.
    """
    try:
        from pwd import getpwuid
    except ImportError:
        return os.environ.get("USERNAME") or "user"
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
