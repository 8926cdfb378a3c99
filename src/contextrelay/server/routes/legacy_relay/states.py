"""State routes of seed 002: the document, its header, and conditional patches.

Rule: `If-Match` is a condition of HTTP, and its failure is status 412. `expected` and `test` are
conditions of the patch, and their failure is status 409. Both are checked when the patch is
applied, never before.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import asdict

from contextrelay.documents.pointer import MISSING
from contextrelay.errors import Conflict, Invalid, NotFound, Refused, RelayError, TooLarge
from contextrelay.limits import JSON_BODY_BYTES_MAX, QUERY_FIELDS_MAX
from contextrelay.model.thread import HeaderView, Patched, StateView
from contextrelay.server.request import JSON, Exchange, Headers
from contextrelay.server.router import WRITES, Endpoint
from contextrelay.server.routes.legacy_relay.bodies import PatchBody, PatchedState, VersionQuery
from contextrelay.server.routes.legacy_relay.parsing import (
    ask_of,
    caller,
    check_there,
    fitted,
    parsed,
    query_of,
    thread_of,
    version_of,
)
from contextrelay.server.routes.send_artifact import reply_tagged
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import PatchState, ReadHeader, ReadState

_TAGS = re.compile(r'\s*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')
_STRONG = re.compile(r'"v([1-9][0-9]{0,11})"')


class Unmatched(Conflict):
    """The state is not at the version of `If-Match`."""

    code, status = "unmatched", 412


# Reading


async def read_state(exchange: Exchange) -> None:
    """Return the whole state, at any version."""
    thread = thread_of(exchange)
    verb = ReadState(thread, _asked_version(exchange))
    view: StateView = await ask_of(exchange, thread, verb)
    await _reply(exchange, bytes(view.state), view.version)


async def read_header(exchange: Exchange) -> None:
    """Return the bounded header of a state, byte for byte as in a prompt.

    At most 2,048 bytes; the response header `X-Relay-Truncated: true` says that parts were left
    out.
    """
    thread = thread_of(exchange)
    verb = ReadHeader(thread, _asked_version(exchange))
    view: HeaderView = await ask_of(exchange, thread, verb)
    header = bytes(view.header)
    more: Headers = [(b"x-relay-truncated", b"true")] if view.truncated else []
    await _reply(exchange, header, decode(header, type=_Versioned).version, more)


class _Versioned(Struct):
    version: int


def _asked_version(exchange: Exchange) -> int | None:
    version = query_of(exchange, VersionQuery).version
    return None if version is None else version_of(version)


async def _reply(exchange: Exchange, document: bytes, version: int, more: Headers = []) -> None:  # noqa: B006
    tag = b'"v%d"' % version
    headers = [(b"cache-control", b"private, no-cache"), *more]
    await reply_tagged(exchange, document, JSON, tag, headers)


# Patching


async def patch_state(exchange: Exchange) -> None:
    """Change a state by JSON Patch operations: all of them, or none.

    With `If-Match: "v7"` the patch applies only to version 7; otherwise it fails with 412.
    """
    thread = thread_of(exchange)
    if exchange.asks_first:
        await check_there(exchange, thread)
    try:
        raw = await exchange.whole(JSON_BODY_BYTES_MAX, PatchState)
        if not raw.strip():
            raise Invalid("empty body", 'send [{"op": "add", "path": ..., "value": ...}]')
        sent = await parsed(raw, JSON_BODY_BYTES_MAX)
    except (Refused, TooLarge):
        raise
    except Invalid as error:
        raise Invalid(f"invalid patch JSON: {error.message}", error.hint) from error
    try:
        patched = await _patched(exchange, thread, sent)
    except Invalid as error:
        raise _failed(error) from error
    reply = PatchedState(**asdict(patched), state_ref=f"v{patched.version}")
    await exchange.reply_json(reply, more=[(b"etag", b'"v%d"' % patched.version)])


async def _patched(exchange: Exchange, thread: str, sent: Any) -> Patched:
    patch = fitted({"operations": sent} if isinstance(sent, list) else sent, PatchBody)
    named = version_of(patch.expected) if isinstance(patch.expected, str) else patch.expected
    tags = _tags(exchange)
    if tags is not None and patch.merge:
        raise Invalid("If-Match and merge cannot be combined", "send one of them")
    expected, is_tagged = named, False
    if tags is not None:
        expected, is_tagged = await _matched(exchange, thread, tags, named)
    by = caller(exchange, patch.by)
    verb = PatchState(thread, patch.operations, expected, patch.merge, by)
    try:
        return await ask(exchange, verb)
    except (Conflict, NotFound) as error:
        if "version" not in error.details:
            await check_there(exchange, thread)
            raise
        raise _in_http(error, is_tagged) from error


def _failed(error: Invalid) -> Invalid:
    """Return the error of a refused patch with the seed's text, and with status 400 even for a
    missing path.
    """
    status = 400 if MISSING in error.details else error.status
    return type(error)(f"patch failed: {error.message}", error.hint, error.details, status)


def _tags(exchange: Exchange) -> set[str] | None:
    """Return the tags of the If-Match header, or None if the header is missing or `*`.

    Raises:
        Invalid: the header is not a list of tags.
    """
    asked = exchange.header("if-match").strip()
    if asked in ("", "*"):
        return None
    tags: set[str] = set()
    start = 0
    while start < len(asked) and len(tags) < QUERY_FIELDS_MAX:
        match = _TAGS.match(asked, start)
        if match is None:
            break
        tags.add(match[1])
        start = match.end()
    if start < len(asked):
        raise Invalid("If-Match is not a list of tags", 'for example If-Match: "v7"')
    return tags


async def _matched(
    exchange: Exchange, thread: str, tags: set[str], named: int | None
) -> tuple[int, bool]:
    """Return the expected version of a patch, and True if that version comes from If-Match.

    Raises:
        Unmatched: none of the tags is the current version.
    """
    versions = [int(match[1]) for tag in tags if (match := _STRONG.fullmatch(tag))]
    if len(versions) == 1 and named in (None, versions[0]):
        return versions[0], True
    now = (await check_there(exchange, thread)).version
    if now not in versions:
        raise Unmatched(
            f"thread {thread} is at version {now}, which does not match If-Match",
            "read the state again, then patch that version",
            {"version": now},
        )
    return (now, True) if named in (None, now) else (named, False)


def _in_http(error: Conflict | NotFound, is_tagged: bool) -> RelayError:
    """Return the HTTP error for a version conflict: 412 if the version came from If-Match, else
    409.
    """
    is_other_version = isinstance(error, NotFound) or "changed" in error.details
    kind = Unmatched if is_tagged and is_other_version else Conflict
    return kind(error.message, error.hint, error.details)


ENDPOINTS = [
    Endpoint(
        http="GET /threads/{thread}/state",
        handler=read_state,
        id="plainReadState",
        query=VersionQuery,
        gives=dict[str, Any],
        also={304: ()},
        headers=("if-none-match",),
    ),
    Endpoint(
        http="GET /threads/{thread}/state/header",
        handler=read_header,
        id="plainReadHeader",
        query=VersionQuery,
        gives=dict[str, Any],
        also={304: ()},
        headers=("if-none-match",),
    ),
    Endpoint(
        http="POST /threads/{thread}/state/patch",
        handler=patch_state,
        id="plainPatchState",
        takes=list[Any] | PatchBody,
        gives=PatchedState,
        headers=(*WRITES, "if-match"),
        fails=(409, 412),
    ),
]
