"""Request and response types of seed 002's routes. The OpenAPI document is made from them.

Rule: a field of the seed keeps its name, type and text. We may add fields of our own. A request
with an unknown field is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict, replace

from contextrelay.limits import (
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    NAME_CHARS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.names import OPTIONAL_LABEL_PATTERN
from contextrelay.model.ref import Ref
from contextrelay.model.thread import Event, Numbered, Patched, ThreadView
from contextrelay.verbs import Cursor, Index

OptionalLabel = (
    Annotated[str, Meta(max_length=LABEL_CHARS_MAX, pattern=OPTIONAL_LABEL_PATTERN)] | None
)
"""A label, or None. An empty label also means None, because clients of the seed send it by default.
"""
VersionText = Annotated[str, Meta(pattern="^v?[1-9][0-9]{0,11}$")]

# Requests


DEFAULT_AUTHOR = "api"


class NewThreadBody(Struct, forbid_unknown_fields=True):
    name: OptionalLabel = None
    by: OptionalLabel = None


class ThreadsQuery(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 100
    after: Cursor = ""


class ArtifactsQuery(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 200


class EventsQuery(Struct, forbid_unknown_fields=True):
    after: Index = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 200


class VersionQuery(Struct, forbid_unknown_fields=True):
    version: VersionText | None = None


class RawQuery(Struct, forbid_unknown_fields=True):
    raw: Literal["0", "1"] = "0"


class RenderQuery(Struct, forbid_unknown_fields=True):
    format: Literal["openai"] = "openai"
    fenced: Literal["0", "1"] = "0"


class PatchBody(Struct, forbid_unknown_fields=True):
    operations: list[Any]
    expected: Annotated[int, Meta(ge=1, lt=10**12)] | VersionText | None = None
    merge: bool = False
    by: OptionalLabel = None


class ArtifactForm(Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    type: ArtifactType | Literal[""] | None = None
    mime: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    created_by: OptionalLabel = None
    capability: OptionalLabel = None


class ArtifactBody(ArtifactForm, forbid_unknown_fields=True, kw_only=True):
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    metadata: dict[str, Any] = {}
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()


class LargeArtifactBody(ArtifactBody, forbid_unknown_fields=True, kw_only=True):
    """An ArtifactBody whose metadata is decoded only after the size of the metadata was checked."""

    metadata: Raw = Raw(b"{}")  # pyright: ignore[reportIncompatibleVariableOverride]


class InvokeBody(Struct, forbid_unknown_fields=True):
    capability: str
    thread_id: str
    args: dict[str, Any] = {}
    idempotency_key: str | None = None
    name: str = ""
    """Another name of the field `capability`."""
    by: OptionalLabel = None
    is_cached: bool = True


class ReportBody(Struct, forbid_unknown_fields=True):
    format: Literal["md", "json", "html"] = "md"
    by: OptionalLabel = None


class RenderBody(Struct, forbid_unknown_fields=True):
    user: str | None = None


# Responses


class Thread(ThreadView, frozen=True, kw_only=True):
    """A thread, with additional fields named as in the seed."""

    name: str  # pyright: ignore[reportIncompatibleVariableOverride]
    state_ref: str
    state_version: int
    artifact_count: int


class ThreadPage(Struct, frozen=True):
    threads: list[Thread]
    next: str


class ThreadArtifact(Artifact, frozen=True, kw_only=True):
    """The description of an artifact, with additional fields named as in the seed."""

    name: str  # pyright: ignore[reportIncompatibleVariableOverride]
    artifact_ref: str
    mime: str
    hash: str
    thread_id: str | None


class ArtifactPage(Struct, frozen=True):
    artifacts: list[ThreadArtifact]
    left_out: int


class ThreadEvent(Struct, frozen=True):
    id: str
    thread_id: str
    type: str
    payload: dict[str, Any]
    timestamp: datetime


class ThreadEvents(Struct, frozen=True):
    events: list[ThreadEvent]


class PatchedState(Patched, frozen=True, kw_only=True):
    state_ref: str


class InvokedCapability(Struct, frozen=True):
    capability: str
    preview: dict[str, Any]
    artifact_ref: str
    cache_hit: bool
    cache_key: str
    duration_ms: int


class TokenSavings(Struct, frozen=True):
    naive_tokens: int
    actual_tokens: int
    avoided_tokens: int


class ThreadReport(Struct, frozen=True):
    artifact_ref: str
    format: str
    size: int
    thread_id: str
    token_savings: TokenSavings


class Rendered(Struct, frozen=True):
    thread_id: str
    format: str
    truncated: bool
    messages: list[dict[str, str]]


def thread_reply(view: ThreadView) -> Thread:
    fields: dict[str, Any] = {**asdict(view), "name": view.name or ""}
    return Thread(
        **fields,
        state_ref=f"v{view.version}",
        state_version=view.version,
        artifact_count=view.artifacts,
    )


def artifact_reply(artifact: Artifact) -> ThreadArtifact:
    fields: dict[str, Any] = {**asdict(artifact), "name": artifact.name or ""}
    if artifact.provenance.created_by.endswith(f"/{DEFAULT_AUTHOR}"):
        # The clients of this API expect its name without that of the key.
        fields["provenance"] = replace(artifact.provenance, created_by=DEFAULT_AUTHOR)
    return ThreadArtifact(
        **fields,
        artifact_ref=artifact.ref,
        mime=artifact.media_type,
        hash=artifact.sha256,
        thread_id=artifact.thread,
    )


def event_reply(thread: str, numbered: Numbered) -> ThreadEvent:
    """Return an event in the seed's form. Its id is the sequence number of the event in the
    thread's log.
    """
    event = numbered.event
    return ThreadEvent(str(numbered.seq), thread, event.type, _payload(event), event.at)


def _payload(event: Event) -> dict[str, Any]:
    detail = event.detail
    match event.type:
        case "thread.created":
            return {"name": detail.get("name") or ""}
        case "state.created":
            return {"version": 1}
        case "state.patch.applied":
            return {"ops": len(detail["operations"]), "version": detail["version"]}
        case _:
            return detail
