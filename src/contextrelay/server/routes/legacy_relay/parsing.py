"""Parsing of requests to seed 002's routes.

Rule: ambiguous JSON and unknown fields are refused. A thread that does not exist, or whose id is
invalid, is reported as `thread not found` everywhere.
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
from contextrelay.server.routes.legacy_relay.bodies import DEFAULT_AUTHOR
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import Body, ShowThread, Verb, field_error, from_json

Kind = TypeVar("Kind", bound=Struct)
Reply = TypeVar("Reply")

# A body of at most this size is parsed on the event loop, because a thread would cost more.
_PARSED_AT_ONCE_BYTES = 16 * 1024
_VERSION = re.compile(r"v?([1-9][0-9]{0,11})")


async def json_of(exchange: Exchange, verb: type[Verb[Any]], bytes_max: int) -> Any:
    """Return the JSON value of a request body, for a verb, or an empty object if there is no body.

    Raises:
        Refused: the caller may not use the verb.
        Invalid: the body is not valid JSON, or is ambiguous.
        TooLarge: the body is longer than `bytes_max`.
    """
    return await parsed(await exchange.whole(bytes_max, verb), bytes_max)


async def parsed(raw: bytes, bytes_max: int) -> Any:
    """Parse a body as JSON and return its value. Ambiguous JSON is refused."""
    if len(raw) <= _PARSED_AT_ONCE_BYTES:
        return read_json(raw, "the body", bytes_max) if raw.strip() else {}
    return await in_thread(lambda: read_json(raw, "the body", bytes_max))


async def fields_of(exchange: Exchange, kind: type[Kind], verb: type[Verb[Any]]) -> Kind:
    """Return the JSON object of a request body, converted to a type, for a verb. A missing body
    counts as {}.
    """
    return fitted(await json_of(exchange, verb, ASKED_BYTES_MAX), kind)


def query_of(exchange: Exchange, kind: type[Kind]) -> Kind:
    """Return the fields of a request's query, converted to a type."""
    return fitted(exchange.query(), kind, "the query", strict=False)


def fitted(value: Any, kind: type[Kind], what: str = "the body", strict: bool = True) -> Kind:
    """Return a JSON value converted to a type.

    Raises:
        Invalid: the value does not match the type.
    """
    try:
        return from_json(value, kind) if strict else convert(value, kind, strict=False)
    except ValidationError as error:
        takes = ", ".join(kind.__struct_encode_fields__)
        raise Invalid(field_error(kind, error, what), f"fields of {what}: {takes}") from None


def thread_of(exchange: Exchange) -> str:
    """Return the thread id in the path of a request.

    Raises:
        NotFound: the id is not valid.
    """
    return checked_thread(exchange.values["thread"])


def checked_thread(text: str) -> str:
    if not is_ref(text):
        raise _unknown_thread()
    return text


def version_of(text: str) -> int:
    """Parse a version, written 7 or v7, and return the number.

    Raises:
        Invalid: the text has another form.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Invalid(f"invalid version {text[:40]!r}", "use a number, for example 7 or v7")
    return int(match[1])


def caller(exchange: Exchange, by: str | None = None) -> str:
    """Return the name that the caller gave, or the default name of this API."""
    return by or exchange.relay.stores.agent or DEFAULT_AUTHOR


async def ask_of(
    exchange: Exchange,
    thread: str,
    verb: Verb[Reply],
    body: Body = b"",
    key: str | None = None,
) -> Reply:
    """Run a verb on a thread and return its reply.

    Raises:
        NotFound: the thread does not exist (with the seed's text), or something else does not
        exist.
    """
    try:
        return await ask(exchange, verb, body, key)
    except NotFound:
        await check_there(exchange, thread)
        raise


async def check_there(exchange: Exchange, thread: str) -> ThreadView:
    """Return a thread if it exists, so that an unknown thread is refused before anything else is
    done.

    Raises:
        NotFound: the thread does not exist (with the seed's text).
        Gone: the thread was deleted.
    """
    try:
        return await exchange.relay.ask(ShowThread(thread))
    except NotFound as error:
        raise _unknown_thread() from error


def _unknown_thread() -> NotFound:
    return NotFound("thread not found", "list them with GET /threads")
