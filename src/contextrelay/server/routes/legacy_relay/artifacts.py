"""Artifact routes of seed 002, with JSON or forms."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from msgspec import DecodeError, ValidationError
from msgspec.json import decode

from contextrelay.client.flow import in_thread
from contextrelay.documents.values import is_object
from contextrelay.errors import Invalid, NotFound, RelayError, TooLarge
from contextrelay.limits import (
    ASKED_BYTES_MAX,
    JSON_ESCAPE_RATIO_MAX,
    LIST_ITEMS_MAX,
    METADATA_BYTES_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import is_ref
from contextrelay.server.multipart import (
    MULTIPART,
    Form,
    content_too_large,
    read_form,
)
from contextrelay.server.request import Exchange
from contextrelay.server.router import WRITES, Endpoint
from contextrelay.server.routes.legacy_relay.bodies import (
    ArtifactBody,
    ArtifactForm,
    ArtifactPage,
    ArtifactsQuery,
    LargeArtifactBody,
    RawQuery,
    ThreadArtifact,
    artifact_reply,
)
from contextrelay.server.routes.legacy_relay.parsing import (
    ask_of,
    caller,
    check_there,
    fitted,
    parsed,
    query_of,
    thread_of,
)
from contextrelay.server.routes.send_artifact import BYTES, send_artifact
from contextrelay.server.routes.v1 import ask
from contextrelay.verbs import ListThreadArtifacts, Peek, Pull, Push


class NotAcceptable(RelayError):
    """No representation matches the Accept header."""

    code, status = "not_acceptable", 406


# Writing


async def put_artifact(exchange: Exchange) -> None:
    """Store content in a thread: as JSON, or as a form with the content in the part `file`."""
    thread = thread_of(exchange)
    await check_there(exchange, thread)
    bytes_max = exchange.door.relay.stores.settings.body_bytes_max
    if exchange.media_type() == MULTIPART:
        form = await read_form(exchange, bytes_max)
        try:
            verb = _from_form(form, thread, exchange)
            artifact = await ask_of(exchange, thread, verb, form.content.body())
        finally:
            form.close()
    else:
        sent = await _sent(exchange, bytes_max)
        content = _content(sent)
        if len(content) > bytes_max:
            raise content_too_large(bytes_max)
        verb = _from_json(sent, thread, exchange)
        artifact = await ask_of(exchange, thread, verb, content)
    place = f"/threads/{thread}/artifacts/{artifact.ref}".encode()
    await exchange.reply_json(artifact_reply(artifact), 201, [(b"location", place)])


async def _sent(exchange: Exchange, bytes_max: int) -> ArtifactBody:
    """Decode a JSON body. If the body is large, decode only its content here, not its metadata."""
    json_bytes_max = JSON_ESCAPE_RATIO_MAX * bytes_max + METADATA_BYTES_MAX
    try:
        upload = await exchange.upload(json_bytes_max, Push)
    except TooLarge as error:
        raise content_too_large(bytes_max) from error
    try:
        if upload.size_bytes <= ASKED_BYTES_MAX:
            sent = await _json(upload.whole(), json_bytes_max)
            if not is_object(sent) or not upload.size_bytes:
                raise Invalid("invalid request body", "send a JSON object: {name, type, content}")
            return fitted(sent, ArtifactBody)
        async with exchange.door.large_json:
            return await in_thread(lambda: _large(upload.whole()))
    finally:
        upload.close()


async def _json(raw: bytes, bytes_max: int) -> Any:
    try:
        return await parsed(raw, bytes_max)
    except Invalid as error:
        raise Invalid("invalid request body", f"{error.message}; {error.hint}") from error


def _large(raw: bytes) -> ArtifactBody:
    try:
        sent = decode(raw, type=LargeArtifactBody)
        if len(sent.metadata) > JSON_ESCAPE_RATIO_MAX * METADATA_BYTES_MAX:
            raise TooLarge(
                f"metadata too long: the limit is {METADATA_BYTES_MAX:,} bytes", "send less"
            )
        metadata = decode(sent.metadata, type=dict[str, Any])
    except ValidationError as error:
        raise Invalid(f"invalid body: {error}", "see /docs") from None
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("invalid request body", f"send a JSON object in UTF-8: {error}") from None
    fields = ArtifactBody.__struct_fields__
    others = {name: getattr(sent, name) for name in fields if name != "metadata"}
    return ArtifactBody(**others, metadata=metadata)


def _from_form(form: Form, thread: str, exchange: Exchange) -> Push:
    """Return the push that a form describes. Form fields override the headers of the content
    part.
    """
    fields = fitted(form.fields, ArtifactForm)
    return Push(
        name=fields.name or form.file_name,
        type=fields.type or "binary",
        media_type=fields.mime or form.media_type or BYTES,
        created_by=caller(exchange, fields.created_by),
        capability=fields.capability or None,
        thread=thread,
    )


def _from_json(sent: ArtifactBody, thread: str, exchange: Exchange) -> Push:
    """Return the push that a JSON body describes. If the body has no type, base64 content is
    inspected.
    """
    is_text = sent.encoding == "utf-8"
    return Push(
        name=sent.name or None,
        type=sent.type or ("text" if is_text else None),
        media_type=sent.mime or ("text/plain" if is_text else None),
        metadata=sent.metadata,
        created_by=caller(exchange, sent.created_by),
        capability=sent.capability or None,
        source_refs=sent.source_refs,
        thread=thread,
    )


def _content(sent: ArtifactBody) -> bytes:
    if sent.encoding == "utf-8":
        return sent.content.encode()
    try:
        return b64decode(sent.content, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(
            "content is not valid base64", "encode it as in RFC 4648, with padding"
        ) from None


# Reading


async def list_artifacts(exchange: Exchange) -> None:
    """List the artifacts of a thread, newest first, with the number of further ones."""
    thread = thread_of(exchange)
    verb = ListThreadArtifacts(thread, query_of(exchange, ArtifactsQuery).limit)
    artifacts = await ask_of(exchange, thread, verb)
    left_out = max(0, (await check_there(exchange, thread)).artifacts - len(artifacts))
    await exchange.reply_json(ArtifactPage([artifact_reply(each) for each in artifacts], left_out))


async def get_artifact(exchange: Exchange) -> None:
    """Return the description of an artifact; with `?raw=1` its bytes."""
    query = query_of(exchange, RawQuery)
    artifact = await _artifact(exchange)
    if query.raw == "1":
        await send_artifact(exchange, Pull(artifact.ref))
    else:
        await exchange.reply_json(artifact_reply(artifact))


async def get_content(exchange: Exchange) -> None:
    """Return the bytes of an artifact, for clients that accept `application/octet-stream`."""
    if not exchange.accepts(BYTES):
        raise NotAcceptable(f"raw content requires Accept: {BYTES}", "send that header")
    artifact = await _artifact(exchange)
    await send_artifact(exchange, Pull(artifact.ref))


async def _artifact(exchange: Exchange) -> Artifact:
    """Return the artifact of a path, if the thread of the path holds it.

    Raises:
        NotFound: the thread does not hold the artifact.
        Gone: the artifact was deleted or has expired.
    """
    thread = thread_of(exchange) if "thread" in exchange.values else None
    if thread is not None:
        await check_there(exchange, thread)
    if not is_ref(exchange.values["ref"]):
        raise _unknown_artifact()
    try:
        artifact: Artifact = await ask(exchange, Peek(exchange.values["ref"]))
    except NotFound as error:
        raise _unknown_artifact() from error
    if thread not in (None, artifact.thread) and not await _holds(exchange, thread, artifact.ref):
        raise _unknown_artifact()
    return artifact


async def _holds(exchange: Exchange, thread: str | None, ref: str) -> bool:
    """Return True if an artifact that was stored elsewhere is among the newest artifacts of a
    thread.
    """
    assert thread is not None
    held = await exchange.relay.ask(ListThreadArtifacts(thread, LIST_ITEMS_MAX))
    return any(each.ref == ref for each in held)


def _unknown_artifact() -> NotFound:
    return NotFound("artifact not found", "list them with GET /threads/{id}/artifacts")


_BYTES_REPLIES = {206: ("*/*",), 304: ()}

ENDPOINTS = [
    Endpoint(
        http="POST /threads/{thread}/artifacts",
        handler=put_artifact,
        takes=ArtifactBody,
        form=ArtifactForm,
        gives=ThreadArtifact,
        status=201,
        headers=WRITES,
        fails=(402, 409),
    ),
    Endpoint(
        http="GET /threads/{thread}/artifacts",
        handler=list_artifacts,
        query=ArtifactsQuery,
        gives=ArtifactPage,
    ),
    *(
        endpoint
        for before, name in (("", ""), ("/threads/{thread}", "InThread"))
        for endpoint in (
            Endpoint(
                http=f"GET {before}/artifacts/{{ref}}",
                handler=get_artifact,
                id=f"getArtifact{name}",
                query=RawQuery,
                gives=ThreadArtifact,
                also={200: ("*/*",), **_BYTES_REPLIES},
                headers=("range", "if-none-match"),
                fails=(416,),
            ),
            Endpoint(
                http=f"GET {before}/artifacts/{{ref}}/content",
                handler=get_content,
                id=f"getContent{name}",
                also={200: ("*/*",), **_BYTES_REPLIES},
                headers=("range", "if-none-match"),
                fails=(406, 416),
            ),
        )
    ),
]
