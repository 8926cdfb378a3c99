"""Artifacts: stored bodies, and what describes each."""

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
    Channel,
    Cursor,
    FileName,
    Index,
    Label,
    Name,
    Stream,
    Traits,
    TtlS,
    Verb,
)

Place = Annotated[str, Meta(min_length=1, max_length=4096)]
Offset = Annotated[int, Meta(ge=0)]
"""A place in a body; one after its end is its end, however far."""

Parts = Annotated[tuple[Ref, ...], Meta(max_length=PARTS_MAX)]
"""Artifacts whose bodies come before the one that is sent, as one body: it may be longer than the
limit of one. They are not needed after that."""

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
    """Store a body once and get back the artifact with its ref.

    `ttl_s` unset: a day, or what the store is set to; None pins it.
    """

    traits = _pushes(http="POST /v1/artifacts")

    name: FileName | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    metadata: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    ttl_s: TtlS | UnsetType | None = UNSET
    created_by: Label = "you"
    capability: Label | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    thread: Ref | None = None
    """Put it into a thread: its state gets it in /artifacts, and it does not expire."""
    channel: Channel | None = None
    """Send its ref to a channel, once it is stored."""
    sealed: SealFormat | None = None
    """The format in which the client sealed the body; the store then shows nothing of it."""
    parts: Parts = ()


class PushMany(Verb[list[Artifact]], frozen=True):
    """Store many bodies in one go, a batch a commit; if it fails, a first part may be stored.

    The bodies follow each other in the stream; `sizes` says where each ends.
    """

    traits = _pushes(http="POST /v1/artifacts/many", long=True)

    items: Annotated[list[Push], Meta(max_length=PUSH_MANY_ITEMS_MAX)]
    sizes: Annotated[list[Index], Meta(max_length=PUSH_MANY_ITEMS_MAX)]


class Pull(Verb[Stream[Artifact]], frozen=True):
    """Get a body back, or the bytes start:stop of it."""

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

    `is_full`: with its tokens and its outline, which are computed the first time they are needed.
    `shown_chars`: how much of the preview its reader sees, for the savings; a peek that shows
    nothing is not counted. None: all of it.
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
    """Keep an artifact until it is removed by hand."""

    traits = _lives(http="POST /v1/artifacts/{ref}/pin", fails=(409, 422))

    ref: Ref


class Unpin(Verb[Artifact], frozen=True):
    """Let a pinned artifact expire `ttl_s` seconds from now; None: what the store is set to.

    One that expires already stays as it is.
    """

    traits = _lives(http="POST /v1/artifacts/{ref}/unpin", fails=(409, 422))

    ref: Ref
    ttl_s: TtlS | None = None


class Extend(Verb[Artifact], frozen=True):
    """Let an artifact live for `ttl_s` seconds from now; never shortens its life."""

    traits = _lives(http="POST /v1/artifacts/{ref}/extend", fails=(409, 422))

    ref: Ref
    ttl_s: TtlS


class Remove(Verb[Artifact], frozen=True):
    """Remove an artifact; a tombstone stays for 30 days, the bytes go with the last ref to them."""

    traits = _lives(http="DELETE /v1/artifacts/{ref}", keyed=True, fails=(409,))

    ref: Ref


class List(Verb[Listing], frozen=True):
    """List artifacts, newest first; `after` is the `next` of the page before.

    `name`: those with this text in their names; `since_ms`: those made at that time (milliseconds
    since 1970) or later. Where few match, a page may have less than `limit`, and a `next`.
    `expires_in_s`: those that expire within so many seconds, soonest first, in one page.
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
    """Remember which artifact was last pushed from a place: a folder, maybe a terminal or agent."""

    traits = Traits(
        needs="write",
        answered_in="artifacts.records",
        http="POST /v1/artifacts/last",
        fails=(404, 410, 422),
    )

    ref: Ref
    place: Place


class LastPush(Verb[list[Artifact]], frozen=True):
    """The artifact that this caller last pushed from a place, if any; gone once that is gone."""

    traits = Traits(
        needs="read",
        answered_in="artifacts.records",
        http="GET /v1/artifacts/last",
        fails=(410,),
    )

    place: Place


class Find(Verb[list[Artifact]], frozen=True):
    """Artifacts whose ref starts with a prefix of six characters or more, at most ten."""

    traits = _reads(http="GET /v1/artifacts/find", inline=True)

    prefix: Annotated[str, Meta(pattern=r"^[0-9a-f-]{6,36}$")]


class ReadLineage(Verb[Lineage], frozen=True):
    """What an artifact was made from, what was made from it, and which threads hold it."""

    traits = _reads(http="GET /v1/artifacts/{ref}/lineage", inline=True)

    ref: Ref
