"""Reading: what an agent elsewhere sends, within bounds of size, number and time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
from msgspec import DecodeError, ValidationError
from msgspec.json import decode

from contextrelay.errors import Failed, TooLarge, Unavailable
from contextrelay.limits import A2A_REPLY_BYTES_MAX, A2A_UPDATES_MAX, REPLY_S_DEFAULT

Document = dict[str, Any]
HINT = "check the URL, and see what the agent says"


def whole(response: httpx2.Response, bytes_max: int, seconds_max: float = REPLY_S_DEFAULT) -> bytes:
    """All of a body.

    Raises:
        TooLarge: it is longer. Unavailable: it takes longer.
    """
    parts: list[bytes] = []
    size = 0
    until_s = time.monotonic() + seconds_max
    for part in response.iter_bytes():
        size += len(part)
        if size > bytes_max:
            raise TooLarge("the agent sends too much", f"the limit is {bytes_max:,} bytes")
        if time.monotonic() > until_s:
            raise Unavailable("the agent answers too slowly", HINT)
        parts.append(part)
    return b"".join(parts)


def events_in(response: httpx2.Response, seconds_max: float) -> Iterator[Document]:
    """The documents of an event stream, within the bounds of one task.

    Raises:
        TooLarge: there is no end of it. Failed: one of them is no object.
    """
    until_s = time.monotonic() + seconds_max
    size = events = 0
    data: list[bytes] = []
    rest: list[bytes] = []
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > A2A_REPLY_BYTES_MAX or time.monotonic() > until_s:
            raise TooLarge("the agent's stream does not end", "cancel its task, and ask for less")
        rest.append(chunk)
        if b"\n" not in chunk:
            continue
        *lines, last = b"".join(rest).split(b"\n")
        rest = [last]
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                events += 1
                if events > A2A_UPDATES_MAX:
                    raise TooLarge("the agent sends too many updates", "ask for less")
                yield object_in(b"\n".join(data), "an update")
                data = []


def object_in(body: bytes, what: str) -> Document:
    """A JSON object.

    Raises:
        Failed: it is none.
    """
    try:
        return decode(body, type=dict[str, Any])
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        raise Failed(f"{what} is no JSON object", HINT) from None
