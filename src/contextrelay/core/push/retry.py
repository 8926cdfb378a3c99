"""Retries: what an earlier time of the same push, asked with a key, has left behind.

Rule: a ref that was taken back or closed is never used again. The next one of the same key is, so
that those who ask at once still find each other.
"""

from __future__ import annotations

from contextrelay.core.artifacts.bodies import release
from contextrelay.core.artifacts.incoming import Incoming
from contextrelay.core.artifacts.lifetime import bury
from contextrelay.core.artifacts.records import find, find_tombstone, live
from contextrelay.core.idempotency import answered_before, other_request, step
from contextrelay.core.schema import Kind, artifact_log, thread_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Unavailable
from contextrelay.limits import RETRIES_MAX, UNFINISHED_PUSH_S
from contextrelay.model.artifact import Artifact, in_ms
from contextrelay.store.ledger import ONLY
from contextrelay.wire.verbs import Push


def find_pushed(stores: Stores, verb: Push, sha256: str, index: int) -> tuple[str, Artifact | None]:
    """The ref of a push that has a key, and the artifact if it is there already.

    Raises:
        Gone: it was there, and went since.
        Refused: another body was stored under this key.
    """
    once = stores.once
    assert once is not None
    for attempt in range(RETRIES_MAX):
        ref = once.ref(f"{index}.{attempt}")
        # The head first: what is there after that was not written since.
        if stores.ledger.last(artifact_log(ref)) == 0:
            return ref, None
        artifact = find(stores.ledger, ref)
        if artifact is not None:
            if artifact.sha256 != sha256 and not once.takes_any:
                raise other_request()
            old_ms = stores.now_ms() - UNFINISHED_PUSH_S * 1000 // 2
            is_old = verb.thread is not None and in_ms(artifact.created_at) < old_ms
            if not (is_old and not _was_whole(stores, verb, artifact.ref)):
                stores.ledger.confirm(artifact_log(ref))
                # Read again: a fail-over may have taken back what was read before it.
                return ref, find(stores.ledger, ref)
            bury(stores, [artifact], "removed")
        if find_tombstone(stores.ledger, ref) is not None:
            if _was_whole(stores, verb, ref):
                live(stores, ref)
        elif stores.ledger.get(artifact_log(ref), Kind.CLOSED, ONLY) is None:
            # During a fail-over, two reads may be answered by servers that differ.
            raise Unavailable("the store changes while it is read", "push it again, with the key")
        # A sweep took it for dead, or it was taken back because the rest of it failed: begin again.
    raise Unavailable("this push was cut short too often", "push it with a new key")


def _was_whole(stores: Stores, verb: Push, ref: str) -> bool:
    """Whether a push that is gone had done all that was asked."""
    if verb.thread is None:
        assert stores.once is not None
        return not stores.once.part
    return answered_before(step(stores, ref), thread_log(verb.thread)) is not None


def let_go(stores: Stores, tried: list[tuple[Incoming, str]]) -> None:
    """Let go of bodies held for refs that are taken: closed by a sweep, or with another body."""
    holds: list[tuple[str, str]] = []
    for incoming, ref in tried:
        sha256 = incoming.description.sha256
        # A ref that is still free may be held for by the same request, which is about to take it.
        if stores.ledger.last(artifact_log(ref)):
            artifact = find(stores.ledger, ref)
            if artifact is None or artifact.sha256 != sha256:
                holds.append((sha256, ref))
    release(stores, holds)
