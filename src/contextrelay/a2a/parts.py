"""Parts of messages: a received part is stored once, a sent part is a ref or plain content.

Rule: refs are created here and never taken from a message. A ref in a message is treated as text.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import UNSET, DecodeError, Struct, UnsetType, to_builtins
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.a2a.record import (
    KeptArtifact,
    KeptMessage,
    KeptPart,
    TaskRecord,
    TaskStatus,
    Update,
    joined,
    part_fields,
    plain,
)
from contextrelay.a2a.schema import (
    REFS_EXTENSION,
    AgentMessage,
    Part,
    ProtocolError,
    body_path,
    describe,
    filled,
    stored_as,
)
from contextrelay.bounded.fetch import PORTS
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.thread import AsyncThread
from contextrelay.errors import Gone, NotFound
from contextrelay.limits import A2A_PART_BYTES_KEPT, A2A_PARTS_BYTES_KEPT_MAX, MIB
from contextrelay.model.artifact import format_time

A2A_PART_BYTES_SENT_MAX = 4 * MIB
INPUT_TYPES = (
    *("text/plain", "text/markdown", "text/html", "text/csv", "application/json"),
    *("application/pdf", "image/png", "image/jpeg", "application/octet-stream"),
    "application/vnd.contextrelay.handoff+json",
)
"""Media types that every agent accepts, in addition to other kinds of text."""
Document = dict[str, Any]


class Viewer(Struct, frozen=True):
    """The recipient of parts: its address of this server, and whether it supports refs."""

    relay: AsyncRelay
    origin: str
    knows_refs: bool
    history_length: int | None = None


# Receiving


def check_parts(parts: list[Part]) -> None:
    """Check that agents accept the parts of a message.

    Raises:
        ProtocolError: a part has no or several contents, an invalid URL, or an unsupported type.
    """
    for part in parts:
        if sum(each is not UNSET for each in (part.text, part.raw, part.url, part.data)) != 1:
            problem = "a part must have exactly one of text, raw, url and data"
            raise ProtocolError("InvalidParams", problem)
        kind = part.media_type.partition(";")[0].strip().lower()
        if kind and kind not in INPUT_TYPES and not kind.startswith("text/"):
            problem, hint = f"unsupported media type {kind!r}", "see the input modes in the card"
            raise ProtocolError("ContentTypeNotSupported", problem, hint)
        if not isinstance(part.url, UnsetType) and urlsplit(part.url).scheme not in PORTS:
            raise ProtocolError("InvalidParams", "the url of a part must be http or https")


async def store_message(thread: AsyncThread, message: AgentMessage, by: str) -> KeptMessage:
    """Store a message and return its stored form. Long content becomes artifacts of the thread."""
    kept: list[KeptPart] = []
    left_bytes = A2A_PARTS_BYTES_KEPT_MAX
    for part in message.parts:
        kept.append(await store_part(thread, part, by, bytes_kept=left_bytes))
        left_bytes -= 0 if kept[-1].ref else kept[-1].size
    return _kept_message(message, kept)


def stored_if_short(message: AgentMessage) -> KeptMessage | None:
    """Return the stored form of a message if all its parts are short, or None."""
    every = [stored_part(part) for part in message.parts]
    size = sum(kept.size for kept, _ in every)
    if size > A2A_PARTS_BYTES_KEPT_MAX or any(body and is_empty(kept) for kept, body in every):
        return None
    return _kept_message(message, [kept for kept, _ in every])


def _kept_message(message: AgentMessage, parts: list[KeptPart]) -> KeptMessage:
    same = ("message_id", "role", "metadata", "extensions", "reference_task_ids")
    return KeptMessage(parts=parts, **{name: getattr(message, name) for name in same})


async def store_part(
    thread: AsyncThread,
    part: Part,
    by: str,
    is_made: bool = False,
    bytes_kept: int = A2A_PART_BYTES_KEPT,
) -> KeptPart:
    """Store a part and return its stored form.

    With `is_made`, the part is output of an agent, and is stored as an artifact however short.
    """
    kept, body = stored_part(part, bytes_kept)
    if not body or (not is_empty(kept) and not is_made):
        return kept
    name, media_type = stored_as(part)
    stored = await thread.put(body, name=name, media_type=media_type, created_by=by)
    return replace(kept, ref=stored.ref)


def stored_part(part: Part, bytes_kept: int = A2A_PART_BYTES_KEPT) -> tuple[KeptPart, bytes]:
    """Return the stored form of a part, and the body to store as an artifact, or b"".

    Content longer than `bytes_kept` is only in the body.
    """
    fields = {name: getattr(part, name) for name in Part.__struct_fields__}
    if not isinstance(part.text, UnsetType):
        kind, body = "text", part.text.encode(errors="replace")
    elif not isinstance(part.raw, UnsetType):
        kind, body = "raw", part.raw
    elif part.data is not UNSET:
        kind, body = "data", encode(part.data)
    else:
        return KeptPart(**fields), b""
    if len(body) > min(bytes_kept, A2A_PART_BYTES_KEPT):
        fields |= {"text": UNSET, "raw": UNSET, "data": UNSET}
    return KeptPart(**fields, kind=kind, size=len(body)), body


# Sending


async def show_task(viewer: Viewer, record: TaskRecord, has_artifacts: bool = True) -> Document:
    """Return a task in the form of the protocol."""
    assert record.status is not None, "its first event is a message"
    length = viewer.history_length
    history = record.history if length is None else record.history[len(record.history) - length :]
    artifacts = record.artifacts.values() if has_artifacts else ()
    more = {
        "history": [await show_message(viewer, record, each) for each in history if length != 0],
        "artifacts": [await _artifact(viewer, each) for each in artifacts],
    }
    status = await _status(viewer, record, record.status)
    return {"id": record.id, "contextId": record.context, "status": status, **filled(more)}


async def show_update(viewer: Viewer, record: TaskRecord, update: Update) -> Document | None:
    """Return an update of a stream in the form of the protocol, or None if it is not for the
    viewer.
    """
    ids = {"taskId": record.id, "contextId": record.context}
    if isinstance(update, TaskStatus):
        return {"statusUpdate": {**ids, "status": await _status(viewer, record, update)}}
    artifact, append = update.artifact, update.append
    if viewer.knows_refs and update.whole is not None:
        artifact, append = replace(artifact, parts=[update.whole]), False
    elif viewer.knows_refs and (append or not update.last):
        return None  # The viewer gets a ref to the whole text at the end.
    flags = filled({"append": append, "lastChunk": update.last})
    return {"artifactUpdate": {**ids, "artifact": await _artifact(viewer, artifact), **flags}}


async def show_message(viewer: Viewer, record: TaskRecord, message: KeptMessage) -> Document:
    """Return a message in the form of the protocol."""
    more = {
        "taskId": "" if message.is_direct else record.id,
        "metadata": message.metadata,
        "extensions": message.extensions,
        "referenceTaskIds": message.reference_task_ids,
    }
    return {
        "messageId": message.message_id,
        "contextId": record.context,
        "role": message.role,
        "parts": [await show_part(viewer, part) for part in message.parts],
        **filled(more),
    }


async def _status(viewer: Viewer, record: TaskRecord, status: TaskStatus) -> Document:
    shown: Document = {"state": status.state, "timestamp": format_time(status.at)}
    if status.message is not None:
        shown["message"] = await show_message(viewer, record, status.message)
    return shown


async def _artifact(viewer: Viewer, artifact: KeptArtifact) -> Document:
    parts = [await show_part(viewer, part) for part in joined(artifact.parts)]
    has_refs = any(REFS_EXTENSION in part.get("metadata", ()) for part in parts)
    more = {
        "name": artifact.name,
        "description": artifact.description,
        "metadata": artifact.metadata,
        "extensions": [REFS_EXTENSION] if has_refs else [],
    }
    return {"artifactId": artifact.artifact_id, "parts": parts, **filled(more)}


async def show_part(viewer: Viewer, part: KeptPart) -> Document:
    """Return a part in the form of the protocol: plain, with its whole body, or as a ref."""
    if not part.ref or not is_empty(part):
        return plain(part)
    try:
        if viewer.knows_refs or part.size > A2A_PART_BYTES_SENT_MAX:
            artifact = await viewer.relay.peek(part.ref, is_full=True)
            named = {"mediaType": artifact.media_type, **filled({"filename": artifact.name})}
            fields = {**named, **part_fields(part, url=f"{viewer.origin}{body_path(artifact.ref)}")}
            return {**fields, "metadata": {**part.metadata, **describe(artifact)}}
        body = await viewer.relay.pull(part.ref)
    except (NotFound, Gone) as error:
        return part_fields(part, text=f"[{error.message}]")
    if part.kind == "text":
        return part_fields(part, text=body.decode(errors="replace"))
    if part.kind == "data":
        with suppress(DecodeError):
            return part_fields(part, data=decode(body))
    return part_fields(part, raw=to_builtins(body))


def is_empty(part: KeptPart) -> bool:
    """Return True if the content of a part is only in an artifact."""
    return all(each is UNSET for each in (part.text, part.raw, part.url, part.data))
