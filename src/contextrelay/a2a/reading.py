"""Reading of responses from remote agents, with limits on size, number and time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import httpx2
from msgspec import DecodeError, ValidationError
from msgspec.json import decode

from contextrelay.errors import (
    Failed,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RelayError,
    TooLarge,
    Unavailable,
)
from contextrelay.limits import A2A_REPLY_BYTES_MAX, A2A_UPDATES_MAX, REPLY_S_DEFAULT

Document = dict[str, Any]
TOKEN_VARIABLE = "RELAY_A2A_TOKEN"
"""The variable with the token for remote agents. For our own server, our own key is used."""
HINT = "check the URL and the agent"


def whole(response: httpx2.Response, bytes_max: int, seconds_max: float = REPLY_S_DEFAULT) -> bytes:
    """Return the whole body of a response.

    Raises:
        TooLarge: the body is too large; Unavailable: it takes too long.
    """
    parts: list[bytes] = []
    size = 0
    until_s = time.monotonic() + seconds_max
    for part in response.iter_bytes():
        size += len(part)
        if size > bytes_max:
            raise TooLarge("the agent's response is too large", f"the limit is {bytes_max:,} bytes")
        if time.monotonic() > until_s:
            raise Unavailable("the agent's response is too slow", HINT)
        parts.append(part)
    return b"".join(parts)


def events_in(response: httpx2.Response, seconds_max: float) -> Iterator[Document]:
    """Yield the documents of an event stream, within the limits of one task.

    Raises:
        TooLarge: the stream is too long; Failed: an event is not a JSON object.
    """
    until_s = time.monotonic() + seconds_max
    size = events = 0
    data: list[bytes] = []
    rest: list[bytes] = []
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > A2A_REPLY_BYTES_MAX or time.monotonic() > until_s:
            hint = "cancel the task, and ask for a shorter answer"
            raise TooLarge("the agent's stream is too long", hint)
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
                    raise TooLarge("too many updates from the agent", "ask for a shorter answer")
                yield object_in(b"\n".join(data), "an update")
                data = []


def object_in(body: bytes, what: str) -> Document:
    """Return the JSON object in a body. Raise Failed if it is something else."""
    try:
        return decode(body, type=dict[str, Any])
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        raise Failed(f"{what} is not a JSON object", HINT) from None


def peer_error(message: str, code: object, details: object = None) -> RelayError:
    """Return the error that an agent reported, by its JSON-RPC code or HTTP status."""
    reasons = [object_of(each).get("reason") for each in items_of(details)]
    said = f"the agent reported: {message[:500] or 'an error'}"
    if code in (-32001, 404):
        return NotFound(said, "check the id of the task: the agent does not know it")
    if code == -32004 or "UNSUPPORTED_OPERATION" in reasons:
        return Refused(said, "send the message without a task")
    if code in (401, 403):
        return Forbidden(said, f"set {TOKEN_VARIABLE}")
    kind = Invalid if isinstance(code, int) and (400 <= code < 500 or code < 0) else Failed
    return kind(said, HINT)


def object_of(value: object) -> Document:
    """Return a value if it is a JSON object, otherwise an empty dict."""
    return cast("Document", value) if isinstance(value, dict) else {}


def items_of(value: object) -> list[object]:
    """Return the first 1,000 items of a list, or an empty list for any other value."""
    return cast("list[object]", value)[:1_000] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return the first 1,000 characters of a text, or "" for any other value."""
    return value[:1_000] if isinstance(value, str) else ""
