"""Putting: an artifact goes into a thread as one patch of its state, with one event beside it."""

from __future__ import annotations

from contextrelay.core.changes import change
from contextrelay.core.holding import held_row, weight
from contextrelay.core.live import head_of
from contextrelay.core.lives import bury
from contextrelay.core.savings import weights_of
from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.logic.patch import Operation
from contextrelay.model.artifact import Artifact
from contextrelay.model.event import Event


def put(stores: Stores, artifact: Artifact) -> None:
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
    live = head_of(stores, thread)
    with live.lock:
        before = weights_of(stores, thread, live)
        live.weights = before.plus(weight(artifact))
        try:
            change(
                stores,
                thread,
                [Operation(op="add", path="/artifacts/-", value=entry)],
                artifact.provenance.created_by,
                beside=(event,),
                rows=(held_row(artifact),),
            )
        except RelayError:
            live.weights = before
            bury(stores, [artifact], "removed")
            raise
