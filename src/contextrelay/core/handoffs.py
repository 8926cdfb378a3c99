"""Handoffs: given by one agent, accepted by another, listed and shown.

A handoff is an artifact of its thread; its bytes are what the receiver reads. It is added to the
thread in one write with the refs that it hands over. The thread's log has a row `accepted` for each
receiver, in one write with the event. Artifacts of the thread that are derived from it are its
results.

Rule: the text of a handoff is never over its budget. What was left out is listed with the command
that gets it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import takewhile

from msgspec import Struct, ValidationError, convert, field, to_builtins
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.content.tokens import count_tokens
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.catalog import CatalogEntry, entries
from contextrelay.core.artifacts.records import find, find_readable, has_expired, live
from contextrelay.core.idempotency import step
from contextrelay.core.inspect import cached_outline, outlined_within
from contextrelay.core.packing import EACH_TOKENS, Candidates, PackingAgent, candidates, labelled
from contextrelay.core.push.push import find_earlier_push, push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, RowKind, artifact_log, first_page, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import LiveState, check_open
from contextrelay.core.threads.patch import append_event, new_event
from contextrelay.documents.bounds import check_label
from contextrelay.errors import BudgetTooSmall, Conflict, Invalid, NotFound
from contextrelay.limits import LOOKS_S_MAX, OUTLINE_TOKENS_MIN, RETRIES_MAX
from contextrelay.model.artifact import Artifact, from_ms, to_ms
from contextrelay.model.handoff import (
    HANDOFF_MEDIA_TYPE,
    Accepted,
    HandedRef,
    Handoff,
    HandoffLine,
    HandoffListing,
    HandoffView,
    LeftOut,
)
from contextrelay.model.names import thread_log
from contextrelay.model.package import Block, Budget, Package
from contextrelay.model.thread import Event
from contextrelay.packing.pack import pack
from contextrelay.store.ledger import ONLY, Row
from contextrelay.verbs import (
    AcceptHandoff,
    Body,
    GiveHandoff,
    ListHandoffs,
    Push,
    ReturnHandoff,
    ShowHandoff,
)

HANDOFF_OUTLINE_TOKENS_MAX = 200
# The maximum length of the ask in listings and events.
ASK_SHOWN_CHARS_MAX = 200


_encoder = Encoder(order="deterministic")
_decoder = Decoder(Handoff)
_accepted_decoder = Decoder(Accepted)


# Giving


@answers(GiveHandoff)
def give(stores: Stores, verb: GiveHandoff, body: Body) -> HandoffView:
    stored = step(stores, "handoff", takes_any=True)

    def given(artifact: Artifact) -> tuple[Event, ...]:
        detail = {"ref": artifact.ref, "to": verb.to, "ask": verb.ask[:ASK_SHOWN_CHARS_MAX]}
        return (new_event(stores, "handoff.given", verb.by, detail),)

    # A retried request with the same key gets the first handoff.
    artifact = find_earlier_push(stored, verb.thread)
    if artifact is None:
        handoff = _new_handoff(stores, verb)
        artifact = push_with_events(stored, _push(verb, handoff), _encoder.encode(handoff), given)
    return HandoffView(ref=artifact.ref, sha256=artifact.sha256, handoff=_read(stores, artifact))


def _new_handoff(stores: Stores, verb: GiveHandoff) -> Handoff:
    check_open(stores, verb.thread)
    handed = [live(stores, ref) for ref in dict.fromkeys(verb.refs)]
    found = candidates(stores, verb.thread, PackingAgent(), but=verb.refs)
    until_s = time.monotonic() + LOOKS_S_MAX

    def hand(artifact: Artifact) -> HandedRef:
        is_late = time.monotonic() > until_s
        return _handed_ref(stores, artifact, verb.budget_tokens // (3 * len(handed)), is_late)

    handoff = Handoff(
        giver=verb.by,
        to=verb.to,
        ask=verb.ask,
        thread=verb.thread,
        version=found.version,
        given_at=from_ms(stores.request_ms()),
        package=_nothing(verb.budget_tokens),
        refs=tuple(map(hand, handed)),
    )
    return _with_package(handoff, found, verb)


def _push(verb: GiveHandoff, handoff: Handoff) -> Push:
    summary = _Summary(verb.by, verb.to, verb.ask[:ASK_SHOWN_CHARS_MAX], handoff.version)
    return Push(
        name=f"handoff-to-{_plain(verb.to)}.json",
        type="json",
        media_type=HANDOFF_MEDIA_TYPE,
        metadata={"handoff": to_builtins(summary)},
        created_by=verb.by,
        source_refs=tuple(each.ref for each in handoff.refs),
        thread=verb.thread,
        channel=verb.signal_channel,
    )


class _Summary(Struct, frozen=True):
    """The metadata of a handoff's artifact."""

    giver: str = field(name="from")
    to: str = ""
    ask: str = ""
    version: int = 0


def _plain(text: str) -> str:
    return "".join(each if each.isalnum() or each in "-_" else "-" for each in text)[:60]


def _handed_ref(stores: Stores, artifact: Artifact, share_tokens: int, is_late: bool) -> HandedRef:
    """Return a ref with as much of its outline as fits into its share of the tokens.

    `is_late`: the deadline has passed, so the outline is made by lines, which is faster.
    """
    outline, tokens = "", artifact.size_bytes // 4
    if artifact.sealed is None and artifact.is_text:
        tokens = cached_outline(stores, artifact, is_late).whole.tokens
        share_tokens = min(HANDOFF_OUTLINE_TOKENS_MAX, share_tokens)
        if share_tokens >= OUTLINE_TOKENS_MIN:
            outline = outlined_within(stores, artifact, share_tokens, is_late).text
    return HandedRef(
        ref=artifact.ref,
        name=artifact.name,
        type=artifact.type,
        size_bytes=artifact.size_bytes,
        tokens=tokens,
        outline=outline,
    )


def _with_package(handoff: Handoff, found: Candidates, verb: GiveHandoff) -> Handoff:
    """Return a handoff with a package that fits the budget; the tokens of its whole text are
    counted.

    Raises:
        BudgetTooSmall: the required content does not fit.
    """
    reserve = _text_tokens(handoff) + _LEFT_OUT_TOKENS
    for _ in range(RETRIES_MAX):
        if reserve >= verb.budget_tokens:
            raise BudgetTooSmall(
                f"the ask and {len(handoff.refs)} refs take {reserve} tokens, the budget is"
                f" {verb.budget_tokens}",
                "pass a larger budget, fewer refs or a shorter ask",
            )
        budget = Budget(verb.budget_tokens, reserve, EACH_TOKENS)
        package = pack(found.blocks, verb.ask, budget, pins=verb.pins, digests=found.digests)
        filled = replace(
            handoff,
            package=_kept(labelled(package, verb.thread, handoff.version)),
            left_out=_left_out(package, handoff),
        )
        over = _text_tokens(filled) - verb.budget_tokens
        if over <= 0:
            return filled
        reserve += over
    raise BudgetTooSmall(f"nothing fits into {verb.budget_tokens} tokens", "pass a larger budget")


_LEFT_OUT_TOKENS = 60
"""Tokens reserved for the line about the content that was left out."""


def _text_tokens(handoff: Handoff) -> int:
    ref = "00000000-0000-4000-8000-000000000000"
    return count_tokens(HandoffView(ref=ref, sha256="", handoff=handoff).text)


def _kept(package: Package) -> Package:
    """Return a package without its dropped blocks, because the handoff lists these itself."""
    kept = {block.id for block in package.blocks}
    reasons = {name: reason for name, reason in package.reasons.items() if name in kept}
    return replace(package, dropped=(), reasons=reasons)


def _nothing(budget_tokens: int) -> Package:
    return Package(
        blocks=(),
        dropped=(),
        reasons={},
        budget=Budget(budget_tokens),
        total_tokens=0,
        tokenizer="",
    )


def _left_out(package: Package, handoff: Handoff) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(
            id=block.id,
            tokens=package.why(block.id).tokens,
            why=str(package.why(block.id)),
            get=_command_to_get(block, handoff),
        )
        for block in package.dropped
    )


def _command_to_get(block: Block, handoff: Handoff) -> str:
    """Return the command that gets a block that was left out."""
    ref = block.metadata.get("ref")
    if isinstance(ref, str):
        return f"relay get {ref} --outline"
    return f"relay state show {handoff.state_ref}"


# Accepting


@answers(AcceptHandoff)
def accept(stores: Stores, verb: AcceptHandoff, body: Body) -> HandoffView:
    check_label(verb.by, "by")
    view = _view(stores, verb.ref)
    thread, key = view.handoff.thread, f"{verb.ref} {verb.by}"
    # A receiver may accept a handoff even if its key cannot see the thread. An artifact that only
    # looks like a handoff cannot be accepted, because no thread has the event of giving it.
    home = stores.space
    if home.ledger.get(thread_log(thread), RowKind.ARTIFACT, verb.ref) is None:
        raise NotFound(
            f"{verb.ref} was not given in any thread", "list the handoffs: relay handoff list"
        )

    def check(live: LiveState) -> None:
        if home.ledger.get(thread_log(thread), RowKind.ACCEPTED, key) is not None:
            raise Conflict(f"{verb.by} has already accepted {verb.ref}")

    accepted = Accepted(by=verb.by, at=from_ms(stores.request_ms()))
    row = Row(RowKind.ACCEPTED, key, _encoder.encode(accepted))
    event = new_event(stores, "handoff.accepted", verb.by, {"ref": verb.ref})
    with suppress(Conflict):  # Accepting a handoff again returns the same result.
        append_event(home, thread, event, (row,), check)
    return replace(view, accepted=_accepted(stores, thread, verb.ref))


@answers(ReturnHandoff)
def give_back(stores: Stores, verb: ReturnHandoff, body: Body) -> Artifact:
    handoff = _view(stores, verb.ref).handoff
    if stores.ledger.get(thread_log(handoff.thread), RowKind.THREAD, ONLY) is None:
        raise NotFound(
            f"no access to the thread of handoff {verb.ref}",
            f"push the result to your own channel, or to handoff/{handoff.giver}",
        )
    return push_with_events(
        stores,
        Push(
            name=verb.name,
            type=verb.type,
            metadata=verb.metadata,
            created_by=verb.by,
            source_refs=(verb.ref,),
            thread=handoff.thread,
            channel=verb.channel or f"handoff/{handoff.giver}",
        ),
        body,
        lambda made: (
            new_event(stores, "handoff.returned", verb.by, {"ref": verb.ref, "result": made.ref}),
        ),
    )


@answers(ShowHandoff)
def show_handoff(stores: Stores, verb: ShowHandoff, body: Body) -> HandoffView:
    return _view(stores, verb.ref)


@answers(ListHandoffs)
def list_handoffs(stores: Stores, verb: ListHandoffs, body: Body) -> HandoffListing:
    found = (
        (entry.cursor, line)
        for entry in entries(stores.ledger, verb.after, kind=RowKind.HANDOFF)
        if (line := _line(stores, entry)) is not None
        and verb.to in (None, line.to)
        and verb.thread in (None, line.thread)
        and not (verb.is_open and line.accepted)
    )
    handoffs, after = first_page(found, verb.limit)
    return HandoffListing(handoffs=handoffs, next=after)


def _line(stores: Stores, entry: CatalogEntry) -> HandoffLine | None:
    """Return the listing entry of a handoff; None if it is gone, unfinished, or not a handoff."""
    ref, artifact = entry.ref, find_readable(stores.ledger, entry.ref)
    if artifact is None or artifact.thread is None or has_expired(artifact, stores.now_ms()):
        return None
    if to_ms(artifact.created_at) != entry.created_ms:
        # A retried request finished this handoff under another time. The index entry with that time
        # is listed.
        return None
    if stores.space.ledger.get(thread_log(artifact.thread), RowKind.ARTIFACT, ref) is None:
        return None  # The handoff is not in its thread yet, or the thread is gone.
    try:
        summary = convert(artifact.metadata.get("handoff"), _Summary)
    except ValidationError:
        return None
    return HandoffLine(
        ref=ref,
        giver=summary.giver,
        to=summary.to,
        ask=summary.ask,
        thread=artifact.thread,
        given_at=artifact.created_at,
        accepted=_accepted(stores, artifact.thread, ref),
        returned=_returned(stores, artifact.thread, ref),
    )


def _view(stores: Stores, ref: str) -> HandoffView:
    artifact = live(stores, ref)
    handoff = _read(stores, artifact)
    return HandoffView(
        ref=ref,
        sha256=artifact.sha256,
        handoff=handoff,
        accepted=_accepted(stores, handoff.thread, ref),
        returned=_returned(stores, handoff.thread, ref),
    )


def _read(stores: Stores, artifact: Artifact) -> Handoff:
    if artifact.media_type != HANDOFF_MEDIA_TYPE:
        raise Invalid(f"{artifact.ref} is not a handoff", "list the handoffs: relay handoff list")
    body = b"".join(read_body(stores, artifact))
    try:
        return _decoder.decode(body)
    except UNREADABLE as error:
        raise Invalid(
            f"{artifact.ref} is not a valid handoff: {error}", "pull it to see its content"
        ) from error


def _accepted(stores: Stores, thread: str, ref: str) -> tuple[Accepted, ...]:
    """Return the receivers that accepted a handoff.

    The rows are in the thread's log, written together with the events.
    """
    prefix = f"{ref} "
    rows = walk_rows(stores.space.ledger, thread_log(thread), RowKind.ACCEPTED, prefix)
    own = takewhile(lambda row: row.key.startswith(prefix), rows)
    every = [_accepted_decoder.decode(row.body or b"") for row in own]
    return tuple(sorted(every, key=lambda each: each.at))


def _returned(stores: Stores, thread: str, ref: str) -> tuple[str, ...]:
    """Return the refs of artifacts derived from a handoff in the giver's thread."""
    made = [
        artifact
        for row in walk_rows(stores.ledger, artifact_log(ref), RowKind.DERIVED)
        if stores.ledger.get(thread_log(thread), RowKind.ARTIFACT, row.key) is not None
        and (artifact := find(stores.ledger, row.key)) is not None
        and artifact.media_type != HANDOFF_MEDIA_TYPE
    ]
    made.sort(key=lambda artifact: (artifact.created_at, artifact.ref))
    return tuple(artifact.ref for artifact in made)
