"""Runs: an answer becomes an artifact, an action and a patch of its thread, in one write."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from contextrelay.core.push.attach import Addition, Terms
from contextrelay.core.push.push import push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import numbered
from contextrelay.core.threads.patch import append_event, new_event
from contextrelay.documents.bounds import check_json
from contextrelay.documents.patch import read_operations
from contextrelay.limits import EVENT_BYTES_MAX
from contextrelay.model.artifact import EXCHANGE_MEDIA_TYPE, Artifact
from contextrelay.model.run import CALLER, caller_name
from contextrelay.model.thread import Numbered
from contextrelay.state.schema import action, check_patch
from contextrelay.verbs import Body, FinishRun, NoteAnswer, NoteRun, Push, RecordCall


@answers(RecordCall)
def record_call(stores: Stores, verb: RecordCall, body: Body) -> Artifact:
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)

    def called(artifact: Artifact) -> tuple[Addition, ...]:
        detail = {**verb.detail, "run": verb.run, "exchange": artifact.ref}
        return (new_event(stores, "run.called", verb.by, stamped(stores, detail)),)

    push = Push(
        type="json",
        media_type=EXCHANGE_MEDIA_TYPE,
        metadata={"run": verb.run},
        created_by=verb.by,
        thread=verb.thread,
    )
    return push_with_events(stores, push, body, called)


@answers(FinishRun)
def finish_run(stores: Stores, verb: FinishRun, body: Body) -> Artifact:
    operations = read_operations(verb.operations)
    check_patch(operations)
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)

    def additions(artifact: Artifact) -> tuple[Addition, ...]:
        at = artifact.created_at.isoformat().replace("+00:00", "Z")
        done = action(verb.action, at, artifact.ref)
        detail = {**verb.detail, "run": verb.run, "ref": artifact.ref}
        event = new_event(stores, f"run.{verb.status}", verb.by, stamped(stores, detail))
        return (Terms(verb.expected, verb.source_refs), event, *operations, done)

    push = Push(
        name=verb.name,
        type=verb.type,
        media_type=verb.media_type,
        metadata={"run": verb.run, **({"asked": verb.asked} if verb.asked else {})},
        created_by=verb.by,
        source_refs=verb.source_refs,
        thread=verb.thread,
        parts=verb.parts,
    )
    return push_with_events(stores, push, body, additions)


@answers(NoteRun)
def note_run(stores: Stores, verb: NoteRun, body: Body) -> Numbered:
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    detail = stamped(stores, {**verb.detail, "run": verb.run})
    event = new_event(stores, f"run.{verb.status}", verb.by, detail)
    return numbered(stores, verb.thread, append_event(stores, verb.thread, event), event)


@answers(NoteAnswer)
def note_answer(stores: Stores, verb: NoteAnswer, body: Body) -> Numbered:
    said = to_builtins(verb)
    detail = stamped(stores, {name: said[name] for name in said if name not in ("thread", "by")})
    event = new_event(stores, "a2a.answered", verb.by, detail)
    return numbered(stores, verb.thread, append_event(stores, verb.thread, event), event)


def stamped(stores: Stores, detail: dict[str, Any]) -> dict[str, Any]:
    """The detail of a run's event with the name of the caller's key, whatever the caller says."""
    said = {name: value for name, value in detail.items() if name != CALLER}
    if stores.caller is not None:
        said[CALLER] = caller_name(stores.caller.key)
    return said
