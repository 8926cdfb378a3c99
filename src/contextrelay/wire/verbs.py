"""Verbs: everything that can be asked, each a typed request that knows the type of its reply.

Rule: this is the only definition. The clients' methods, the HTTP codec, schemas and `--json` are
read from it. Bodies stream beside a verb, never inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from contextrelay.limits import (
    BODY_BYTES_MAX,
    CHUNK_BYTES,
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    NAME_CHARS_MAX,
    PUSH_MANY_ITEMS_MAX,
    SOURCE_REFS_MAX,
    SWEEP_ITEMS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.ref import Ref
from contextrelay.model.reports import (
    BackupReport,
    Lineage,
    Listing,
    RestoreReport,
    StoreReport,
    SweepReport,
    VerifyReport,
)

Reply = TypeVar("Reply", covariant=True)
Streamed = TypeVar("Streamed", covariant=True)

Body = bytes | Iterable[bytes]
"""What a verb may bring along: the bytes at once, or chunk by chunk."""

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Label = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
TtlS = Annotated[int, Meta(ge=1, le=TTL_S_MAX)]
Index = Annotated[int, Meta(ge=0)]


class Verb(Struct, Generic[Reply], frozen=True):
    """One request. `Reply` is what answers it."""


class Stream(Struct, Generic[Streamed], frozen=True):
    """A reply with a body: the value at once, the bytes when they are asked for."""

    value: Streamed
    open: Callable[[int], Iterator[bytes]]
    """From a chunk size to the chunks."""

    def chunks(self) -> Iterator[bytes]:
        return self.open(CHUNK_BYTES)

    def whole(self) -> bytes:
        return b"".join(self.open(BODY_BYTES_MAX))


class Push(Verb[Artifact], frozen=True, kw_only=True):
    """Store a body once and get back the artifact with its ref.

    `ttl_s` unset: a day, or what the store is set to; None pins it.
    """

    name: Name | None = None
    type: ArtifactType | None = None
    media_type: Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)] | None = None
    metadata: dict[str, Any] = {}
    ttl_s: TtlS | UnsetType | None = UNSET
    created_by: Label = "you"
    capability: Label | None = None
    source_refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()


class PushMany(Verb[list[Artifact]], frozen=True):
    """Store many bodies in one go, a batch a commit; if it fails, a first part may be stored.

    The bodies follow each other in the stream; `sizes` tells where each ends.
    """

    items: Annotated[list[Push], Meta(max_length=PUSH_MANY_ITEMS_MAX)]
    sizes: Annotated[list[Index], Meta(max_length=PUSH_MANY_ITEMS_MAX)]


class Pull(Verb[Stream[Artifact]], frozen=True):
    """Get a body back, or the bytes start:stop of it."""

    ref: Ref
    start: Index = 0
    stop: Index | None = None


class Peek(Verb[Artifact], frozen=True):
    """Describe an artifact without its body."""

    ref: Ref


class Pin(Verb[Artifact], frozen=True):
    """Keep an artifact until it is removed by hand."""

    ref: Ref


class Extend(Verb[Artifact], frozen=True):
    """Let an artifact live for `ttl_s` seconds from now; never shortens its life."""

    ref: Ref
    ttl_s: TtlS


class Remove(Verb[Artifact], frozen=True):
    """Remove an artifact; a tombstone stays for 30 days, the bytes go with the last ref to them."""

    ref: Ref


class List(Verb[Listing], frozen=True):
    """List artifacts, newest first; `after` is the `next` of the page before."""

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Annotated[str, Meta(max_length=100)] = ""


class Find(Verb[list[Artifact]], frozen=True):
    """Artifacts whose ref starts with a prefix of six characters or more, at most ten."""

    prefix: Annotated[str, Meta(pattern=r"^[0-9a-f-]{6,36}$")]


class Trace(Verb[Lineage], frozen=True):
    """What an artifact was made from, and what was made from it."""

    ref: Ref


class Sweep(Verb[SweepReport], frozen=True):
    """Expire what is due, free bytes that nothing holds, mend what a crash left over."""

    items_max: Annotated[int, Meta(ge=1, le=SWEEP_ITEMS_MAX)] = SWEEP_ITEMS_MAX
    is_deep: bool = True
    """Whether to look through the blobs too, which takes as long as there are many."""


class Verify(Verb[VerifyReport], frozen=True):
    """Re-derive every hash and follow every reference."""


class Backup(Verb[Stream[BackupReport]], frozen=True):
    """Stream the whole store as one tar file, consistent while others write."""


class Restore(Verb[RestoreReport], frozen=True):
    """Fill an empty store from a backup, checking every hash."""


class Survey(Verb[StoreReport], frozen=True):
    """What the store is and holds, in numbers."""
