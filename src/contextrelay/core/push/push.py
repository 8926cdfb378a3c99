"""Pushes: bodies come in, artifacts are made of them.

Rule: the writes of a push are ordered so that any prefix does no harm: channel, index rows, then
body and hold, then lineage, the artifact, and its signal last. What a crash leaves, a sweep finds
by the index rows and on the due list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from contextrelay.core.artifacts.catalog import index_writes
from contextrelay.core.artifacts.incoming import (
    Incoming,
    check_size,
    held_each,
    held_in_turn,
    receive_joined,
)
from contextrelay.core.artifacts.lifetime import bury
from contextrelay.core.artifacts.records import artifact_row, description_hash, lease, live
from contextrelay.core.channels.channels import (
    check_channel,
    pending_writes,
    send_once,
    send_signals,
    signal_writes,
    trim_surplus,
)
from contextrelay.core.idempotency import may_go_on
from contextrelay.core.push.pieces import pieces_of
from contextrelay.core.push.retry import find_pushed, let_go
from contextrelay.core.registry import answers
from contextrelay.core.schema import ARTIFACTS, Kind, artifact_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Invalid, RelayError, Unavailable
from contextrelay.limits import METADATA_BYTES_MAX, MIB, RETRIES_MAX
from contextrelay.logic.content.artifact_type import artifact_type, declared_type, is_media_type
from contextrelay.logic.content.description import Description
from contextrelay.logic.content.preview import hidden, preview
from contextrelay.logic.document.bounds import check_json, check_label, check_name
from contextrelay.logic.seal.stream import check_sealed
from contextrelay.logic.state import event_chain
from contextrelay.model.artifact import Artifact, ArtifactType, Preview, Provenance, moment
from contextrelay.model.thread import Event
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.wire.verbs import Body, Push, PushMany

if TYPE_CHECKING:
    from contextrelay.core.push.attach import Addition

Additions = Callable[[Artifact], "tuple[Addition, ...]"]


@answers(Push)
def push(stores: Stores, verb: Push, body: Body) -> Artifact:
    return push_with_events(stores, verb, body, lambda artifact: ())


def push_with_events(stores: Stores, verb: Push, body: Body, additions: Additions) -> Artifact:
    """Push; where it goes into a thread, these events and operations are written with the patch."""
    check_push(verb)
    _check_threads(stores, [verb])
    with receive_joined(stores, verb.parts, body, verb.sealed) as incoming:
        return _store(stores, [(verb, incoming)], additions)[0]


def push_each(stores: Stores, asked: list[tuple[Push, bytes]]) -> list[Artifact | RelayError]:
    """Push what arrived side by side, in one commit if that is possible; each gets its own answer.

    None of them goes into a thread: those are patched one after the other anyway.
    """
    answers: list[Artifact | RelayError] = [Invalid("not looked at")] * len(asked)
    good: list[int] = []
    with ExitStack() as open_bodies:
        batch: list[tuple[Push, Incoming]] = []
        for index, (verb, body) in enumerate(asked):
            try:
                check_push(verb)
                received = receive_joined(stores, verb.parts, body, verb.sealed)
                incoming = open_bodies.enter_context(received)
            except RelayError as error:
                answers[index] = error
                continue
            batch.append((verb, incoming))
            good.append(index)
        try:
            refs = [stores.new_ref() for _ in batch]
            made = _keep(stores, batch, refs, held_each) if batch else []
        except RelayError as error:
            made = None
            if len(good) == 1:
                answers[good[0]] = error
                return answers
    if made is not None:
        for index, artifact in zip(good, made, strict=True):
            answers[index] = artifact
        return answers
    for index in good:  # One of them may have broken it for all.
        try:
            answers[index] = push(stores, *asked[index])
        except RelayError as error:
            answers[index] = error
    return answers


_BATCH_ITEMS_MAX = 1_000
_BATCH_BYTES_MAX = 8 * MIB


@answers(PushMany)
def push_many(stores: Stores, verb: PushMany, body: Body) -> list[Artifact]:
    if len(verb.items) != len(verb.sizes):
        raise Invalid(f"{len(verb.items)} items, {len(verb.sizes)} sizes", "send a size per item")
    for item in verb.items:
        check_push(item)
    _check_threads(stores, verb.items)
    for item, size_bytes in zip(verb.items, verb.sizes, strict=True):
        check_size(stores, size_bytes, item.sealed)
    pieces = pieces_of(body, verb.sizes)
    stored: list[Artifact] = []
    while len(stored) < len(verb.items):
        with ExitStack() as open_bodies:
            batch: list[tuple[Push, Incoming]] = []
            batch_bytes = 0
            while len(stored) + len(batch) < len(verb.items):
                item = verb.items[len(stored) + len(batch)]
                received = receive_joined(stores, item.parts, next(pieces), item.sealed)
                incoming = open_bodies.enter_context(received)
                batch.append((item, incoming))
                batch_bytes += incoming.description.size_bytes
                if len(batch) == _BATCH_ITEMS_MAX or batch_bytes > _BATCH_BYTES_MAX:
                    break
            stored += _store(stores, batch, start=len(stored))
    next(pieces, None)  # Where there are no items, a body is still one too many.
    return stored


def _check_threads(stores: Stores, verbs: list[Push]) -> None:
    """Refuse to put into threads that are not there or closed, before anything is stored."""
    if stores.once is not None and stores.once.is_again:
        return  # It may be done already, and the thread have been closed since.
    for thread in dict.fromkeys(verb.thread for verb in verbs):
        if thread is not None:
            from contextrelay.core.threads.head import check_open

            check_open(stores, thread)


def check_push(verb: Push) -> None:
    """Refuse a description that could not be given back exactly."""
    if verb.name is not None:
        check_name(verb.name)
    if verb.media_type is not None and not is_media_type(verb.media_type):
        raise Invalid(f"{verb.media_type!r} is no media type", "write it like text/markdown")
    check_label(verb.created_by, "created_by")
    if verb.capability is not None:
        check_label(verb.capability, "capability")
    if verb.metadata:
        check_json(verb.metadata, "metadata", METADATA_BYTES_MAX)
    if verb.channel is not None:
        check_channel(verb.channel)


def _store(
    stores: Stores,
    batch: list[tuple[Push, Incoming]],
    additions: Additions = lambda artifact: (),
    start: int = 0,
) -> list[Artifact]:
    """Store a batch of received bodies; `start`: how many came before in the same request."""
    if stores.once is not None:
        return _store_once(stores, batch, additions, start)
    verb, incoming = batch[0]
    # One commit, where no body has to be taken back if the thread does not take it.
    joins = len(batch) == 1 and verb.thread is not None and not incoming.is_large
    into = partial(_put_into_threads, stores, additions=additions) if joins else None
    made = _keep(stores, batch, [stores.new_ref() for _ in batch], into=into)
    if made is None:
        raise Unavailable("the push took too long", "push it again")
    if any(artifact.thread for artifact in made):
        if into is None:
            _put_into_threads(stores, made, additions=additions)
        _send_signals(stores, made, send_signals)
    return made


def _send_signals(
    stores: Stores, made: list[Artifact], send: Callable[[Stores, list[Artifact]], None]
) -> None:
    """Send the signals of pushes that are stored, now or when the engine is back."""
    try:
        send(stores, made)
    except RelayError:
        from contextrelay.core.channels.late_signals import send_later

        send_later(stores, made)


def _store_once(
    stores: Stores, batch: list[tuple[Push, Incoming]], additions: Additions, start: int
) -> list[Artifact]:
    """Store what an earlier time of the same request has not stored, and find the rest."""
    is_late = False
    for _ in range(RETRIES_MAX):
        found = [
            find_pushed(stores, verb, incoming.description.sha256, start + index)
            for index, (verb, incoming) in enumerate(batch)
        ]
        missing = [index for index, (_, artifact) in enumerate(found) if artifact is None]
        if is_late and any(batch[index][1].is_placed for index in missing):
            raise Unavailable("the push took too long", "push it again with the same key")
        made = _keep(
            stores, [batch[index] for index in missing], [found[index][0] for index in missing]
        )
        if made is None:
            # The same request was faster, or a sweep took this one for dead.
            let_go(stores, [(batch[index][1], found[index][0]) for index in missing])
            is_late = True
            continue
        fresh = iter(made)
        every = [artifact or next(fresh) for _, artifact in found]
        to_put = [
            each for (verb, _), each in zip(batch, every, strict=True) if verb.thread is not None
        ]
        _put_into_threads(stores, to_put, additions=additions)
        _send_signals(stores, every, send_once)
        return every
    raise Unavailable("others keep asking with this key", "ask again")


def pushed_before(stores: Stores, thread: str | None, additions: Additions) -> Artifact | None:
    """What an earlier time of the same request has pushed, now in its thread if it was not yet."""
    if stores.once is None or not stores.once.is_again:
        return None
    _, artifact = find_pushed(stores, Push(thread=thread), "", 0)
    if artifact is not None and thread is not None:
        _put_into_threads(stores, [artifact], additions=additions)
    return artifact


Hold = Callable[[Stores, list[tuple[Incoming, list[str]]]], list[Write]]
Into = Callable[[list[Artifact], list[Write]], None]


def _keep(
    stores: Stores,
    batch: list[tuple[Push, Incoming]],
    refs: list[str],
    hold: Hold = held_in_turn,
    into: Into | None = None,
) -> list[Artifact] | None:
    """Keep bodies, within the quota of the caller's key; None if a ref is taken."""
    if stores.quota is None:
        return _commit(stores, batch, refs, hold, into)
    size_bytes = sum(incoming.new_bytes for _, incoming in batch)
    return stores.quota.keeping(size_bytes, lambda: _commit(stores, batch, refs, hold, into))


def _commit(
    stores: Stores,
    batch: list[tuple[Push, Incoming]],
    refs: list[str],
    hold: Hold,
    into: Into | None,
) -> list[Artifact] | None:
    """Keep bodies, in an order in which any prefix does no harm; None if a ref is taken.

    `into` commits, with what puts them into threads.
    """
    now_ms = stores.now_ms()
    made = [
        _made(stores, verb, incoming, ref, now_ms)
        for (verb, incoming), ref in zip(batch, refs, strict=True)
    ]
    derived = [
        Write(artifact_log(source), rows=(Row(Kind.DERIVED, artifact.ref, b""),))
        for artifact in made
        for source in artifact.provenance.source_refs
    ]
    for write in derived:
        live(stores, write.log.removeprefix(ARTIFACTS))
    by_hash: dict[str, tuple[Incoming, list[str]]] = {}
    for artifact, (_, incoming) in zip(made, batch, strict=True):
        by_hash.setdefault(artifact.sha256, (incoming, []))[1].append(artifact.ref)
    indexed = index_writes(made, now_ms)
    created = [_created(stores, artifact) for artifact in made]
    pending = pending_writes(made, now_ms)
    is_sent_later = stores.once is not None or any(artifact.thread for artifact in made)
    signals = [] if is_sent_later else signal_writes(stores, made)
    for _ in range(RETRIES_MAX):
        try:
            held = hold(stores, list(by_hash.values()))
            writes = [*pending, *indexed, *held, *derived, *created, *signals]
            if into is not None:
                into(made, writes)
                return made
            heads = stores.ledger.commit(*writes)
        except Stale as stale:
            if stale.log.startswith(ARTIFACTS):
                return None  # A sweep took this push for dead, and its holds with it.
            continue
        except Full:
            for incoming, _ in by_hash.values():
                incoming.abandon(stores)
            raise
        trim_surplus(stores, signals, heads[len(heads) - len(signals) :])
        return made
    raise Unavailable("others keep changing the same content", "try again")


def _put_into_threads(
    stores: Stores, made: list[Artifact], first: list[Write] | None = None, *, additions: Additions
) -> None:
    """Put artifacts into their threads; if one cannot be, those after it are taken back.

    `first`: what is to be written before, with the only one of them.
    """
    for index, artifact in enumerate(made):
        if artifact.thread is None:
            continue
        from contextrelay.core.push.attach import put

        try:
            put(stores, artifact, *additions(artifact), first=first)
        except RelayError as error:
            if isinstance(error, Unavailable):  # It may be stored.
                from contextrelay.core.channels.late_signals import send_later

                send_later(stores, [artifact])
            if not may_go_on(stores, error):
                bury(stores, [each for each in made[index + 1 :] if each.thread], "removed")
            raise


def _made(stores: Stores, verb: Push, incoming: Incoming, ref: str, now_ms: int) -> Artifact:
    description = incoming.description
    kind, media_type = _kind(verb, description)
    default_s = stores.settings.ttl_s if verb.thread is None else None
    ttl_s = default_s if verb.ttl_s is UNSET else verb.ttl_s
    created_at = moment(now_ms)
    return Artifact(
        ref=ref,
        type=kind,
        media_type=media_type,
        name=verb.name,
        size_bytes=description.size_bytes,
        sha256=description.sha256,
        is_text=description.is_text,
        created_at=created_at,
        expires_at=None if ttl_s is None else created_at + timedelta(seconds=ttl_s),
        ttl_s=ttl_s,
        metadata=verb.metadata,
        provenance=Provenance(
            created_by=verb.created_by,
            created_at=created_at,
            capability=verb.capability,
            source_refs=tuple(dict.fromkeys(verb.source_refs)),
        ),
        preview=_preview(verb, kind, description),
        thread=verb.thread,
        has_own_ttl=verb.ttl_s is not UNSET and ttl_s is not None,
        channel=verb.channel,
        sealed=verb.sealed,
    )


def _kind(verb: Push, description: Description) -> tuple[ArtifactType, str]:
    """Type and media type: found out, or, of what is sealed, as the pusher says."""
    if verb.sealed is not None:
        check_sealed(verb.sealed, description.head, description.size_bytes)
        return declared_type(verb.type, verb.name, verb.media_type)
    guessed, media_type = artifact_type(
        verb.name, verb.media_type, description.head, description.is_text
    )
    if verb.type == "binary" and verb.media_type is not None:
        return verb.type, verb.media_type
    return verb.type or guessed, media_type


def _preview(verb: Push, kind: ArtifactType, description: Description) -> Preview:
    size_bytes = description.size_bytes
    if verb.sealed is not None:
        return hidden(size_bytes)
    is_text = description.is_text and kind != "binary"
    return preview(description.head, size_bytes, description.line_count, is_text)


def _created(stores: Stores, artifact: Artifact) -> Write:
    event = Event(
        id=stores.random_bytes(8).hex(),
        type="artifact.created",
        at=artifact.created_at,
        by=artifact.provenance.created_by,
        detail={
            "sha256": artifact.sha256,
            "size": artifact.size_bytes,
            "description": description_hash(artifact),
            "expires_at": lease(artifact),
        },
    )
    rows = [artifact_row(artifact)]
    if artifact.thread is not None:
        rows.append(Row(Kind.HOLDER, artifact.thread, b""))
    fact = event_chain.encode(event, b"")
    return Write(artifact_log(artifact.ref), (fact,), tuple(rows), expect=0)
