"""Packing: choosing the parts of a thread that go into a context window, and handoffs to other
agents.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from msgspec import Meta

from contextrelay.limits import (
    BUDGET_TOKENS_DEFAULT,
    BUDGET_TOKENS_MAX,
    HANDOFF_TOKENS_DEFAULT,
    LIST_ITEMS_MAX,
    PUSH_MANY_ITEMS_MAX,
    QUERY_CHARS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.handoff import HandoffListing, HandoffView
from contextrelay.model.package import Block, Package, Pruned, StoredSession
from contextrelay.model.ref import Ref
from contextrelay.verbs.verb import (
    Author,
    BudgetTokens,
    Channel,
    Cursor,
    FileName,
    Label,
    ShortText,
    Traits,
    Verb,
    Version,
)

PINS_MAX = 1_000
CALLS_MAX = 1_000_000
ASK_CHARS_MAX = 20_000


_blocks = partial(Traits, needs="write", answered_in="packing", keyed=True)
_hands = partial(Traits, needs="write", answered_in="handoffs")
_reads = partial(Traits, needs="read", answered_in="handoffs")


class Pack(Verb[Package], frozen=True):
    """Choose which state, blocks and refs of a thread go into a window of a given number of tokens.

    `pins`: ids of blocks that must be included, as hard constraints and the summary always are.
    Whether a large block is included whole or as a digest with its ref depends on the cost, given
    the tokens that precede the package in the agent's prompt and the calls made so far.
    """

    traits = Traits(
        looks=True,
        needs="read",
        answered_in="packing",
        http="GET /v1/threads/{thread}/package",
        counted=True,
    )

    thread: Ref
    query: Annotated[str, Meta(max_length=QUERY_CHARS_MAX)] = ""
    budget_tokens: BudgetTokens = BUDGET_TOKENS_DEFAULT
    pins: Annotated[tuple[ShortText, ...], Meta(max_length=PINS_MAX)] = ()
    version: Version | None = None
    prefix_tokens: Annotated[int, Meta(ge=0, le=BUDGET_TOKENS_MAX)] = 0
    calls: Annotated[int, Meta(ge=0, le=CALLS_MAX)] = 0


class AddBlocks(Verb[list[Artifact]], frozen=True):
    """Add blocks to a thread's context, each as an artifact of the thread."""

    traits = _blocks(http="POST /v1/threads/{thread}/blocks", status=201, fills="made")

    thread: Ref
    blocks: Annotated[list[Block], Meta(max_length=PUSH_MANY_ITEMS_MAX)]
    by: Author = ""


class PruneContext(Verb[Pruned], frozen=True):
    """Remove the least relevant blocks from a context that is 90 % full, down to 80 %.

    The blocks can still be read by their refs; the state lists which were removed, and why.
    """

    traits = _blocks(looks=True, http="POST /v1/threads/{thread}/prune")

    thread: Ref
    query: Annotated[str, Meta(max_length=QUERY_CHARS_MAX)] = ""
    budget_tokens: BudgetTokens = BUDGET_TOKENS_DEFAULT
    pins: Annotated[tuple[ShortText, ...], Meta(max_length=PINS_MAX)] = ()
    by: Author = ""


class GiveHandoff(Verb[HandoffView], frozen=True):
    """Hand a thread over to another agent: a request, the context that the request needs, and refs,
    within a number of tokens.

    The receiver is notified on `channel`, or by default on `handoff/<to>`.
    """

    traits = _hands(
        looks=True, http="POST /v1/threads/{thread}/handoffs", status=201, keyed=True, fills="made"
    )

    thread: Ref
    to: Label
    ask: Annotated[str, Meta(min_length=1, max_length=ASK_CHARS_MAX)]
    budget_tokens: BudgetTokens = HANDOFF_TOKENS_DEFAULT
    refs: Annotated[tuple[Ref, ...], Meta(max_length=SOURCE_REFS_MAX)] = ()
    pins: Annotated[tuple[ShortText, ...], Meta(max_length=PINS_MAX)] = ()
    channel: Channel | None = None
    by: Author = ""

    @property
    def signal_channel(self) -> str:
        """The name of the channel on which the receiver is notified."""
        return self.channel or f"handoff/{self.to}"


class AcceptHandoff(Verb[HandoffView], frozen=True):
    """Accept a handoff, so that its giver sees it as accepted. Accepting it again returns the same
    reply.
    """

    traits = _hands(http="POST /v1/handoffs/{ref}/accept")

    ref: Ref
    by: Author = ""


class ReturnHandoff(Verb[Artifact], frozen=True):
    """Return the result of a handoff. It is added to the giver's thread as one patch of the state.

    The giver is notified on `handoff/<from>`, or on `channel`.
    """

    traits = _hands(
        looks=True,
        http="POST /v1/handoffs/{ref}/return",
        status=201,
        takes_body=True,
        keyed=True,
        fills="sent",
    )

    ref: Ref
    name: FileName | None = None
    type: ArtifactType | None = None
    metadata: dict[str, Any] = {}  # noqa: RUF012 (each request has its own)
    channel: Channel | None = None
    by: Author = ""


class ShowHandoff(Verb[HandoffView], frozen=True):
    """Show a handoff without accepting it."""

    traits = _reads(http="GET /v1/handoffs/{ref}")

    ref: Ref


class ListHandoffs(Verb[HandoffListing], frozen=True):
    """List handoffs, newest first. `is_open`: list only those not accepted yet."""

    traits = _reads(http="GET /v1/handoffs")

    to: Label | None = None
    thread: Ref | None = None
    is_open: bool = False
    limit: Annotated[int, Meta(ge=1, le=LIST_ITEMS_MAX)] = 20
    after: Cursor = ""


class PutSession(Verb[None], frozen=True):
    """Store a session of `DistributedContextStore`, or some of its blocks, with a time to live."""

    traits = Traits(needs="owner", answered_in="packing")

    session: str
    fields: dict[str, str] | None
    """The fields of the session; None keeps the stored fields."""
    blocks: dict[str, bytes]
    ttl_s: int
    gone: tuple[str, ...] = ()
    """Ids of blocks to delete from the session."""


class ReadSession(Verb[StoredSession | None], frozen=True):
    """Read a session with its blocks; return None if it is missing or expired."""

    traits = Traits(needs="owner", answered_in="packing")

    session: str


class DeleteSession(Verb[None], frozen=True):
    """Delete a session and its blocks."""

    traits = Traits(needs="owner", answered_in="packing")

    session: str
