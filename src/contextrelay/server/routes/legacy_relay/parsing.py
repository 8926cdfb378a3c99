"""Parsing: what a request to seed 002's routes says, read strictly and once.

Rule: JSON that two readers could understand differently is refused, and so are unknown fields; a
thread that is not there, or cannot be, is `thread not found` everywhere.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert

from contextrelay.client.flow import in_thread
from contextrelay.documents.values import read_json
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import ASKED_BYTES_MAX
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import ThreadView
from contextrelay.server.request import Exchange
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import Body, ShowThread, Verb, complaint, from_json
from contextrelay.verbs.routes import FROM_HEADER

Kind = TypeVar("Kind", bound=Struct)
Reply = TypeVar("Reply")

# A body up to this size is parsed on the event loop: a thread costs more than it.
_PARSED_AT_ONCE_BYTES = 16 * 1024
_VERSION = re.compile(r"v?([1-9][0-9]{0,11})")


async def json_of(exchange: Exchange, verb: type[Verb[Any]], bytes_max: int) -> Any:
    """The JSON value of a request's body, for a verb; an empty object where there is no body.

    Raises:
        Refused: the caller may not ask the verb.
        Invalid: it is no JSON, or not one that all readers understand alike.
        TooLarge: it is longer than that.
    """
    return await parsed(await exchange.whole(bytes_max, verb), bytes_max)


async def parsed(raw: bytes, bytes_max: int) -> Any:
    """The JSON value of a body, read strictly."""
    if len(raw) <= _PARSED_AT_ONCE_BYTES:
        return read_json(raw, "the body", bytes_max) if raw.strip() else {}
    return await in_thread(lambda: read_json(raw, "the body", bytes_max))


async def fields_of(exchange: Exchange, kind: type[Kind], verb: type[Verb[Any]]) -> Kind:
    """The JSON object of a request's body, for a verb; an empty one where there is no body."""
    return fitted(await json_of(exchange, verb, ASKED_BYTES_MAX), kind)


def query_of(exchange: Exchange, kind: type[Kind]) -> Kind:
    """The fields of a request's query."""
    return fitted(exchange.query(), kind, "the query", strict=False)


def fitted(value: Any, kind: type[Kind], what: str = "the body", strict: bool = True) -> Kind:
    """A value as the type that it has to be of.

    Raises:
        Invalid: it is something else.
    """
    try:
        return from_json(value, kind) if strict else convert(value, kind, strict=False)
    except ValidationError as error:
        takes = ", ".join(kind.__struct_encode_fields__)
        raise Invalid(complaint(kind, error, what), f"{what} may have: {takes}") from None


def thread_of(exchange: Exchange) -> str:
    """The thread that a path names.

    Raises:
        NotFound: it cannot be the id of one.
    """
    return checked_thread(exchange.values["thread"])


def checked_thread(text: str) -> str:
    if not is_ref(text):
        raise _unknown_thread()
    return text


def version_of(text: str) -> int:
    """A version as people and refs write it: 7, or v7.

    Raises:
        Invalid: it is neither.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Invalid(f"{text[:40]!r} is no version", "write it like 7 or v7")
    return int(match[1])


def caller(exchange: Exchange, by: str | None = None) -> str:
    """The name that a caller gives, else that of the seed."""
    return by or exchange.header(FROM_HEADER) or "api"


async def ask_of(
    exchange: Exchange,
    thread: str,
    verb: Verb[Reply],
    body: Body = b"",
    key: str | None = None,
) -> Reply:
    """Ask something about a thread.

    Raises:
        NotFound: there is no such thread, in the seed's words; or something else is not there.
    """
    try:
        return await ask(exchange, verb, body, key)
    except NotFound:
        await check_there(exchange, thread)
        raise


async def check_there(exchange: Exchange, thread: str) -> ThreadView:
    """Refuse an unknown thread before more is done.

    Raises:
        NotFound: in the seed's words; Gone: it was removed.
    """
    try:
        return await exchange.relay.ask(ShowThread(thread))
    except NotFound as error:
        raise _unknown_thread() from error


def _unknown_thread() -> NotFound:
    return NotFound("thread not found", "see what there is with GET /threads")
