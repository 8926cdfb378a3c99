"""Lifetimes: how long an artifact is kept, and how it is removed.

Rule: every change expects the head of the artifact's log, so that a sweep and a caller cannot both
win. A removed artifact leaves a tombstone; its body is released only after the tombstone is
written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay.core.artifacts import bodies
from contextrelay.core.artifacts.catalog import unindex_write
from contextrelay.core.artifacts.records import (
    artifact_row,
    description_hash,
    find,
    find_tombstone,
    lease,
    live,
    tombstone_row,
)
from contextrelay.core.idempotency import find_earlier_answer, once_rows
from contextrelay.core.registry import answers
from contextrelay.core.schema import RowKind, artifact_log
from contextrelay.core.stores import Stores, commit_each, with_reserve
from contextrelay.errors import Conflict, Gone
from contextrelay.limits import RETRIES_MAX, TOMBSTONE_S
from contextrelay.model.artifact import Artifact, Tombstone, from_ms, to_ms
from contextrelay.model.thread import Event
from contextrelay.state import event_chain
from contextrelay.store.ledger import ONLY, Row, Stale, Write
from contextrelay.verbs import Body, Extend, Pin, Remove, Unpin

Reason = Literal["expired", "removed"]


@answers(Pin)
def pin(stores: Stores, verb: Pin, body: Body) -> Artifact:
    return _change(
        stores,
        verb.ref,
        "artifact.pinned",
        lambda artifact: replace(artifact, expires_at=None, ttl_s=None),
    )


@answers(Unpin)
def unpin(stores: Stores, verb: Unpin, body: Body) -> Artifact:
    ttl_s = verb.ttl_s or stores.settings.ttl_s
    until = from_ms(stores.now_ms() + ttl_s * 1000)

    def mortal(artifact: Artifact) -> Artifact:
        if artifact.expires_at is not None:
            return artifact
        return replace(artifact, expires_at=until, ttl_s=ttl_s, has_own_ttl=True)

    return _change(stores, verb.ref, "artifact.unpinned", mortal)


@answers(Extend)
def extend(stores: Stores, verb: Extend, body: Body) -> Artifact:
    until_ms = stores.now_ms() + verb.ttl_s * 1000

    def longer(artifact: Artifact) -> Artifact:
        if artifact.expires_at is None or to_ms(artifact.expires_at) >= until_ms:
            return artifact
        return replace(artifact, expires_at=from_ms(until_ms), ttl_s=verb.ttl_s)

    return _change(stores, verb.ref, "artifact.extended", longer)


def _change(
    stores: Stores, ref: str, event_type: str, changed: Callable[[Artifact], Artifact]
) -> Artifact:
    """Change the description of an existing artifact, unless it already is as wanted; return the
    artifact.
    """
    log = artifact_log(ref)
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(log)
        before = live(stores, ref)
        after = changed(before)
        if after == before:
            return before
        fact = _next_fact(stores, log, head, event_type, {"expires_at": lease(after)})
        try:
            stores.ledger.commit(Write(log, (fact,), (artifact_row(after),), expect=head))
        except Stale:
            continue
        return after
    raise Conflict(f"too many concurrent changes to {ref}", "try again")


def _next_fact(
    stores: Stores, log: str, head: int, event_type: str, detail: dict[str, str | None]
) -> bytes:
    previous = stores.ledger.read(log, head - 1, 1) if head else []
    event = Event(
        id=stores.random_bytes(8).hex(),
        type=event_type,
        at=from_ms(stores.now_ms()),
        by="you",
        detail=detail,
    )
    return event_chain.encode(event, previous[0].body if previous else b"")


# Removing


class Freed(Struct, frozen=True):
    """The number of bodies and bytes that a removal has freed."""

    artifacts: int = 0
    bodies: int = 0
    size_bytes: int = 0


@answers(Remove)
def remove(stores: Stores, verb: Remove, body: Body) -> Artifact:
    for _ in range(RETRIES_MAX):
        try:
            artifact = live(stores, verb.ref)
        except Gone:
            before = find_earlier_answer(stores, artifact_log(verb.ref))
            if before is None:
                raise
            return decode(before, type=Artifact)
        if replace_with_tombstones(
            stores, [artifact], "removed", once_rows(stores, encode(artifact))
        ).artifacts:
            return artifact
    raise Conflict(f"too many concurrent changes to {verb.ref}", "try again")


def replace_with_tombstones(
    stores: Stores, dead: list[Artifact], reason: Reason, rows: tuple[Row, ...] = ()
) -> Freed:
    """Replace artifacts by tombstones, then release their bodies.

    `rows` are part of the same write. If the disk is full at a step, only that step is retried: a
    retry of all steps would find the tombstone and take it for that of another caller.
    """
    groups = [
        [
            _tombstone_write(stores, artifact, reason, rows),
            unindex_write(artifact.ref, to_ms(artifact.created_at)),
        ]
        for artifact in dead
    ]
    done = with_reserve(stores, lambda: commit_each(stores.ledger, groups))
    tombstones = [
        tombstone
        for artifact, is_done in zip(dead, done, strict=True)
        if is_done and (tombstone := find_tombstone(stores.ledger, artifact.ref)) is not None
    ]
    freed_bodies, freed_bytes = with_reserve(stores, lambda: settle(stores, tombstones))
    return Freed(len(tombstones), freed_bodies, freed_bytes)


def settle(stores: Stores, tombstones: list[Tombstone]) -> tuple[int, int]:
    """Release the bodies of removed artifacts, then mark their tombstones as settled.

    After a crash in between, the tombstones are still due, and a sweep calls this function again.
    """
    freed = bodies.release(stores, [(tombstone.sha256, tombstone.ref) for tombstone in tombstones])
    forget_ms = stores.now_ms() + TOMBSTONE_S * 1000
    stores.ledger.commit(
        *(
            Write(artifact_log(tombstone.ref), rows=(tombstone_row(settled, forget_ms),))
            for tombstone in tombstones
            if (settled := replace(tombstone, is_released=True))
        )
    )
    return freed


def _tombstone_write(
    stores: Stores, artifact: Artifact, reason: Reason, rows: tuple[Row, ...]
) -> Write:
    log = artifact_log(artifact.ref)
    head = stores.ledger.last(log)
    now_ms = stores.now_ms()
    tombstone = Tombstone(
        ref=artifact.ref,
        gone_at=from_ms(now_ms),
        reason=reason,
        name=artifact.name,
        type=artifact.type,
        size_bytes=artifact.size_bytes,
        sha256=artifact.sha256,
        created_at=artifact.created_at,
        metadata=artifact.metadata,
        thread=artifact.thread,
        channel=artifact.channel,
    )
    detail: dict[str, str | None] = {"tombstone": description_hash(tombstone)}
    fact = _next_fact(stores, log, head, f"artifact.{reason}", detail)
    gone = (Row(RowKind.ARTIFACT, ONLY, None), tombstone_row(tombstone, now_ms), *rows)
    # If the artifact changed since it was read, this write must fail, and the caller decides again.
    is_same = find(stores.ledger, artifact.ref) == artifact
    return Write(log, (fact,), gone, expect=head if is_same else -1)
