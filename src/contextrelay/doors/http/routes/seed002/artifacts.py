"""Artifacts over HTTP, as seed 002's clients put and get them, as JSON or in forms."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import DecodeError, Meta, Raw, Struct, ValidationError, to_builtins
from msgspec.json import decode

from contextrelay.client.transport.local import in_thread
from contextrelay.doors.http.routes.seed002.parsing import (
    ask_of,
    caller,
    check_there,
    fitted,
    parsed,
    thread_of,
)
from contextrelay.doors.http.routes.send_artifact import send_artifact
from contextrelay.doors.http.routes.v1 import ask
from contextrelay.doors.http.server.multipart import MULTIPART, Form, read_form
from contextrelay.doors.http.server.request import Exchange
from contextrelay.errors import Invalid, NotFound, RelayError, TooLarge
from contextrelay.limits import (
    ASKED_BYTES_MAX,
    JSON_ESCAPE_RATIO_MAX,
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    METADATA_BYTES_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.ref import Ref, is_ref
from contextrelay.wire.routes import read, route_of
from contextrelay.wire.verbs import Label, ListThreadArtifacts, Name, Peek, Pull, Push

if TYPE_CHECKING:
    from contextrelay.doors.http.app import Door
    from contextrelay.doors.http.server.router import Paths

BYTES = "application/octet-stream"


class NotAcceptable(RelayError):
    """The client does not accept what there is."""

    code, status = "not_acceptable", 406


def add_to(paths: Paths) -> None:
    paths.add("POST", "/threads/{thread}/artifacts", put_artifact)
    paths.add("GET", "/threads/{thread}/artifacts", list_artifacts)
    for before in ("", "/threads/{thread}"):
        paths.add("GET", before + "/artifacts/{ref}", get_artifact)
        paths.add("GET", before + "/artifacts/{ref}/content", get_content)


# Putting


class _Fields(Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be said of content, in a form or beside it in JSON."""

    name: Name | None = None
    type: ArtifactType | None = None
    mime: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    created_by: Label | None = None
    capability: Label | None = None


class _Sent(_Fields, forbid_unknown_fields=True, kw_only=True):
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    metadata: dict[str, Any] = {}
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()


class _Large(_Sent, forbid_unknown_fields=True, kw_only=True):
    """The same, with metadata that is looked at only once its size is known."""

    metadata: Raw = Raw(b"{}")  # pyright: ignore[reportIncompatibleVariableOverride]


async def put_artifact(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """Store content and put it into a thread."""
    thread = thread_of(values)
    await check_there(exchange, thread)
    if exchange.media_type() == MULTIPART:
        form = await read_form(exchange, door.relay.stores.settings.body_bytes_max)
        try:
            verb = _from_form(form, thread, exchange)
            artifact = await ask_of(door, exchange, thread, verb, form.content.body())
        finally:
            form.close()
    else:
        bytes_max = JSON_ESCAPE_RATIO_MAX * door.relay.stores.settings.body_bytes_max
        sent = await _sent(door, exchange, bytes_max + METADATA_BYTES_MAX)
        verb = _push(sent, thread, exchange, sent.metadata, sent.source_refs)
        artifact = await ask_of(door, exchange, thread, verb, _content(sent))
    place = f"/threads/{thread}/artifacts/{artifact.ref}".encode()
    await exchange.reply_json(told(artifact), 201, [(b"location", place)])


async def _sent(door: Door, exchange: Exchange, bytes_max: int) -> _Sent:
    """What a JSON body says; of a large one nothing is made but the content."""
    upload = await exchange.upload(bytes_max, Push)
    try:
        if upload.size_bytes <= ASKED_BYTES_MAX:
            return fitted(await parsed(upload.whole(), bytes_max), _Sent)
        async with door.large_json:
            return await in_thread(lambda: _large(upload.whole()))
    finally:
        upload.close()


def _large(raw: bytes) -> _Sent:
    try:
        sent = decode(raw, type=_Large)
        if len(sent.metadata) > JSON_ESCAPE_RATIO_MAX * METADATA_BYTES_MAX:
            raise TooLarge(f"the metadata is longer than {METADATA_BYTES_MAX:,} bytes", "send less")
        metadata = decode(sent.metadata, type=dict[str, Any])
    except ValidationError as error:
        raise Invalid(f"the body is not what it has to be: {error}", "see /docs") from None
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the body is no JSON: {error}", "send a JSON object in UTF-8") from None
    others = {name: getattr(sent, name) for name in _Sent.__struct_fields__ if name != "metadata"}
    return _Sent(**others, metadata=metadata)


def _from_form(form: Form, thread: str, exchange: Exchange) -> Push:
    """What a form asks for; its fields go before what the part with the content says."""
    fields = {name: value for name, value in form.fields.items() if value}
    if form.file_name is not None:
        fields.setdefault("name", form.file_name)
    if form.media_type not in (None, BYTES):
        fields.setdefault("mime", form.media_type)
    return _push(fitted(fields, _Fields), thread, exchange)


def _push(
    fields: _Fields,
    thread: str,
    exchange: Exchange,
    metadata: dict[str, Any] | None = None,
    source_refs: tuple[str, ...] = (),
) -> Push:
    return Push(
        name=fields.name,
        type=fields.type,
        media_type=fields.mime or None,
        metadata=metadata or {},
        created_by=caller(exchange, fields.created_by),
        capability=fields.capability,
        source_refs=source_refs,
        thread=thread,
    )


def _content(sent: _Sent) -> bytes:
    if sent.encoding == "utf-8":
        return sent.content.encode()
    try:
        return b64decode(sent.content, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("content is no base64", "encode it by RFC 4648, with padding") from None


def told(artifact: Artifact) -> dict[str, Any]:
    """An artifact as it is, under the seed's names as well."""
    return {
        **to_builtins(artifact),
        "artifact_ref": artifact.ref,
        "mime": artifact.media_type,
        "hash": artifact.sha256,
        "thread_id": artifact.thread,
    }


# Getting


async def list_artifacts(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """The artifacts of a thread, newest first; how many more there are is told."""
    thread = thread_of(values)
    verb = read(route_of(ListThreadArtifacts), {"thread": thread}, exchange.query(), None)
    artifacts: list[Artifact] = await ask_of(door, exchange, thread, verb)
    left_out = max(0, (await check_there(exchange, thread)).artifacts - len(artifacts))
    await exchange.reply_json(
        {"artifacts": [told(each) for each in artifacts], "left_out": left_out}
    )


async def get_artifact(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """What describes an artifact; with `?raw=1` its bytes."""
    query = exchange.query()
    if query.keys() - {"raw"} or query.get("raw", "1") not in ("0", "1"):
        raise Invalid("the query cannot be used here", "it takes raw=1")
    artifact = await _artifact(door, exchange, values)
    if query.get("raw") == "1":
        await send_artifact(door, exchange, Pull(artifact.ref))
    else:
        await exchange.reply_json(told(artifact))


async def get_content(door: Door, exchange: Exchange, values: dict[str, str]) -> None:
    """The bytes of an artifact, for those who ask for bytes."""
    if not exchange.accepts(BYTES):
        raise NotAcceptable("this is bytes only", f"send Accept: {BYTES}")
    artifact = await _artifact(door, exchange, values)
    await send_artifact(door, exchange, Pull(artifact.ref))


async def _artifact(door: Door, exchange: Exchange, values: dict[str, str]) -> Artifact:
    """The artifact that a path names, if it is in the thread that the path names.

    Raises:
        NotFound: it is not; Gone: it was there.
    """
    thread = thread_of(values) if "thread" in values else None
    if thread is not None:
        await check_there(exchange, thread)
    if not is_ref(values["ref"]):
        raise _unknown_artifact()
    try:
        artifact: Artifact = await ask(door, exchange, Peek(values["ref"]))
    except NotFound as error:
        raise _unknown_artifact() from error
    if thread not in (None, artifact.thread) and not await _holds(exchange, thread, artifact.ref):
        raise _unknown_artifact()
    return artifact


async def _holds(exchange: Exchange, thread: str | None, ref: str) -> bool:
    """Whether a thread refers to an artifact that was put elsewhere: among its newest."""
    assert thread is not None
    held = await exchange.relay.ask(ListThreadArtifacts(thread, LIST_ITEMS_MAX))
    return any(each.ref == ref for each in held)


def _unknown_artifact() -> NotFound:
    return NotFound("artifact not found", "see what there is with GET /threads/{id}/artifacts")
