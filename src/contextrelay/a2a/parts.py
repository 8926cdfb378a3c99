"""Parts of messages. A received part is stored once. A sent part is a ref or plain content,
depending on what the recipient supports.

Rule: refs are created here and never taken from a message. A ref in a message is treated as text.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from msgspec import UNSET, DecodeError, Struct, UnsetType, to_builtins
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.a2a.record import (
    ArtifactChange,
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
    BodyDescription,
    Part,
    ProtocolError,
    is_one_of,
)
from contextrelay.bounded.fetch_target import PORTS
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.thread import AsyncThread
from contextrelay.content.artifact_type import is_media_type
from contextrelay.errors import Gone, NotFound
from contextrelay.limits import (
    A2A_PART_BYTES_KEPT,
    A2A_PARTS_BYTES_KEPT_MAX,
    A2A_PREVIEW_CHARS,
    MIB,
)
from contextrelay.model.artifact import Artifact, format_time

A2A_PART_BYTES_SENT_MAX = 4 * MIB


INPUT_TYPES = (
    *("text/plain", "text/markdown", "text/html", "text/csv", "application/json"),
    *("application/pdf", "image/png", "image/jpeg", "application/octet-stream"),
    "application/vnd.contextrelay.handoff+json",
)
"""Media types that every agent accepts, in addition to other kinds of text."""
Document = dict[str, Any]


class Viewer(Struct, frozen=True):
    """The recipient of parts: the address at which it uses this server, and whether it supports
    refs.
    """

    relay: AsyncRelay
    origin: str
    knows_refs: bool
    history_length: int | None = None


# Receiving


def check_parts(parts: list[Part]) -> None:
    """Check that agents accept the parts of a message.

    Raises:
        ProtocolError: a part has no content or several contents, an invalid URL, or an
        unsupported type.
    """
    for part in parts:
        if not is_one_of(part):
            raise ProtocolError(
                "InvalidParams", "a part must have exactly one of text, raw, url and data"
            )
        kind = part.media_type.partition(";")[0].strip().lower()
        if kind and kind not in INPUT_TYPES and not kind.startswith("text/"):
            raise ProtocolError(
                "ContentTypeNotSupported",
                f"unsupported media type {kind!r}",
                "see the input modes in the card",
            )
        if not isinstance(part.url, UnsetType) and urlsplit(part.url).scheme not in PORTS:
            raise ProtocolError("InvalidParams", "the url of a part must be http or https")


async def store_message(thread: AsyncThread, message: AgentMessage, by: str) -> KeptMessage:
    """Store a message and return its stored form. Long content becomes artifacts of the thread."""
    kept: list[KeptPart] = []
    left_bytes = A2A_PARTS_BYTES_KEPT_MAX
    for part in message.parts:
        kept.append(await store_part(thread, part, by, bytes_kept=left_bytes))
        left_bytes -= 0 if kept[-1].ref else len(_content(part)[1] or b"")
    return _kept_message(message, kept)


def stored_if_short(message: AgentMessage) -> KeptMessage | None:
    """Return the stored form of a message if all its parts are short, or None."""
    every = [stored_part(part) for part in message.parts]
    size = sum(kept.size for kept, _ in every)
    if size > A2A_PARTS_BYTES_KEPT_MAX or any(body and is_empty(kept) for kept, body in every):
        return None
    return _kept_message(message, [kept for kept, _ in every])


def _kept_message(message: AgentMessage, parts: list[KeptPart]) -> KeptMessage:
    return KeptMessage(
        message_id=message.message_id,
        role=message.role,
        parts=parts,
        metadata=message.metadata,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )


async def store_part(
    thread: AsyncThread,
    part: Part,
    by: str,
    is_made: bool = False,
    bytes_kept: int = A2A_PART_BYTES_KEPT,
) -> KeptPart:
    """Store a part and return its stored form. With `is_made`, the part is output of an agent, and
    is stored as an artifact however short it is.
    """
    kept, body = stored_part(part, bytes_kept)
    if not body or (len(body) <= min(bytes_kept, A2A_PART_BYTES_KEPT) and not is_made):
        return kept
    name, media_type = stored_as(part)
    stored = await thread.put(body, name=name, media_type=media_type, created_by=by)
    return replace(kept, ref=stored.ref)


def stored_part(part: Part, bytes_kept: int = A2A_PART_BYTES_KEPT) -> tuple[KeptPart, bytes]:
    """Return the stored form of a part, without a ref, and the body to store as an artifact, or
    b"".

    Content longer than `bytes_kept` is only in the body.
    """
    kind, body = _content(part)
    if body is None:
        return KeptPart(**_fields(part)), b""
    if len(body) <= min(bytes_kept, A2A_PART_BYTES_KEPT):
        return KeptPart(**_fields(part), kind=kind, size=len(body)), body
    about: Document = {
        "metadata": part.metadata,
        "filename": part.filename,
        "media_type": part.media_type,
    }
    return KeptPart(**about, kind=kind, size=len(body)), body


def stored_as(part: Part) -> tuple[str | None, str | None]:
    """Return the name and the media type under which a part is stored."""
    media_type = part.media_type.partition(";")[0].strip()
    return _name(part.filename), media_type if is_media_type(media_type) else None


def _fields(part: Part) -> Document:
    return {name: getattr(part, name) for name in Part.__struct_fields__}


def _name(filename: str) -> str | None:
    """Return the last component of a file name if that is a valid artifact name, or None."""
    name = filename.replace("\\", "/").rpartition("/")[2].strip()
    return name if name.isprintable() and name not in ("", ".", "..") else None


def _content(part: Part) -> tuple[str, bytes | None]:
    if not isinstance(part.text, UnsetType):
        return "text", part.text.encode(errors="replace")
    if not isinstance(part.raw, UnsetType):
        return "raw", part.raw
    return ("url", None) if part.data is UNSET else ("data", encode(part.data))


# Sending


async def show_task(viewer: Viewer, record: TaskRecord, has_artifacts: bool = True) -> Document:
    """Return a task in the form of the protocol."""
    assert record.status is not None, "its first event is a message"
    task: Document = {
        "id": record.id,
        "contextId": record.context,
        "status": await _status(viewer, record, record.status),
    }
    length = viewer.history_length
    history = record.history if length is None else record.history[len(record.history) - length :]
    if length != 0 and history:
        task["history"] = [await show_message(viewer, record, each) for each in history]
    if has_artifacts and record.artifacts:
        task["artifacts"] = [await _artifact(viewer, each) for each in record.artifacts.values()]
    return task


async def show_update(viewer: Viewer, record: TaskRecord, update: Update) -> Document | None:
    """Return an update of a stream in the form of the protocol, or None if the viewer must not get
    this update.
    """
    ids = {"taskId": record.id, "contextId": record.context}
    if isinstance(update, TaskStatus):
        return {"statusUpdate": {**ids, "status": await _status(viewer, record, update)}}
    piece = update
    if viewer.knows_refs and (piece.append or not piece.last) and piece.whole is None:
        return None  # The viewer gets a ref to the whole text at the end.
    artifact, append = piece.artifact, piece.append
    if viewer.knows_refs and piece.whole is not None:
        artifact, append = _as_whole(piece), False
    shown = await _artifact(viewer, artifact)
    change: Document = {**ids, "artifact": shown}
    if append:
        change["append"] = True
    if piece.last:
        change["lastChunk"] = True
    return {"artifactUpdate": change}


def _as_whole(piece: ArtifactChange) -> KeptArtifact:
    assert piece.whole is not None
    old = piece.artifact
    return KeptArtifact(artifact_id=old.artifact_id, parts=[piece.whole], name=old.name)


async def show_message(viewer: Viewer, record: TaskRecord, message: KeptMessage) -> Document:
    """Return a message in the form of the protocol."""
    shown: Document = {
        "messageId": message.message_id,
        "contextId": record.context,
        "role": message.role,
        "parts": [await show_part(viewer, part) for part in message.parts],
    }
    if not message.is_direct:
        shown["taskId"] = record.id
    if message.metadata:
        shown["metadata"] = message.metadata
    if message.extensions:
        shown["extensions"] = message.extensions
    if message.reference_task_ids:
        shown["referenceTaskIds"] = message.reference_task_ids
    return shown


async def _status(viewer: Viewer, record: TaskRecord, status: TaskStatus) -> Document:
    shown: Document = {"state": status.state, "timestamp": format_time(status.at)}
    if status.message is not None:
        shown["message"] = await show_message(viewer, record, status.message)
    return shown


async def _artifact(viewer: Viewer, artifact: KeptArtifact) -> Document:
    shown: Document = {
        "artifactId": artifact.artifact_id,
        "parts": [await show_part(viewer, part) for part in joined(artifact.parts)],
    }
    if artifact.name:
        shown["name"] = artifact.name
    if artifact.description:
        shown["description"] = artifact.description
    if artifact.metadata:
        shown["metadata"] = artifact.metadata
    if any(REFS_EXTENSION in part.get("metadata", ()) for part in shown["parts"]):
        shown["extensions"] = [REFS_EXTENSION]
    return shown


async def show_part(viewer: Viewer, part: KeptPart) -> Document:
    """Return a part in the form of the protocol. A short part is sent plain, a long one as a ref or
    with its body.
    """
    if not part.ref or not is_empty(part):
        return plain(part)
    try:
        if viewer.knows_refs or part.size > A2A_PART_BYTES_SENT_MAX:
            return ref_part(viewer, await viewer.relay.peek(part.ref, is_full=True), part)
        body = await viewer.relay.pull(part.ref)
    except (NotFound, Gone) as error:
        return part_fields(part, text=f"[{error.message}]")
    if part.kind == "text":
        return part_fields(part, text=body.decode(errors="replace"))
    if part.kind == "data":
        try:
            return part_fields(part, data=decode(body))
        except DecodeError:
            pass
    return part_fields(part, raw=to_builtins(body))


def is_empty(part: KeptPart) -> bool:
    """Return True if the content of a part is only in an artifact."""
    return all(each is UNSET for each in (part.text, part.raw, part.url, part.data))


def ref_part(viewer: Viewer, artifact: Artifact, part: KeptPart) -> Document:
    """Return a part that refers to an artifact, as our extension of A2A defines."""
    described = describe(artifact)
    fields = part_fields(part, url=f"{viewer.origin}{body_path(artifact.ref)}")
    fields["metadata"] = {**part.metadata, REFS_EXTENSION: to_builtins(described)}
    fields.setdefault("mediaType", artifact.media_type)
    if artifact.name:
        fields.setdefault("filename", artifact.name)
    return fields


def body_path(ref: str) -> str:
    """Return the URL path of an artifact's bytes, which any client can read."""
    return f"/v1/artifacts/{ref}/content"


def describe(artifact: Artifact) -> BodyDescription:
    """Return the description of a body that is sent together with its ref."""
    tokens = artifact.tokens if isinstance(artifact.tokens, int) else None
    return BodyDescription(
        ref=artifact.ref,
        sha256=artifact.sha256,
        size=artifact.size_bytes,
        tokens=tokens,
        preview=artifact.preview.text[:A2A_PREVIEW_CHARS],
    )
