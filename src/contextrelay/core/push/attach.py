"""Attach: an artifact goes into a thread as one patch of its state, in one write with its event."""

from __future__ import annotations

from contextrelay.core.artifacts.holds import held_row
from contextrelay.core.artifacts.lifetime import bury
from contextrelay.core.idempotency import may_go_on, step
from contextrelay.core.stores import Stores
from contextrelay.core.threads.patch import change
from contextrelay.errors import RelayError, Unavailable
from contextrelay.logic.document.patch import Operation
from contextrelay.model.artifact import Artifact
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.model.thread import Event

Addition = Event | Operation
"""What is written with the patch that puts an artifact into a thread: an event, or more of it."""


def put(stores: Stores, artifact: Artifact, *additions: Addition) -> None:
    """Append an artifact, which is stored already, to the state of its thread."""
    thread = artifact.thread
    assert thread is not None
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
    is_handoff = artifact.media_type == HANDOFF_MEDIA_TYPE
    try:
        change(
            step(stores, artifact.ref),
            thread,
            [
                Operation(op="add", path="/artifacts/-", value=entry),
                *(each for each in additions if isinstance(each, Operation)),
            ],
            artifact.provenance.created_by,
            events=(event, *(each for each in additions if isinstance(each, Event))),
            rows=(held_row(artifact),),
            # What a handoff hands over stays as long as the thread it is of.
            holding=artifact.provenance.source_refs if is_handoff else (),
        )
    except Unavailable:
        raise  # It may have been done: a sweep finds out.
    except RelayError as error:
        if not may_go_on(stores, error):
            bury(stores, [artifact], "removed")
        raise
