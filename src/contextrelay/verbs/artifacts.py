"""Artifacts: stored bodies and their descriptions."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from contextrelay.limits import (
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    PARTS_MAX,
    PUSH_MANY_ITEMS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType, SealFormat
from contextrelay.model.ref import Ref
from contextrelay.model.reports import Lineage, Listing
from contextrelay.verbs.verb import (
    Author,
    Channel,
    Cursor,
    FileName,
    Index,
    Label,
    Name,
    Place,
    Stream,
    Traits,
    TtlS,
    Verb,
)

Offset = Annotated[int, Meta(ge=0)]
"""A byte offset in a body; an offset past the end means the end."""

Parts = Annotated[tuple[Ref, ...], Meta(max_length=PARTS_MAX)]
"""Artifacts whose bodies are prepended to the body that is sent. The joined body may exceed the
size limit of a single request. The parts are not needed afterwards.
"""

_pushes = partial(
    Traits,
    needs="write",
    answered_in="push.push",
    status=201,
    takes_body=True,
    keyed=True,
    fills="sent",
    sweeps=True,
    fails=(404, 409, 410),
)
_lives = partial(Traits, needs="write", answered_in="artifacts.lifetime")
_reads = partial(Traits, needs="read", answered_in="artifacts.records")


class Push(Verb[Artifact], frozen=True, kw_only=True):
    """Store a body once and return the artifact with its ref.

    If `ttl_s` is unset, the store's default applies, which is one day unless configured. None pins
    the artifact.
    """

    traits = _pushes(http="POST /v1/artifacts")

    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    metadata: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    ttl_s: TtlS | UnsetType | None = UNSET
    created_by: Author = ""
    capability: Label | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    thread: Ref | None = None
    """Add the artifact to a thread: it is listed in /artifacts of the state and does not expire."""
    channel: Channel | None = None
    """Publish the artifact's ref on a channel once the artifact is stored."""
    sealed: SealFormat | None = None
    """The format in which the client sealed the body; the store then shows no preview of it."""
    parts: Parts = ()


class PushMany(Verb[list[Artifact]], frozen=True):
    """Store many bodies in batches, with one commit per batch. If there is an error, the batches
    before it stay stored.

    The bodies follow each other in the stream; `sizes` holds the length of each.
    """

    traits = _pushes(http="POST /v1/artifacts/many", long=True)

    items: Annotated[list[Push], Meta(max_length=PUSH_MANY_ITEMS_MAX)]
    sizes: Annotated[list[Index], Meta(max_length=PUSH_MANY_ITEMS_MAX)]


class Pull(Verb[Stream[Artifact]], frozen=True):
    """Read a body, or only its bytes from start up to stop (exclusive)."""

    traits = Traits(
        needs="read",
        answered_in="artifacts.pull",
        http="GET /v1/artifacts/{ref}/content",
        media_type="application/octet-stream",
        inline=True,
        counted=True,
        fails=(416,),
    )

    ref: Ref
    start: Offset = 0
    stop: Offset | None = None


class Peek(Verb[Artifact], frozen=True):
    """Describe an artifact without its body.

    `is_full`: include token count and outline, which are computed on first use. `shown_chars`: how
    many characters of the preview the reader sees, which is used to compute savings; None means all
    of them, and 0 means that this call is not counted.
    """

    traits = Traits(
        needs="read",
        answered_in="inspect",
        http="GET /v1/artifacts/{ref}",
        inline=True,
        counted=True,
    )

    ref: Ref
    is_full: bool = False
    shown_chars: Offset | None = None

    @property
    def looks_inside(self) -> bool:
        return self.is_full


class Pin(Verb[Artifact], frozen=True):
    """Keep an artifact until it is removed explicitly."""

    traits = _lives(http="POST /v1/artifacts/{ref}/pin", fails=(409, 422))

    ref: Ref


class Unpin(Verb[Artifact], frozen=True):
    """Let a pinned artifact expire in `ttl_s` seconds, or after the store's default if `ttl_s` is
    None.

    An artifact that already has an expiry is left unchanged.
    """

    traits = _lives(http="POST /v1/artifacts/{ref}/unpin", fails=(409, 422))

    ref: Ref
    ttl_s: TtlS | None = None


class Extend(Verb[Artifact], frozen=True):
    """Extend the life of an artifact to `ttl_s` seconds from now. A longer remaining life is
    unchanged.
    """

    traits = _lives(http="POST /v1/artifacts/{ref}/extend", fails=(409, 422))

    ref: Ref
    ttl_s: TtlS


class Remove(Verb[Artifact], frozen=True):
    """Remove an artifact; a tombstone stays for 30 days. Its body is deleted with the last ref to
    it.
    """

    traits = _lives(http="DELETE /v1/artifacts/{ref}", keyed=True, fails=(409,))

    ref: Ref


class List(Verb[Listing], frozen=True):
    """List artifacts, newest first. To get the next page, pass `next` of the previous page as
    `after`.

    `name`: only names that contain this text. `since_ms`: only artifacts created at or after this
    time (milliseconds since 1970). If few artifacts match, a page may have fewer than `limit`
    entries although `next` is set. `expires_in_s`: only artifacts that expire within this many
    seconds, soonest first, in a single page.
    """

    traits = _reads(http="GET /v1/artifacts", fails=(404, 410))

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""
    name: Name | None = None
    type: ArtifactType | None = None
    since_ms: Index | None = None
    thread: Ref | None = None
    expires_in_s: TtlS | None = None


class RememberPush(Verb[Artifact], frozen=True):
    """Record the last artifact that was pushed from a folder, optionally per terminal or agent."""

    traits = Traits(
        needs="write",
        answered_in="artifacts.records",
        http="POST /v1/artifacts/last",
        fails=(404, 410, 422),
    )

    ref: Ref
    place: Place


class LastPush(Verb[list[Artifact]], frozen=True):
    """Return a list with the last artifact that the caller pushed from a folder; empty if there is
    none or it was removed.
    """

    traits = Traits(
        needs="read",
        answered_in="artifacts.records",
        http="GET /v1/artifacts/last",
        fails=(410,),
    )

    place: Place


class Find(Verb[list[Artifact]], frozen=True):
    """Return at most ten artifacts whose ref starts with a prefix of six characters or more."""

    traits = _reads(http="GET /v1/artifacts/find", inline=True)

    prefix: Annotated[str, Meta(pattern=r"^[0-9a-f-]{6,36}$")]


class ReadLineage(Verb[Lineage], frozen=True):
    """Return the artifacts that an artifact was made from, those made from it, and the threads that
    hold it.
    """

    traits = _reads(http="GET /v1/artifacts/{ref}/lineage", inline=True)

    ref: Ref
