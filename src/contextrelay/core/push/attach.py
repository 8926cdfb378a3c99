"""Attach: add an artifact to a thread as one patch of its state, in one write with its event."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from contextrelay.core.artifacts.holds import held_row
from contextrelay.core.idempotency import step
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import LiveState
from contextrelay.core.threads.patch import SharedWrites, append_event, change
from contextrelay.documents.patch import Operation
from contextrelay.model.artifact import Artifact, is_exchange
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.model.thread import Event
from contextrelay.store.ledger import Row, Write


class PatchTerms(Struct, frozen=True):
    """Conditions and additional effects of the patch that adds an artifact to a thread."""

    expected: int | None = None
    """The version of the thread that must be current."""
    holding: tuple[str, ...] = ()
    """Refs that the thread holds after the patch, besides the artifact."""
    rows: tuple[Row, ...] = ()
    """Rows written together with the patch."""
    check: Callable[[LiveState], None] | None = None
    """Called with the current state; raises an error to refuse the patch."""


Addition = Event | Operation | PatchTerms | Write
"""An addition to the patch that adds an artifact: an event, an operation, terms, or a write of
the same commit.
"""


def put(stores: Stores, artifact: Artifact, *additions: Addition, writes: list[Write]) -> list[int]:
    """Append an artifact to the state of its thread, in the commit that stores the artifact.

    An exchange is not part of the state: the thread holds it, and has an event that names it.
    `writes` store the artifact. Return the heads of the logs of `writes` after the commit, or an
    empty list if the same request, sent in parallel, was faster.
    """
    shared = SharedWrites([*writes, *(each for each in additions if isinstance(each, Write))])
    if is_exchange(artifact):
        _record(stores, artifact, additions, shared)
    else:
        _append(stores, artifact, additions, shared)
    return shared.heads


def _record(
    stores: Stores, artifact: Artifact, additions: tuple[Addition, ...], shared: SharedWrites
) -> None:
    assert artifact.thread is not None
    (event,) = (each for each in additions if isinstance(each, Event))
    rows = (held_row(artifact),)
    append_event(step(stores, artifact.ref), artifact.thread, event, rows, shared=shared)


def _append(
    stores: Stores, artifact: Artifact, additions: tuple[Addition, ...], shared: SharedWrites
) -> None:
    thread = artifact.thread
    assert thread is not None
    terms = next((each for each in additions if isinstance(each, PatchTerms)), PatchTerms())
    entry = {"ref": artifact.ref, "type": artifact.type}
    if artifact.name is not None:
        entry["name"] = artifact.name
    event = Event(
        id=stores.random_bytes(8).hex(),
        type="artifact.created",
        at=artifact.created_at,
        by=artifact.provenance.created_by,
        detail={"ref": artifact.ref, "type": artifact.type, "size": artifact.size_bytes},
    )
    # The refs of a handoff are kept as long as the thread of the handoff.
    is_handoff = artifact.media_type == HANDOFF_MEDIA_TYPE
    change(
        step(stores, artifact.ref),
        thread,
        [
            Operation(op="add", path="/artifacts/-", value=entry),
            *(each for each in additions if isinstance(each, Operation)),
        ],
        artifact.provenance.created_by,
        expected=terms.expected,
        events=(event, *(each for each in additions if isinstance(each, Event))),
        rows=(held_row(artifact), *terms.rows),
        check=terms.check,
        holding=artifact.provenance.source_refs if is_handoff else terms.holding,
        shared=shared,
    )
