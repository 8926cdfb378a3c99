"""Reports and task outputs: added to their thread with its events, in one write."""

from __future__ import annotations

from contextrelay.content.artifact_type import MEDIA_TYPE_OF
from contextrelay.core.idempotency import step
from contextrelay.core.push.attach import Addition, PatchTerms
from contextrelay.core.push.push import find_earlier_push, push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.core.threads.patch import new_event
from contextrelay.core.threads.threads import retention_row
from contextrelay.documents.bounds import check_json
from contextrelay.errors import Refused
from contextrelay.limits import EVENT_BYTES_MAX
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.thread import Event
from contextrelay.verbs import Body, Push, PutOutput, PutReport

_TYPES: dict[str, ArtifactType] = {"md": "markdown", "json": "json", "html": "html"}


@answers(PutReport)
def put_report(stores: Stores, verb: PutReport, body: Body) -> Artifact:
    def event(artifact: Artifact) -> tuple[Event, ...]:
        detail = {"artifact_ref": artifact.ref, "format": verb.format}
        return (new_event(stores, "report.generated", verb.by, detail),)

    # A report that is written again has a different text, so the report already stored is used.
    once = step(stores, "report", takes_any=True)
    if (before := find_earlier_push(once, verb.thread)) is not None:
        return before
    push = Push(
        name=f"report.{verb.format}",
        type=_TYPES[verb.format],
        media_type=MEDIA_TYPE_OF[_TYPES[verb.format]],
        created_by=verb.by,
        thread=verb.thread,
    )
    return push_with_events(once, push, body, event)


@answers(PutOutput)
def put_output(stores: Stores, verb: PutOutput, body: Body) -> Artifact:
    if find_record(stores.ledger, verb.thread).kind != "task":
        raise Refused(
            f"thread {verb.thread} is not a task", "list the tasks: relay thread list --kind task"
        )
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    check_json(verb.end, "end", EVENT_BYTES_MAX)

    def additions(artifact: Artifact) -> tuple[Addition, ...]:
        detail = {**verb.detail, "ref": artifact.ref}
        made = new_event(stores, "task.artifact", verb.by, detail)
        if verb.end is None:
            return (made,)
        end = new_event(stores, "task.status", verb.by, verb.end)
        return made, end, PatchTerms(rows=(retention_row(stores, True),))

    push = Push(name=verb.name, media_type=verb.media_type, created_by=verb.by, thread=verb.thread)
    return push_with_events(stores, push, body, additions)
