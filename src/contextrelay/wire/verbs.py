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
    CHANNEL_CHARS_MAX,
    CHUNK_BYTES,
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    PUSH_MANY_ITEMS_MAX,
    SOURCE_REFS_MAX,
    SWEEP_ITEMS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.capability import CapabilityListing, Invoked, Purged
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
from contextrelay.model.signal import ChannelListing, Signal, SignalPage
from contextrelay.model.thread import (
    Changes,
    EventPage,
    HeaderView,
    Mirrored,
    Numbered,
    Patched,
    StateView,
    Stats,
    ThreadListing,
    ThreadView,
)

Reply = TypeVar("Reply", covariant=True)
Streamed = TypeVar("Streamed", covariant=True)

Body = bytes | Iterable[bytes]
"""What a verb may bring along: the bytes at once, or chunk by chunk."""

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Label = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
TtlS = Annotated[int, Meta(ge=1, le=TTL_S_MAX)]
Index = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Offset = Annotated[int, Meta(ge=0)]
"""A place in a body; one behind its end is its end, however far."""
Cursor = Annotated[str, Meta(max_length=100, pattern=r"^[ -~]*$")]
Version = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
Channel = Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)]


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
    thread: Ref | None = None
    """Put it into a thread: its state gets it in /artifacts, and it does not expire."""
    channel: Channel | None = None
    """Tell who listens to a channel, once it is stored."""


class PushMany(Verb[list[Artifact]], frozen=True):
    """Store many bodies in one go, a batch a commit; if it fails, a first part may be stored.

    The bodies follow each other in the stream; `sizes` tells where each ends.
    """

    items: Annotated[list[Push], Meta(max_length=PUSH_MANY_ITEMS_MAX)]
    sizes: Annotated[list[Index], Meta(max_length=PUSH_MANY_ITEMS_MAX)]


class Pull(Verb[Stream[Artifact]], frozen=True):
    """Get a body back, or the bytes start:stop of it."""

    ref: Ref
    start: Offset = 0
    stop: Offset | None = None


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
    after: Cursor = ""


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


# Channels


class Publish(Verb[Signal], frozen=True):
    """Send a message to a channel: any JSON value but null, and nothing is stored beside it."""

    channel: Channel
    message: Any
    by: Label = "you"


class ReadSignals(Verb[SignalPage], frozen=True):
    """Signals of a channel after a seq, in order; None: none of them, only how far it is."""

    channel: Channel
    after: Index | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 100


class ListChannels(Verb[ChannelListing], frozen=True):
    """List channels by name; `after` is the `next` of the page before."""

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Annotated[str, Meta(max_length=CHANNEL_CHARS_MAX)] = ""


# Threads


class NewThread(Verb[ThreadView], frozen=True):
    """Make a thread, its state at version 1."""

    name: Label | None = None
    by: Label = "you"


class OpenThread(Verb[ThreadView], frozen=True):
    """The newest thread of a name, which is made if there is none."""

    name: Label
    by: Label = "you"


class ShowThread(Verb[ThreadView], frozen=True):
    """A thread as it stands."""

    thread: Ref


class FindThreads(Verb[list[ThreadView]], frozen=True):
    """Threads of a name, newest first, or whose id starts so (six characters or more)."""

    text: Label


class ListThreads(Verb[ThreadListing], frozen=True):
    """List threads, newest first; `after` is the `next` of the page before."""

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


class ForkThread(Verb[ThreadView], frozen=True):
    """Make a thread that begins with the state of another, at any version."""

    thread: Ref
    version: Version | None = None
    name: Label | None = None
    by: Label = "you"


class CloseThread(Verb[ThreadView], frozen=True):
    """Close a thread: it can be read, and no longer changed."""

    thread: Ref
    by: Label = "you"


class RemoveThread(Verb[ThreadView], frozen=True):
    """Remove a thread with its history, and the artifacts that only it holds."""

    thread: Ref


class ReadState(Verb[StateView], frozen=True):
    """A whole state, as it is or was at a version."""

    thread: Ref
    version: Version | None = None


class ReadHeader(Verb[HeaderView], frozen=True):
    """The bounded view of a state that goes into a prompt."""

    thread: Ref
    version: Version | None = None


class PatchState(Verb[Patched], frozen=True):
    """Change a state by JSON Patch operations: all of them, or none.

    `expected`: only if that is the version now. `merge`: also if what was changed since does not
    touch what this patch touches.
    """

    thread: Ref
    operations: list[Any]
    expected: Version | None = None
    merge: bool = False
    by: Label = "you"


class DiffState(Verb[Changes], frozen=True):
    """What leads from one version to another."""

    thread: Ref
    old_version: Version
    new_version: Version | None = None


class RestoreState(Verb[Patched], frozen=True):
    """Make an old version the newest one."""

    thread: Ref
    version: Version
    by: Label = "you"


class CompactState(Verb[Patched], frozen=True):
    """Compact a state now, as every patch does when it has to."""

    thread: Ref
    by: Label = "you"


class ReadEvents(Verb[EventPage], frozen=True):
    """Events of a thread after a seq, in order."""

    thread: Ref
    after: Index = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 100


class AddEvent(Verb[Numbered], frozen=True):
    """Add an event of one's own to a thread's log."""

    thread: Ref
    type: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$", max_length=64)]
    detail: dict[str, Any] = {}
    by: Label = "you"


class MakeCheckpoint(Verb[Numbered], frozen=True):
    """Give the version of now a label, by which it can be found again."""

    thread: Ref
    label: Label
    by: Label = "you"


class ReadStats(Verb[Stats], frozen=True):
    """What refs have saved in a thread."""

    thread: Ref


class ListThreadArtifacts(Verb[list[Artifact]], frozen=True):
    """The artifacts that were put into a thread, newest first."""

    thread: Ref
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 200


class ExportThread(Verb[Stream[ThreadView]], frozen=True):
    """Stream a thread as one zip: manifest, history, events and the bytes of its artifacts."""

    thread: Ref


class ImportThread(Verb[ThreadView], frozen=True):
    """Make a new thread from an exported zip."""

    name: Label | None = None
    by: Label = "you"


class MirrorThread(Verb[Mirrored], frozen=True):
    """Write the files in which people can read a thread; only an embedded store has them."""

    thread: Ref


class AdoptState(Verb[Patched], frozen=True):
    """Take a hand edit of the mirrored state.json in as a patch."""

    thread: Ref
    by: Label = "you"


class UseThread(Verb[ThreadView], frozen=True):
    """Remember which thread was last used in a folder."""

    thread: Ref
    folder: Annotated[str, Meta(min_length=1, max_length=4096)]


class LastUsedThread(Verb[list[ThreadView]], frozen=True):
    """The thread that was last used in a folder, if any."""

    folder: Annotated[str, Meta(min_length=1, max_length=4096)]


# Capabilities


class ListCapabilities(Verb[CapabilityListing], frozen=True):
    """What can be invoked by name, with the arguments each takes."""


class Invoke(Verb[Invoked], frozen=True):
    """Run a capability, or take its cached result; either way the result is an artifact.

    `thread`: put the result into that thread, which may make so many hops. `is_cached`: False runs
    it even where a cached result would do, and caches the new one.
    """

    capability: Label
    args: dict[str, Any] = {}
    thread: Ref | None = None
    by: Label = "you"
    is_cached: bool = True


class PurgeCache(Verb[Purged], frozen=True):
    """Forget cached results: those of one capability, or all."""

    capability: Label | None = None


class Survey(Verb[StoreReport], frozen=True):
    """What the store is and holds, in numbers."""
