"""Verbs: everything that can be asked, each a typed request that knows the type of its reply.

Rule: this is the only definition. The clients' methods, the HTTP codec, schemas and `--json` are
read from it. Bodies stream beside a verb, never inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from contextrelay.limits import (
    ASK_CHARS_MAX,
    BODY_BYTES_MAX,
    BUDGET_TOKENS_DEFAULT,
    BUDGET_TOKENS_MAX,
    CALLS_MAX,
    CHANNEL_CHARS_MAX,
    CHUNK_BYTES,
    DIFF_CONTEXT_LINES_MAX,
    DIGEST_TOKENS_DEFAULT,
    GREP_CONTEXT_LINES_MAX,
    GREP_MATCHES_DEFAULT,
    GREP_MATCHES_MAX,
    GREP_PATTERN_CHARS_MAX,
    HANDOFF_TOKENS_DEFAULT,
    JSON_PATH_CHARS_MAX,
    KEY_RATE_MAX,
    LABEL_CHARS_MAX,
    LIST_ITEMS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    OUTLINE_TOKENS_DEFAULT,
    OUTLINE_TOKENS_MAX,
    OUTLINE_TOKENS_MIN,
    PIECE_TOKENS_DEFAULT,
    PIECE_TOKENS_MAX,
    PIECE_TOKENS_MIN,
    PINS_MAX,
    POINTER_CHARS_MAX,
    PUSH_MANY_ITEMS_MAX,
    QUERY_CHARS_MAX,
    SEARCH_RESULTS_MAX,
    SOURCE_REFS_MAX,
    SPAN_CHARS_MAX,
    SWEEP_ITEMS_MAX,
    TITLE_CHARS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType, SealFormat
from contextrelay.model.capability import CapabilityListing, Invoked, Purged
from contextrelay.model.handoff import HandoffListing, HandoffView
from contextrelay.model.key import (
    IssuedKey,
    Key,
    KeyId,
    KeyListing,
    Prefixes,
    Scope,
    Tenant,
    Usage,
)
from contextrelay.model.outline import Digested, Outlined
from contextrelay.model.package import Package
from contextrelay.model.piece import Differing, Found, Piece
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
from contextrelay.model.savings import Savings
from contextrelay.model.search import Hits, IndexState
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
OutlineTokens = Annotated[int, Meta(ge=OUTLINE_TOKENS_MIN, le=OUTLINE_TOKENS_MAX)]
Version = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
BudgetTokens = Annotated[int, Meta(ge=1, le=BUDGET_TOKENS_MAX)]
Channel = Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)]
SpanText = Annotated[str, Meta(min_length=1, max_length=SPAN_CHARS_MAX)]
"""A:B, half open; either end may be missing, or count from the end: -20:"""
Title = Annotated[str, Meta(min_length=1, max_length=TITLE_CHARS_MAX)]
PieceTokens = Annotated[int, Meta(ge=PIECE_TOKENS_MIN, le=PIECE_TOKENS_MAX)]


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
    sealed: SealFormat | None = None
    """How who pushes has sealed the body: of such a one nothing is shown."""


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
    """Describe an artifact without its body.

    `is_full`: with its tokens and its outline, which are found out the first time somebody asks.
    """

    ref: Ref
    is_full: bool = False


# Looking inside


class Slice(Verb[Piece], frozen=True):
    """A bounded piece of a body: exactly one of the ways says which; `columns` go with `rows`.

    Spans are A:B, half open, either end may be missing. Lines are numbered from 1; bytes, tokens
    and rows count from 0. A heading is a title or a path of titles, `A > B`; a symbol is a name,
    such as `Class.method`.
    """

    ref: Ref
    lines: SpanText | None = None
    bytes: SpanText | None = None
    tokens: SpanText | None = None
    json_pointer: Annotated[str, Meta(max_length=POINTER_CHARS_MAX)] | None = None
    json_path: Annotated[str, Meta(max_length=JSON_PATH_CHARS_MAX)] | None = None
    rows: SpanText | None = None
    columns: Annotated[tuple[Label, ...], Meta(max_length=LIST_ITEMS_MAX)] = ()
    heading: Title | None = None
    symbol: Title | None = None
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class Grep(Verb[Found], frozen=True):
    """Lines in which a regular expression (RE2) is found: in one ref, a thread, or everything.

    `context`: how many lines beside each. `is_fixed`: the pattern is plain text.
    `after_line`: only behind that line of the one ref. `is_count`: only count them.
    """

    pattern: Annotated[str, Meta(min_length=1, max_length=GREP_PATTERN_CHARS_MAX)]
    ref: Ref | None = None
    thread: Ref | None = None
    context: Annotated[int, Meta(ge=0, le=GREP_CONTEXT_LINES_MAX)] = 0
    ignore_case: bool = False
    is_fixed: bool = False
    is_count: bool = False
    after_line: Index = 0
    matches_max: Annotated[int, Meta(ge=1, le=GREP_MATCHES_MAX)] = GREP_MATCHES_DEFAULT
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class Outline(Verb[Outlined], frozen=True):
    """The shape of a body, by its kind, the most telling things first, within a budget."""

    ref: Ref
    tokens_max: OutlineTokens = OUTLINE_TOKENS_DEFAULT


class Digest(Verb[Digested], frozen=True):
    """Head, tail, error lines and outline of a body, within a budget."""

    ref: Ref
    tokens_max: OutlineTokens = DIGEST_TOKENS_DEFAULT


class DiffRefs(Verb[Differing], frozen=True):
    """What differs between two bodies, as a unified diff; of JSON also where."""

    old: Ref
    new: Ref
    context: Annotated[int, Meta(ge=0, le=DIFF_CONTEXT_LINES_MAX)] = 3
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class Search(Verb[Hits], frozen=True):
    """Passages that answer a query in words, best first: in one ref, a thread, or everything."""

    query: Annotated[str, Meta(min_length=1, max_length=QUERY_CHARS_MAX)]
    thread: Ref | None = None
    ref: Ref | None = None
    limit: Annotated[int, Meta(ge=1, le=SEARCH_RESULTS_MAX)] = 10
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class RebuildSearch(Verb[IndexState], frozen=True):
    """Throw the search index away and make it anew from what the store holds."""


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
    """Fill an empty store from a backup, checking every hash.

    One that was cut short keeps the store locked: it is done again, or abandoned, which takes no
    backup and erases what it had written.
    """

    is_abandoned: bool = False


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


class ReadSavings(Verb[Savings], frozen=True):
    """What refs kept out of prompts, as it was counted: of a thread, or of the whole store."""

    thread: Ref | None = None


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


# Windows and handoffs


class Pack(Verb[Package], frozen=True):
    """Choose what of a thread goes into a window of so many tokens: its state, blocks and refs.

    `pins`: ids of blocks that must be in it, beside hard constraints and the summary. Whether a
    large block is in it whole or as a digest with its ref is decided by what that costs, given the
    tokens that stand before it in the agent's prompt and the calls it has made so far.
    """

    thread: Ref
    query: Annotated[str, Meta(max_length=QUERY_CHARS_MAX)] = ""
    budget_tokens: BudgetTokens = BUDGET_TOKENS_DEFAULT
    pins: Annotated[tuple[Label, ...], Meta(max_length=PINS_MAX)] = ()
    version: Version | None = None
    prefix_tokens: Annotated[int, Meta(ge=0, le=BUDGET_TOKENS_MAX)] = 0
    calls: Annotated[int, Meta(ge=0, le=CALLS_MAX)] = 0


class GiveHandoff(Verb[HandoffView], frozen=True):
    """Hand a thread over to another agent: an ask, what it needs to know, and refs, in a budget.

    The receiver hears of it on `channel`, or else on `handoff/<to>`.
    """

    thread: Ref
    to: Label
    ask: Annotated[str, Meta(min_length=1, max_length=ASK_CHARS_MAX)]
    budget_tokens: BudgetTokens = HANDOFF_TOKENS_DEFAULT
    refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    pins: Annotated[tuple[Label, ...], Meta(max_length=PINS_MAX)] = ()
    channel: Channel | None = None
    by: Label = "you"

    @property
    def told_on(self) -> str:
        """The channel on which the receiver hears of it."""
        return self.channel or f"handoff/{self.to}"


class AcceptHandoff(Verb[HandoffView], frozen=True):
    """Take a handoff, and let the giver see that; who takes it again gets the same."""

    ref: Ref
    by: Label = "you"


class ReturnHandoff(Verb[Artifact], frozen=True):
    """Give back what came of a handoff: it goes into the giver's thread as one patch of its state.

    The giver hears of it on `handoff/<from>`, or on `channel`.
    """

    ref: Ref
    name: Name | None = None
    type: ArtifactType | None = None
    metadata: dict[str, Any] = {}
    channel: Channel | None = None
    by: Label = "you"


class ShowHandoff(Verb[HandoffView], frozen=True):
    """Look at a handoff without taking it."""

    ref: Ref


class ListHandoffs(Verb[HandoffListing], frozen=True):
    """List handoffs, newest first; `is_open`: only those that nobody has taken."""

    to: Label | None = None
    thread: Ref | None = None
    is_open: bool = False
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


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


# Keys


class NewKey(Verb[IssuedKey], frozen=True, kw_only=True):
    """Make a key; the reply alone holds its token.

    `scope`: read, write (which may read too) or admin. `tenant`: whose it is; those of a tenant
    see nothing of others. `threads`, `channels`: only those whose names begin so.
    """

    name: Label | None = None
    scope: Scope = "write"
    tenant: Tenant | None = None
    threads: Prefixes = ()
    channels: Prefixes = ()
    ttl_s: TtlS | None = None
    """None: until it is revoked."""
    quota_bytes: Index | None = None
    """How many bytes may be pushed with it in all."""
    requests_per_minute: Annotated[int, Meta(ge=1, le=KEY_RATE_MAX)] | None = None


class ListKeys(Verb[KeyListing], frozen=True):
    """List keys by id, also those good no more; `after` is the `next` of the page before."""

    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


class RevokeKey(Verb[Key], frozen=True):
    """Let a key be good no more, from now on and everywhere."""

    id: KeyId


class ReadUsage(Verb[Usage], frozen=True):
    """What was done with a key."""

    id: KeyId


class Survey(Verb[StoreReport], frozen=True):
    """What the store is and holds, in numbers."""
