"""Pushes: bodies come in, artifacts are made of them.

Rule: the writes of a push are ordered so that any prefix does no harm: index rows, then body and
hold, then lineage, and the artifact last. What a crash leaves, a sweep finds by the index rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from msgspec import UNSET

from contextrelay.core.answering import answers
from contextrelay.core.artifacts import artifact_log, artifact_row, live
from contextrelay.core.bodies import Incoming, check_size, receive
from contextrelay.core.index import index_write
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Invalid, RelayError, Unavailable
from contextrelay.limits import METADATA_BYTES_MAX, MIB, RETRIES_MAX
from contextrelay.logic import chain
from contextrelay.logic.bounds import check_json, check_label, check_name
from contextrelay.logic.kinds import artifact_type, is_media_type
from contextrelay.logic.preview import preview
from contextrelay.model.artifact import Artifact, Provenance, moment
from contextrelay.model.event import Event
from contextrelay.store.ledger import Row, Stale, Write
from contextrelay.wire.verbs import Body, Push, PushMany


@answers(Push)
def push(stores: Stores, verb: Push, body: Body) -> Artifact:
    check_push(verb)
    _check_threads(stores, [verb])
    with receive(stores, body) as incoming:
        return _store(stores, [(verb, incoming)])[0]


_BATCH_ITEMS_MAX = 1_000
_BATCH_BYTES_MAX = 8 * MIB


@answers(PushMany)
def push_many(stores: Stores, verb: PushMany, body: Body) -> list[Artifact]:
    if len(verb.items) != len(verb.sizes):
        raise Invalid(f"{len(verb.items)} items, {len(verb.sizes)} sizes", "send a size per item")
    for item in verb.items:
        check_push(item)
    _check_threads(stores, verb.items)
    check_size(stores, max(verb.sizes, default=0))
    pieces = _pieces(body, verb.sizes)
    stored: list[Artifact] = []
    while len(stored) < len(verb.items):
        with ExitStack() as open_bodies:
            batch: list[tuple[Push, Incoming]] = []
            batch_bytes = 0
            while len(stored) + len(batch) < len(verb.items):
                item = verb.items[len(stored) + len(batch)]
                incoming = open_bodies.enter_context(receive(stores, next(pieces)))
                batch.append((item, incoming))
                batch_bytes += incoming.description.size_bytes
                if len(batch) == _BATCH_ITEMS_MAX or batch_bytes > _BATCH_BYTES_MAX:
                    break
            stored += _store(stores, batch)
    next(pieces, None)  # Where there are no items, a body is still one too many.
    return stored


def _check_threads(stores: Stores, verbs: list[Push]) -> None:
    """Refuse to put into threads that are not there or closed, before anything is stored."""
    for thread in dict.fromkeys(verb.thread for verb in verbs):
        if thread is not None:
            from contextrelay.core.threads import check_open

            check_open(stores, thread)


def _pieces(body: Body, sizes: list[int]) -> Iterator[bytes]:
    """Cut a stream of bodies that follow each other into the bodies."""
    chunks = iter((body,) if isinstance(body, bytes) else body)
    rest = b""
    for index, size in enumerate(sizes):
        parts = [rest]
        have = len(rest)
        while have < size:
            chunk = next(chunks, None)
            if chunk is None:
                raise Invalid("the bodies are shorter than their sizes say", "send them whole")
            parts.append(chunk)
            have += len(chunk)
        joined = b"".join(parts)
        rest = joined[size:]
        if index + 1 == len(sizes):
            _check_end(rest, chunks)  # Before the last is stored.
        yield joined[:size]
    if not sizes:
        _check_end(rest, chunks)


def _check_end(rest: bytes, chunks: Iterator[bytes]) -> None:
    if rest or any(chunks):
        raise Invalid("the bodies are longer than their sizes say", "send a size per body")


def check_push(verb: Push) -> None:
    """Refuse a description that could not be told back exactly."""
    if verb.name is not None:
        check_name(verb.name)
    if verb.media_type is not None and not is_media_type(verb.media_type):
        raise Invalid(f"{verb.media_type!r} is no media type", "write it like text/markdown")
    check_label(verb.created_by, "created_by")
    if verb.capability is not None:
        check_label(verb.capability, "capability")
    check_json(verb.metadata, "metadata", METADATA_BYTES_MAX)


def _store(stores: Stores, batch: list[tuple[Push, Incoming]]) -> list[Artifact]:
    """Keep a batch of received bodies, in an order in which any prefix does no harm."""
    now_ms = stores.now_ms()
    made = [_made(stores, verb, incoming, now_ms) for verb, incoming in batch]
    sources = dict.fromkeys(ref for artifact in made for ref in artifact.provenance.source_refs)
    for ref in sources:
        live(stores, ref)
    by_hash: dict[str, tuple[Incoming, list[str]]] = {}
    for artifact, (_, incoming) in zip(made, batch, strict=True):
        by_hash.setdefault(artifact.sha256, (incoming, []))[1].append(artifact.ref)
    indexed = [index_write(artifact.ref, now_ms, artifact.sha256) for artifact in made]
    derived = [
        Write(artifact_log(source), rows=(Row("derived", artifact.ref, b""),))
        for artifact in made
        for source in artifact.provenance.source_refs
    ]
    created = [_created(stores, artifact) for artifact in made]
    for _ in range(RETRIES_MAX):
        held = [incoming.held(stores, refs) for incoming, refs in by_hash.values()]
        try:
            stores.ledger.commit(*indexed, *held, *derived, *created)
        except Stale as stale:
            if stale.log.startswith("a/"):
                # A sweep took this push for dead, and its holds with it.
                raise Unavailable("the push took too long", "push it again") from stale
            continue
        except Full:
            for incoming, _ in by_hash.values():
                incoming.abandon(stores)
            raise
        _put_into_threads(stores, made)
        return made
    raise Unavailable("others keep changing the same content", "try again")


def _put_into_threads(stores: Stores, made: list[Artifact]) -> None:
    """Put artifacts into their threads; if one cannot be, those after it are taken back."""
    for index, artifact in enumerate(made):
        if artifact.thread is None:
            continue
        from contextrelay.core.putting import put

        try:
            put(stores, artifact)
        except RelayError:
            from contextrelay.core.lives import bury

            bury(stores, [each for each in made[index + 1 :] if each.thread], "removed")
            raise


def _made(stores: Stores, verb: Push, incoming: Incoming, now_ms: int) -> Artifact:
    description = incoming.description
    guessed, media_type = artifact_type(
        verb.name, verb.media_type, description.head, description.is_text
    )
    default_s = stores.settings.ttl_s if verb.thread is None else None
    ttl_s = default_s if verb.ttl_s is UNSET else verb.ttl_s
    created_at = moment(now_ms)
    return Artifact(
        ref=stores.new_ref(),
        type=verb.type or guessed,
        media_type=media_type,
        name=verb.name,
        size_bytes=description.size_bytes,
        sha256=description.sha256,
        is_text=description.is_text,
        created_at=created_at,
        expires_at=None if ttl_s is None else moment(now_ms + ttl_s * 1000),
        ttl_s=ttl_s,
        metadata=verb.metadata,
        provenance=Provenance(
            created_by=verb.created_by,
            created_at=created_at,
            capability=verb.capability,
            source_refs=tuple(dict.fromkeys(verb.source_refs)),
        ),
        preview=preview(
            description.head,
            description.size_bytes,
            description.line_count,
            description.is_text,
        ),
        thread=verb.thread,
        has_own_ttl=verb.ttl_s is not UNSET and ttl_s is not None,
    )


def _created(stores: Stores, artifact: Artifact) -> Write:
    event = Event(
        id=stores.random_bytes(8).hex(),
        type="artifact.created",
        at=artifact.created_at,
        by=artifact.provenance.created_by,
        detail={"sha256": artifact.sha256, "size": artifact.size_bytes},
    )
    rows = [artifact_row(artifact)]
    if artifact.thread is not None:
        rows.append(Row("holder", artifact.thread, b""))
    fact = chain.encode(event, b"")
    return Write(artifact_log(artifact.ref), (fact,), tuple(rows), expect=0)
