"""Reports: what was written of a thread goes into it, with its event, in one write."""

from __future__ import annotations

from contextrelay.core.answers import answers
from contextrelay.core.idempotency import step
from contextrelay.core.push.push import push_with_events, pushed_before
from contextrelay.core.stores import Stores
from contextrelay.core.threads.patch import new_event
from contextrelay.logic.content.artifact_type import MEDIA_TYPE_OF
from contextrelay.model.artifact import Artifact, ArtifactType
from contextrelay.model.thread import Event
from contextrelay.wire.verbs import Body, Push, PutReport

_TYPES: dict[str, ArtifactType] = {"md": "markdown", "json": "json", "html": "html"}


@answers(PutReport)
def put_report(stores: Stores, verb: PutReport, body: Body) -> Artifact:
    def event(artifact: Artifact) -> tuple[Event, ...]:
        detail = {"artifact_ref": artifact.ref, "format": verb.format}
        return (new_event(stores, "report.generated", verb.by, detail),)

    # Written again, a report says something else: what is stored already stands.
    once = step(stores, "report", takes_any=True)
    if (before := pushed_before(once, verb.thread, event)) is not None:
        return before
    push = Push(
        name=f"report.{verb.format}",
        type=_TYPES[verb.format],
        media_type=MEDIA_TYPE_OF[_TYPES[verb.format]],
        created_by=verb.by,
        thread=verb.thread,
    )
    return push_with_events(once, push, body, event)
