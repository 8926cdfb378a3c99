"""Pushes: receive bodies and create artifacts from them.

Rule: a push is one commit: body and hold, artifact, index, lineage, signal, and the patch and event
of its thread. A large body is a blob, written before; after a crash, a sweep finds it by its age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import UNSET

from contextrelay.content.artifact_type import artifact_type, declared_type, is_media_type
from contextrelay.content.description import Description
from contextrelay.content.preview import hidden, preview
from contextrelay.core.artifacts.catalog import index_writes
from contextrelay.core.artifacts.incoming import (
    Incoming,
    check_size,
    hold_in_parallel,
    hold_in_sequence,
    receive_joined,
)
from contextrelay.core.artifacts.records import (
    artifact_row,
    description_hash,
    find,
    find_tombstone,
    lease,
    live,
)
from contextrelay.core.channels import signal_writes, trim_surplus
from contextrelay.core.idempotency import other_request
from contextrelay.core.registry import answers
from contextrelay.core.schema import ARTIFACTS, REQUESTS, UNREADABLE, RowKind, artifact_log, damaged
from contextrelay.core.stores import Stores
from contextrelay.documents.bounds import check_channel, check_json, check_label, check_name
from contextrelay.errors import Broken, Invalid, RelayError, Unavailable, Unconfirmed
from contextrelay.limits import METADATA_BYTES_MAX, MIB, RETRIES_MAX
from contextrelay.model.artifact import Artifact, ArtifactType, Preview, Provenance, from_ms
from contextrelay.model.thread import Event
from contextrelay.state import event_chain
from contextrelay.store.ledger import ONLY, Row, Stale, Write
from contextrelay.verbs import Body, Push, PushMany

if TYPE_CHECKING:
    from contextrelay.core.push.attach import Addition


Additions = Callable[[Artifact], "tuple[Addition, ...]"]


@answers(Push)
def push(stores: Stores, verb: Push, body: Body) -> Artifact:
    return push_with_events(stores, verb, body, lambda artifact: ())


def push_with_events(stores: Stores, verb: Push, body: Body, additions: Additions) -> Artifact:
    """Push a body, with additions to its commit: writes, and for a thread also events, operations
    and terms.
    """
    check_push(verb)
    _check_threads(stores, [verb])
    with receive_joined(stores, verb.parts, body, verb.sealed) as incoming:
        return _store(stores, [(verb, incoming)], additions)[0]


def push_each(stores: Stores, asked: list[tuple[Push, bytes]]) -> list[Artifact | RelayError]:
    """Push the bodies of concurrent requests in one commit; return an artifact or an error for
    each.

    If the engine fails, that applies to all. After any other error each is pushed alone: only one
    of them may have caused it, for example by a damaged record of its body.
    """
    answers: list[Artifact | RelayError] = []
    with ExitStack() as open_bodies:
        batch: list[tuple[int, Push, Incoming]] = []
        for index, (verb, body) in enumerate(asked):
            try:
                check_push(verb)
                received = receive_joined(stores, verb.parts, body, verb.sealed)
                incoming = open_bodies.enter_context(received)
                batch.append((index, verb, incoming))
                answers.append(_NOT_PUSHED)
            except RelayError as error:
                answers.append(error)
        try:
            refs = stores.new_refs(len(batch))
            fresh = [(verb, each, ref) for (_, verb, each), ref in zip(batch, refs, strict=True)]
            made = _keep(stores, fresh, hold=hold_in_parallel)
            assert made is not None, "a new ref is already in use"
        except (Unavailable, Unconfirmed) as error:
            made = [error] * len(batch)
        except (RelayError, *UNREADABLE):
            made = None
    if made is None:
        made = [_push_alone(stores, *asked[index]) for index, _, _ in batch]
    for (index, _, _), answer in zip(batch, made, strict=True):
        answers[index] = answer
    return answers


def _push_alone(stores: Stores, verb: Push, body: bytes) -> Artifact | RelayError:
    try:
        return push(stores, verb, body)
    except RelayError as error:
        return error
    except UNREADABLE as error:
        return damaged(error)


_NOT_PUSHED = Invalid("not pushed")
_BATCH_ITEMS_MAX = 1_000
_BATCH_BYTES_MAX = 8 * MIB


@answers(PushMany)
def push_many(stores: Stores, verb: PushMany, body: Body) -> list[Artifact]:
    if len(verb.items) != len(verb.sizes):
        raise Invalid(
            f"{len(verb.items)} items, but {len(verb.sizes)} sizes", "send one size per item"
        )
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
    next(pieces, None)  # If there are no items, any body is too long.
    return stored


def _check_threads(stores: Stores, verbs: list[Push]) -> None:
    """Raise an error for a thread that does not exist or is closed, before anything is stored."""
    if stores.once is not None and stores.once.is_retry:
        return  # An earlier attempt of a retry may have succeeded, with the thread closed since.
    for thread in dict.fromkeys(verb.thread for verb in verbs):
        if thread is not None:
            from contextrelay.core.threads.head import check_open

            check_open(stores, thread)


def check_push(verb: Push) -> None:
    """Raise Invalid for a description that could not be returned exactly."""
    if verb.name is not None:
        check_name(verb.name)
    if verb.media_type is not None and not is_media_type(verb.media_type):
        raise Invalid(
            f"invalid media type {verb.media_type!r}: expected type/subtype",
            "for example text/markdown",
        )
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
    """Store a batch of received bodies; `start` is the number of earlier bodies in the same
    request.

    Consecutive pushes share a commit; a push into a thread commits with its patch.
    """
    groups: list[list[tuple[Push, Incoming]]] = []
    for each in batch:
        if groups and each[0].thread is None and groups[-1][-1][0].thread is None:
            groups[-1].append(each)
        else:
            groups.append([each])
    made: list[Artifact] = []
    for group in groups:
        made += _store_together(stores, group, additions, start + len(made))
    return made


def _store_together(
    stores: Stores, group: list[tuple[Push, Incoming]], additions: Additions, start: int
) -> list[Artifact]:
    """Store the pushes that an earlier attempt of the same request has not stored; return all
    artifacts.
    """
    for _ in range(RETRIES_MAX):
        found = [
            _find_pushed(stores, verb, incoming.description.sha256, start + index)
            for index, (verb, incoming) in enumerate(group)
        ]
        missing = [
            (*each, ref) for each, (ref, artifact) in zip(group, found, strict=True) if not artifact
        ]
        made = _keep(stores, missing, additions)
        if made is not None:
            fresh = iter(made)
            return [artifact or next(fresh) for _, artifact in found]
        # The same request, sent in parallel, was faster.
    raise Unavailable("too many concurrent requests with this key", "try again")


def find_earlier_push(stores: Stores, thread: str | None) -> Artifact | None:
    """Return the artifact that an earlier attempt of the same request has pushed, or None."""
    if stores.once is None or not stores.once.is_retry:
        return None
    return _find_pushed(stores, Push(thread=thread), "", 0)[1]


def _find_pushed(
    stores: Stores, verb: Push, sha256: str, index: int
) -> tuple[str, Artifact | None]:
    """Return the ref for a push, and the artifact that an earlier attempt has stored under that
    ref.

    Raises:
        Gone: the artifact was stored, and removed since.
        Refused: another body was stored under this key.
    """
    once = stores.once
    if once is None:
        return stores.new_ref(), None
    for attempt in range(RETRIES_MAX):
        ref = once.ref(f"{index}.{attempt}")
        log = artifact_log(ref)
        # Read the head first: it does not move if the row found afterwards was written before.
        if stores.ledger.last(log) == 0:
            return ref, None
        stores.ledger.confirm(log)
        artifact = find(stores.ledger, ref)
        if artifact is not None:
            if artifact.sha256 != sha256 and not once.takes_any:
                raise other_request()
            return ref, artifact
        if find_tombstone(stores.ledger, ref) is not None:
            # A step of a request may remove what it has pushed, and push it again.
            if verb.thread is not None or not once.part:
                live(stores, ref)
        elif stores.ledger.get(log, RowKind.CLOSED, ONLY) is None:
            # During a fail-over, two reads may be answered by servers with different data.
            raise Unavailable("the store changed during a read", "push again with the same key")
    raise Unavailable("this push was interrupted too often", "push with a new key")


Hold = Callable[[Stores, list[tuple[Incoming, list[str]]], bool], list[Write]]
Item = tuple[Push, Incoming, str]
"""A push, its body, and the ref of the new artifact."""


def _keep(
    stores: Stores,
    items: list[Item],
    additions: Additions = lambda artifact: (),
    hold: Hold = hold_in_sequence,
) -> list[Artifact] | None:
    """Store bodies and their records in one commit; return the artifacts, or None if a ref is in
    use.

    Raises:
        Full: the quota of the caller's key has no room for the bodies.
    """
    if not items:
        return []
    now_ms = stores.now_ms()
    made = [_made(stores, verb, incoming, ref, now_ms) for verb, incoming, ref in items]
    derived = [
        Write(artifact_log(source), rows=(Row(RowKind.DERIVED, artifact.ref, b""),))
        for artifact in made
        for source in artifact.provenance.source_refs
    ]
    for write in derived:
        live(stores, write.log.removeprefix(ARTIFACTS))
    by_hash: dict[str, tuple[Incoming, list[str]]] = {}
    for artifact, (_, incoming, _) in zip(made, items, strict=True):
        by_hash.setdefault(artifact.sha256, (incoming, []))[1].append(artifact.ref)
    signals = signal_writes(stores, made)
    others = [
        *index_writes(made, now_ms),
        *derived,
        *_created(stores, made),
    ]
    quota = stores.quota
    if quota is not None:
        others.append(quota.charge(sum(incoming.new_bytes for _, incoming, _ in items)))
    try:
        for attempt in range(RETRIES_MAX):
            try:
                # Most bodies are new. If one is not, the first commit is stale.
                holds = hold(stores, list(by_hash.values()), attempt == 0)
                writes = [*signals, *holds, *others]
                heads = _commit_all(stores, made, writes, additions)
            except Stale as stale:
                if quota is not None and quota.is_full(stale):
                    raise quota.used_up() from stale
                if not stale.log.startswith((ARTIFACTS, REQUESTS)):
                    continue
                heads = []
            if not heads:
                _abandon(stores, items)
                return None
            trim_surplus(stores, signals, heads[: len(signals)])
            return made
    except (Unavailable, Unconfirmed):
        raise  # The commit may have succeeded. If it did not, a sweep deletes the blobs.
    except RelayError:
        _abandon(stores, items)
        raise
    raise Unavailable("too many concurrent changes to the same content", "try again")


def _commit_all(
    stores: Stores, made: list[Artifact], writes: list[Write], additions: Additions
) -> list[int]:
    """Commit the writes of pushes; a push into a thread commits alone, with its patch.

    Return the heads of the logs of `writes`, or an empty list if the same request, sent in
    parallel, was faster.
    """
    if made[0].thread is None:
        also = (each for artifact in made for each in additions(artifact))
        return stores.ledger.commit(*writes, *(each for each in also if isinstance(each, Write)))
    from contextrelay.core.push.attach import put

    (artifact,) = made
    return put(stores, artifact, *additions(artifact), writes=writes)


def _abandon(stores: Stores, items: list[Item]) -> None:
    for _, incoming, _ in items:
        with suppress(Broken):  # A sweep deletes its blob.
            incoming.abandon(stores)


def _made(stores: Stores, verb: Push, incoming: Incoming, ref: str, now_ms: int) -> Artifact:
    description = incoming.description
    kind, media_type = _kind(verb, description)
    default_s = stores.settings.ttl_s if verb.thread is None else None
    ttl_s = default_s if verb.ttl_s is UNSET else verb.ttl_s
    created_at = from_ms(now_ms)
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
    """Return the type and media type of a body: detected, or for a sealed body as the pusher
    declares them.
    """
    if verb.sealed is not None:
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


def _created(stores: Stores, made: list[Artifact]) -> Iterator[Write]:
    """Yield the writes that create artifacts, each with the first event of its life."""
    ids = stores.random_bytes(8 * len(made))
    for index, artifact in enumerate(made):
        event = Event(
            id=ids[8 * index : 8 * index + 8].hex(),
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
            rows.append(Row(RowKind.HOLDER, artifact.thread, b""))
        fact = event_chain.encode(event, b"")
        yield Write(artifact_log(artifact.ref), (fact,), tuple(rows), expect=0)


def pieces_of(body: Body, sizes: list[int]) -> Iterator[bytes]:
    """Split a stream of concatenated bodies; yield each body."""
    chunks = iter((body,) if isinstance(body, bytes) else body)
    rest = b""
    for index, size in enumerate(sizes):
        parts = [rest]
        have = len(rest)
        while have < size:
            chunk = next(chunks, None)
            if chunk is None:
                raise Invalid(
                    "the bodies are shorter than the sum of sizes", "send complete bodies"
                )
            parts.append(chunk)
            have += len(chunk)
        joined = b"".join(parts)
        rest = joined[size:]
        if index + 1 == len(sizes):
            _check_end(rest, chunks)  # Check the end of the stream before the last body is stored.
        yield joined[:size]
    if not sizes:
        _check_end(rest, chunks)


def _check_end(rest: bytes, chunks: Iterator[bytes]) -> None:
    if rest or any(chunks):
        raise Invalid("the bodies are longer than the sum of sizes", "send one size per body")
