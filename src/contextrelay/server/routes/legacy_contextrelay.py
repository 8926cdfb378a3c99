"""Seed 000's routes: push, pull and peek, exactly as existing clients expect them.

Errors are plain text. They have the texts of the seed, where the seed defines a text.
"""

from __future__ import annotations

import json
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from msgspec import UNSET, DecodeError, Meta, Raw, Struct, UnsetType, ValidationError, convert
from msgspec.json import Decoder, decode

from contextrelay import verbs
from contextrelay.client.flow import in_thread
from contextrelay.content.artifact_type import is_media_type
from contextrelay.errors import Gone, Invalid, NotFound, TooLarge
from contextrelay.limits import (
    CHANNEL_CHARS_MAX,
    HEAD_BYTES_MAX,
    INLINE_BODY_BYTES_MAX,
    JSON_ESCAPE_RATIO_MAX,
    METADATA_BYTES_MAX,
    NAME_CHARS_COMPARED,
    NAME_CHARS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType, Preview
from contextrelay.model.ref import REF_PATTERN, is_ref
from contextrelay.seal.stream import is_k1
from contextrelay.server.request import Exchange
from contextrelay.server.request_body import Upload
from contextrelay.server.router import RELAY, WRITES, Endpoint
from contextrelay.server.routes.send_artifact import ENVELOPE_FORM, send_artifact
from contextrelay.server.routes.v1 import ask, count
from contextrelay.verbs import Peek, Pull, Push

# Maximum number of unknown fields of a JSON push that are checked for misspellings.
PUSH_NAMES_MAX = 10
PUSH_NAMES_BYTES_MAX = 65_536


NOT_FOUND = "Context not found or expired"
# Content types that say nothing about the content, because they are the defaults of HTTP tools.
SAY_NOTHING = ("", "application/octet-stream", "application/x-www-form-urlencoded")


# Push


def _or_null(schema: dict[str, Any]) -> Meta:
    return Meta(extra_json_schema={"anyOf": [schema, {"type": "null"}]})


_NULL = Raw(b"null")
_Text = Annotated[Raw, Meta(description="A string; anything else is ignored.")]
_Object = Annotated[Raw, Meta(description="An object; anything else is ignored.")]
_Ttl = Annotated[Raw, _or_null({"type": "integer", "minimum": 1, "maximum": TTL_S_MAX})]
_Thread = Annotated[Raw, _or_null({"type": "string", "pattern": REF_PATTERN})]
_Name = Annotated[Raw, Meta(description="A file name, for example report.md.")]
_Type = Annotated[Raw, Meta(description=f"One of {', '.join(get_args(ArtifactType))}.")]


class PushBody(Struct):
    """The fields of a JSON push, not decoded yet. Only fields of the right type that are small are
    decoded.
    """

    data: Annotated[Raw, Meta(extra_json_schema={"type": "string", "minLength": 1})]
    channel: _Text | UnsetType = UNSET
    metadata: _Object | UnsetType = UNSET
    ttl: _Ttl | UnsetType = UNSET
    thread: _Thread | UnsetType = UNSET
    name: _Name | UnsetType = UNSET
    type: _Type | UnsetType = UNSET


class Pushed(Struct):
    url: str
    id: str
    channel: str | None
    warnings: list[str] | UnsetType = UNSET


_sent = Decoder(PushBody)
_names = Decoder(dict[str, Raw])


class _Asked(NamedTuple):
    verb: Push
    body: bytes
    warnings: list[str]


async def push(exchange: Exchange) -> None:
    """Store content and return its URL.

    The body is JSON with content and metadata, or the bare content.
    """
    door = exchange.door
    body_bytes_max = door.relay.stores.settings.body_bytes_max
    is_json = exchange.media_type() == "application/json"
    bytes_max = body_bytes_max
    if is_json:
        bytes_max = JSON_ESCAPE_RATIO_MAX * body_bytes_max + METADATA_BYTES_MAX
    verb = _bare(exchange)
    if not is_json:
        exchange.visitor.check(verb)
    warnings: list[str] = []
    upload = await exchange.upload(bytes_max, Push, is_bare=not is_json)
    try:
        if not upload.size_bytes:
            raise Invalid("Missing body")
        if is_json:
            (verb, _, warnings), artifact = await _push_json(exchange, upload)
        else:
            artifact = await door.pushing.push(exchange.relay, verb, upload.body(), exchange.key())
    finally:
        upload.close()
    count(door.metrics, verb)
    url = f"{exchange.origin}/pull/{artifact.ref}"
    headers = [(b"x-relay-warning", "; ".join(warnings).encode())] if warnings else []
    pushed = Pushed(url, artifact.ref, artifact.channel, warnings or UNSET)
    await exchange.reply_json(pushed, more=headers)


def _bare(exchange: Exchange) -> Push:
    media_type = exchange.media_type()
    is_known = media_type not in SAY_NOTHING and is_media_type(media_type)
    return Push(media_type=media_type if is_known else None)


async def _push_json(exchange: Exchange, upload: Upload) -> tuple[_Asked, Artifact]:
    if upload.size_bytes <= INLINE_BODY_BYTES_MAX:
        asked = _from_json(upload.whole())
        relay, key = exchange.relay, exchange.key()
        return asked, await exchange.door.pushing.push(relay, asked.verb, asked.body, key)
    # JSON is held in memory as a whole. The total size of such bodies at the same time is limited.
    async with exchange.door.large_json:
        asked = await in_thread(lambda: _from_json(upload.whole()))
        relay, key = exchange.relay, exchange.key()
        return asked, await exchange.door.pushing.push(relay, asked.verb, asked.body, key)


def _from_json(raw: bytes) -> _Asked:
    """Decode a JSON push by the rules of the seed: metadata and channels of wrong types are
    ignored.
    """
    try:
        sent = _sent.decode(raw)
    except ValidationError:
        raise Invalid('JSON body must include "data" as a string') from None
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("Invalid JSON body") from None
    if _first(sent.data) != b'"' or len(sent.data) <= len('""'):
        raise Invalid('JSON body must include "data" as a string')
    body = _read(sent.data).encode()
    warnings: list[str] = []
    verb = Push(
        metadata=_metadata(sent.metadata or _NULL),
        channel=_text(sent.channel or _NULL),
        ttl_s=_ttl_s(sent.ttl),
        thread=_thread(sent.thread or _NULL),
        name=_description("name", sent.name, _name, _NAME_NEEDS, warnings),
        type=_description("type", sent.type, _type, _TYPE_NEEDS, warnings),
        # Clients of the seed encrypt content, but have no field to say so.
        sealed="k1" if is_k1(body[:HEAD_BYTES_MAX], len(body)) else None,
    )
    return _Asked(verb, body, [*warnings, *_misspelled(raw, sent)])


def _misspelled(raw: bytes, sent: PushBody) -> list[str]:
    """Return a warning for each unknown field that looks like a misspelling of a missing known
    field.

    The seed ignores unknown fields, so a signal to a misspelled channel would be lost silently.
    """
    known = {name: getattr(sent, name) for name in sent.__struct_fields__}
    given_bytes = sum(len(value) for value in known.values() if value is not UNSET)
    if len(raw) - given_bytes > PUSH_NAMES_BYTES_MAX:
        # Each name becomes an object in memory. No legitimate client sends so many names.
        return []
    fields = _names.decode(raw)
    missing = [name for name in known if name not in fields]
    unknown = [name[:NAME_CHARS_COMPARED] for name in fields if name not in known]
    close = ((name, _close_to(name.lower(), missing)) for name in unknown[:PUSH_NAMES_MAX])
    return [
        f'unknown field {json.dumps(name)}: did you mean "{meant}"?'
        for name, meant in close
        if meant
    ]


def _close_to(name: str, fields: list[str]) -> str | None:
    """Return the known field that begins like a name or is spelled similarly, or None."""
    for field in fields:
        if name.startswith(field) or (len(name) > 3 and field.startswith(name)):
            return field
    return next(iter(get_close_matches(name, fields, 1, 0.75)), None)


def _first(raw: Raw) -> bytes:
    """Return the first character of a value, which identifies its type."""
    return bytes(memoryview(raw)[:1])


def _read(raw: Raw) -> Any:
    """Return the decoded value of a JSON field of the body."""
    try:
        return decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("Invalid JSON body") from None


def _metadata(raw: Raw) -> dict[str, Any]:
    if _first(raw) != b"{":
        return {}
    if len(raw) > JSON_ESCAPE_RATIO_MAX * METADATA_BYTES_MAX:
        raise TooLarge(f"metadata too long: the limit is {METADATA_BYTES_MAX:,} bytes")
    return _read(raw)


def _text(raw: Raw) -> str | None:
    if _first(raw) != b'"':
        return None
    if len(raw) > JSON_ESCAPE_RATIO_MAX * CHANNEL_CHARS_MAX + len('""'):
        raise Invalid(f"channel too long: the limit is {CHANNEL_CHARS_MAX} characters")
    return _read(raw) or None


def _ttl_s(raw: Raw | UnsetType) -> Any:
    if raw is UNSET:
        return UNSET
    ttl: Any = _read(raw) if len(raw) <= _SMALL_BYTES_MAX else ""
    try:
        return verbs.from_json(ttl, verbs.TtlS | None)
    except ValidationError:
        raise Invalid(f"ttl must be null or an integer from 1 to {TTL_S_MAX}") from None


def _thread(raw: Raw) -> str | None:
    thread: Any = _read(raw) if len(raw) <= _SMALL_BYTES_MAX else ""
    if thread is not None and not (isinstance(thread, str) and is_ref(thread)):
        raise Invalid("thread must be a thread's id")
    return thread


_Described = TypeVar("_Described", str, ArtifactType)
# Decoders are created only once, because looking up a type takes longer than decoding a name.
_name = Decoder[str | None](verbs.Name | None)
_type = Decoder[ArtifactType | None](ArtifactType | None)
_NAME_NEEDS = f"1 to {NAME_CHARS_MAX} characters"
_TYPE_NEEDS = f"one of {', '.join(get_args(ArtifactType))}"


def _description(
    field: str,
    raw: Raw | UnsetType,
    decoder: Decoder[_Described | None],
    needs: str,
    warnings: list[str],
) -> _Described | None:
    """Decode a name or a type, which are not fields of the seed. An invalid value is ignored with a
    warning.
    """
    if raw is UNSET:
        return None
    try:
        if len(raw) <= JSON_ESCAPE_RATIO_MAX * NAME_CHARS_MAX + len('""'):
            return decoder.decode(raw)
    except ValidationError:
        pass
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("Invalid JSON body") from None
    warnings.append(f'ignored "{field}": expected {needs}')
    return None


# Decoders of a TTL and of a thread id, with room for any way to write the value in JSON.
_SMALL_BYTES_MAX = 300


# Pull and peek


class PullQuery(Struct):
    raw: Annotated[str, Meta(description="1: return the bare bytes.")] = ""
    full: Annotated[str, Meta(description="1: if the artifact is gone, say when and why.")] = ""


async def pull(exchange: Exchange) -> None:
    """Return content.

    Text is returned as `{data, metadata}`; other content, and everything with raw=1, as bare bytes.
    """
    query = convert(exchange.query(), PullQuery)
    verb = Pull(_ref(exchange))
    try:
        offers = () if query.raw == "1" else (ENVELOPE_FORM,)
        await send_artifact(exchange, verb, *offers)
    except (NotFound, Gone) as error:
        await _refuse_gone(exchange, query.full == "1", error)


class PeekQuery(Struct):
    full: Annotated[str, Meta(description="1: return all fields.")] = ""


async def peek(exchange: Exchange) -> None:
    """Describe content without loading it: its metadata, or with full=1 all fields."""
    is_full = convert(exchange.query(), PeekQuery).full == "1"
    try:
        asked = Peek(_ref(exchange), is_full=is_full, shown_chars=None if is_full else 0)
        artifact = await ask(exchange, asked, key="")
    except (NotFound, Gone) as error:
        await _refuse_gone(exchange, is_full, error)
        return
    await exchange.reply_json(described(artifact) if is_full else artifact.metadata)


class Described(Struct):
    """The response to `?full=1`."""

    metadata: dict[str, Any]
    size: int
    tokens: int | UnsetType | None
    token_basis: str | UnsetType
    media_type: str
    sha256: str
    created_at: datetime
    expires_at: datetime | None
    preview: Preview
    outline: str | UnsetType | None


def described(artifact: Artifact) -> Described:
    return Described(
        artifact.metadata,
        artifact.size_bytes,
        artifact.tokens,
        artifact.token_basis,
        artifact.media_type,
        artifact.sha256,
        artifact.created_at,
        artifact.expires_at,
        artifact.preview,
        artifact.outline,
    )


def _ref(exchange: Exchange) -> str:
    if not is_ref(exchange.values["ref"]):
        raise NotFound(NOT_FOUND)
    return exchange.values["ref"]


async def _refuse_gone(exchange: Exchange, is_full: bool, error: NotFound | Gone) -> None:
    """Send a 404 response with the seed's text. With `?full=1`, the response says when and why the
    artifact was removed.
    """
    if is_full and isinstance(error, Gone):
        await exchange.reply_json({**error.details, "error": error.message}, error.status)
        return
    raise NotFound(NOT_FOUND) from error


ENDPOINTS = [
    Endpoint(
        http="POST /push",
        handler=push,
        id="relayPush",
        tag=RELAY,
        takes=PushBody,
        takes_bytes=True,
        gives=Pushed,
        headers=WRITES,
        fails=(402, 404, 409, 410),
    ),
    Endpoint(
        http="GET /pull/{ref}",
        handler=pull,
        id="relayPull",
        tag=RELAY,
        query=PullQuery,
        also={200: ("text/plain", "*/*"), 206: ("*/*",), 304: ()},
        headers=("range", "if-none-match"),
        fails=(416,),
    ),
    Endpoint(
        http="GET /peek/{ref}",
        handler=peek,
        id="relayPeek",
        tag=RELAY,
        query=PeekQuery,
        gives=(Described, dict[str, Any]),
    ),
]
