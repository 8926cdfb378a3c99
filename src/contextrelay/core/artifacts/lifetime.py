"""Lifetimes: how long an artifact is kept, and how it is removed.

Rule: every change expects the head of the artifact's log, so that a sweep and a caller cannot both
win. A removal is one commit: tombstone, index, hold and event. A body without holds is freed by the
next commit, together with the mark of the tombstone; after a crash in between a sweep does that.
"""

from __future__ import annotations

from collections import Counter
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
from contextrelay.core.schema import RowKind, artifact_log, body_log
from contextrelay.core.stores import Stores, author_name, commit_each, with_reserve
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
    """Change the description of an artifact, if needed; return the artifact."""
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
        by=author_name(stores),
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
    stores: Stores,
    dead: list[Artifact],
    reason: Reason,
    rows: tuple[Row, ...] = (),
    also: Callable[[Artifact], list[Write]] = lambda artifact: [],
) -> Freed:
    """Replace artifacts by tombstones and remove their holds, then free bodies without holds.

    `rows` are part of the tombstone's write, and `also` returns further writes of the same commit.
    If the disk is full at a step, only that step is retried: a retry of all steps would find the
    tombstone and take it for that of another caller.
    """
    # Of two artifacts of the same content, the second would find the head moved by the first.
    content = Counter(artifact.sha256 for artifact in dead)
    groups: list[list[Write]] = []
    for artifact in dead:
        hold, is_shared = bodies.release_write(
            stores, artifact.sha256, artifact.ref, frees=content[artifact.sha256] == 1
        )
        tombstone = _tombstone_write(stores, artifact, reason, rows, is_released=is_shared)
        unindex = unindex_write(artifact.ref, to_ms(artifact.created_at))
        groups.append([tombstone, unindex, hold, *also(artifact)])
    done = with_reserve(stores, lambda: commit_each(stores.ledger, groups))
    tombstones = [
        tombstone
        for artifact, is_done in zip(dead, done, strict=True)
        if is_done and (tombstone := find_tombstone(stores.ledger, artifact.ref)) is not None
    ]
    sizes = with_reserve(stores, lambda: _free(stores, tombstones))
    return Freed(len(tombstones), len(sizes), sum(sizes))


def settle(stores: Stores, tombstones: list[Tombstone]) -> list[int]:
    """Finish interrupted removals; return the sizes of the bodies freed, in bytes.

    An earlier version removed the hold after it wrote the tombstone.
    """
    holds = (
        Write(body_log(tombstone.sha256), rows=(Row(RowKind.HOLD, tombstone.ref, None),))
        for tombstone in tombstones
    )
    stores.ledger.commit(*holds)
    return _free(stores, tombstones)


def _free(stores: Stores, tombstones: list[Tombstone]) -> list[int]:
    """Free the bodies of removed artifacts and mark their tombstones as settled; return the sizes
    of the bodies freed, in bytes.

    Until a tombstone is settled it is due, and a sweep continues.
    """
    forget_ms = stores.now_ms() + TOMBSTONE_S * 1000
    marks: dict[str, list[Write]] = {}
    for tombstone in tombstones:
        row = tombstone_row(replace(tombstone, is_released=True), forget_ms)
        mark = [] if tombstone.is_released else [Write(artifact_log(tombstone.ref), rows=(row,))]
        marks.setdefault(tombstone.sha256, []).extend(mark)
    freed = bodies.free_each(stores, marks)
    kept = [mark for sha256, each in marks.items() if sha256 not in freed for mark in each]
    stores.ledger.commit(*kept)
    return list(freed.values())


def _tombstone_write(
    stores: Stores, artifact: Artifact, reason: Reason, rows: tuple[Row, ...], *, is_released: bool
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
        is_released=is_released,
        thread=artifact.thread,
        channel=artifact.channel,
    )
    due_ms = now_ms + TOMBSTONE_S * 1000 if is_released else now_ms
    detail: dict[str, str | None] = {"tombstone": description_hash(tombstone)}
    fact = _next_fact(stores, log, head, f"artifact.{reason}", detail)
    gone = (Row(RowKind.ARTIFACT, ONLY, None), tombstone_row(tombstone, due_ms), *rows)
    # If the artifact changed since it was read, this write must fail, and the caller decides again.
    is_same = find(stores.ledger, artifact.ref) == artifact
    return Write(log, (fact,), gone, expect=head if is_same else -1)
