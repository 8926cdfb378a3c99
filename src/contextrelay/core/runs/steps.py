"""Steps: the end of a step, its result and its event are one write to the thread of its run."""

from __future__ import annotations

from contextrelay.core.artifacts.records import live
from contextrelay.core.push.attach import Addition, Terms
from contextrelay.core.push.push import push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.schema import Kind, thread_log
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import Live
from contextrelay.core.threads.patch import append_event, change, new_event
from contextrelay.errors import Conflict
from contextrelay.limits import EVENT_BYTES_MAX
from contextrelay.logic.document.bounds import check_json
from contextrelay.logic.state import schema
from contextrelay.model.artifact import Artifact
from contextrelay.model.runs.step import CALLER, FINAL, STEP_EVENT, FinishedStep
from contextrelay.model.thread import Event
from contextrelay.store.ledger import Row
from contextrelay.wire.verbs import Body, FinishStep, Push


@answers(FinishStep)
def finish_step(stores: Stores, verb: FinishStep, body: Body) -> FinishedStep:
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    log = thread_log(verb.thread)
    rows: tuple[Row, ...] = ()
    if verb.status in FINAL:
        rows = (Row(Kind.STEP, verb.step, verb.status.encode()),)
    elif verb.status == "pending":
        rows = (Row(Kind.STEP, verb.step, None),)

    def check(live: Live) -> None:
        ended = stores.ledger.get(log, Kind.STEP, verb.step)
        if ended is not None and verb.status != "pending":
            raise Conflict(
                f"the step {verb.step} is {ended.decode()} already",
                "see what it gave: relay pipeline show RUN",
                {"status": ended.decode()},
            )

    def event(ref: str | None) -> Event:
        said = {**verb.detail, "step": verb.step, "status": verb.status, "ref": ref}
        said.pop(CALLER, None)
        if stores.caller is not None:  # Its key is known; `by` is what it says of itself.
            said[CALLER] = stores.caller.key.name or stores.caller.key.id
        return new_event(stores, STEP_EVENT, verb.by, said)

    def additions(artifact: Artifact) -> tuple[Addition, ...]:
        return (Terms(rows=rows, check=check), event(artifact.ref))

    if verb.has_result:
        push = Push(
            name=verb.name,
            type=verb.type,
            media_type=verb.media_type,
            metadata={"step": verb.step},
            created_by=verb.by,
            source_refs=verb.source_refs,
            thread=verb.thread,
            parts=verb.parts,
        )
        return FinishedStep(artifact=push_with_events(stores, push, body, additions))
    if verb.ref is None:
        append_event(stores, verb.thread, event(None), rows, check)
        return FinishedStep(artifact=None)
    artifact = live(stores, verb.ref)
    listed = [schema.artifact(artifact.ref, artifact.type, artifact.name)]
    change(stores, verb.thread, listed, verb.by, events=(event(verb.ref),), rows=rows, check=check)
    return FinishedStep(artifact=artifact)
