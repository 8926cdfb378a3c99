"""Runs of models and pipelines: their records, written by their owner, and decisions by anyone.

Rule: a pipeline's run is a thread of kind `pipeline`, and its row `owner` names who started it: the
id of a key, or nothing for the store's owner. No verb changes that row, and no copy, fork or import
of a thread has it. So only the owner decides what a run executes, whoever else may write to its
thread.
"""

from __future__ import annotations

from typing import Any

from msgspec import ValidationError, convert, to_builtins

from contextrelay.core.artifacts.records import live
from contextrelay.core.channels import decoded
from contextrelay.core.idempotency import step
from contextrelay.core.push.attach import Addition, PatchTerms
from contextrelay.core.push.push import push_with_events
from contextrelay.core.registry import answers
from contextrelay.core.schema import RowKind
from contextrelay.core.stores import Stores
from contextrelay.core.threads.events import numbered
from contextrelay.core.threads.head import LiveState, find_record
from contextrelay.core.threads.patch import append_event, change, new_event
from contextrelay.core.threads.threads import caller_id, make, retention_row
from contextrelay.documents.bounds import check_json
from contextrelay.documents.patch import read_operations
from contextrelay.errors import Conflict, Forbidden, Invalid, NotFound
from contextrelay.limits import EVENT_BYTES_MAX
from contextrelay.model.artifact import EXCHANGE_MEDIA_TYPE, Artifact
from contextrelay.model.key import caller_name, qualified_name
from contextrelay.model.names import KEYS, channel_log, thread_log
from contextrelay.model.pipeline import (
    DEFINITION_MEDIA_TYPE,
    RunEnded,
    RunResumed,
    RunStarted,
    StepDetail,
)
from contextrelay.model.run import CALLER, FINAL, STEP_EVENT, FinishedStep, quote_name
from contextrelay.model.thread import Event, Numbered, ThreadView
from contextrelay.state import schema
from contextrelay.state.schema import action, check_patch
from contextrelay.store.ledger import ONLY, Row
from contextrelay.verbs import (
    BeginPipeline,
    Body,
    CancelPipeline,
    DecideStep,
    FinishRun,
    FinishStep,
    NoteAnswer,
    NotePipeline,
    NoteRun,
    Push,
    RecordCall,
    ResumePipeline,
)


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
        return (PatchTerms(verb.expected, verb.source_refs), event, *operations, done)

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
    """Return the detail of a run's event, with the verified name of the caller's key added."""
    said = {name: value for name, value in detail.items() if name != CALLER}
    if stores.caller is not None:
        said[CALLER] = caller_name(stores.caller.key)
    return said


_WAITING = b"waiting"


@answers(BeginPipeline)
def begin_pipeline(stores: Stores, verb: BeginPipeline, body: Body) -> ThreadView:
    view = make(stores, verb.name, verb.by, None, None, kind="pipeline")

    def started(artifact: Artifact) -> tuple[Addition, ...]:
        detail = RunStarted(
            name=verb.name,
            definition=artifact.ref,
            sha256=artifact.sha256,
            parallel=verb.parallel,
            on=verb.on,
            runner=verb.runner,
        )
        return (_event(stores, "pipeline.started", verb.by, detail),)

    push = Push(
        name="definition",
        type="json",
        media_type=DEFINITION_MEDIA_TYPE,
        created_by=verb.by,
        thread=view.thread_id,
    )
    push_with_events(step(stores, "definition"), push, body, started)
    return view


@answers(ResumePipeline)
def resume_pipeline(stores: Stores, verb: ResumePipeline, body: Body) -> Numbered:
    _check_owner(stores, verb.thread)
    detail = RunResumed(
        runner=verb.runner, parallel=verb.parallel, on=verb.on, budget=dict(verb.budget)
    )
    event = _event(stores, "pipeline.resumed", verb.by, detail)
    return _append(stores, verb.thread, event, retention_row(stores, is_over=False))


@answers(NotePipeline)
def note_pipeline(stores: Stores, verb: NotePipeline, body: Body) -> Numbered:
    _check_owner(stores, verb.thread)
    if verb.ended is None:
        event = _event(stores, "pipeline.alive", verb.by, None)
    else:
        event = _event(stores, "pipeline.finished", verb.by, verb.ended)
    return _append(stores, verb.thread, event, retention_row(stores, verb.ended is not None))


@answers(CancelPipeline)
def cancel_pipeline(stores: Stores, verb: CancelPipeline, body: Body) -> Numbered:
    if verb.is_gone:
        # Only the owner can know that the process of a run is gone.
        _check_owner(stores, verb.thread)
    else:
        _owner(stores, verb.thread)
        return _append(stores, verb.thread, _event(stores, "pipeline.cancel", verb.by, None))
    ended = RunEnded(
        status="cancelled",
        reason=f"cancelled by {_named_caller(stores, verb.by)}",
        hint=f"resume it: relay pipeline resume {verb.thread[:8]}",
    )
    event = _event(stores, "pipeline.finished", verb.by, ended)
    return _append(stores, verb.thread, event, retention_row(stores, is_over=True))


@answers(DecideStep)
def decide_step(stores: Stores, verb: DecideStep, body: Body) -> Numbered:
    _owner(stores, verb.thread)
    decided_by = _named_caller(stores, verb.by)
    if verb.channel is not None:
        # The process of the run is waiting, and continues with the decision that it reads.
        _check_owner(stores, verb.thread)
        decided_by = _sender(stores, verb.channel, verb.signal)

    def check(live: LiveState) -> None:
        now = stores.ledger.get(thread_log(verb.thread), RowKind.STEP, verb.step)
        if now is None:
            raise NotFound(
                f"step {verb.step!r} is not waiting for a decision",
                "see its steps: relay pipeline show RUN",
            )
        if now != _WAITING:
            raise _ended(verb.step, now)

    status = "done" if verb.is_approved else "failed"
    detail = {
        "step": verb.step,
        "status": status,
        "ref": None,
        "kind": "approve",
        "reason": verb.reason,
        "decided_by": decided_by,
    }
    event = _event(stores, STEP_EVENT, verb.by, detail)
    return _append(
        stores, verb.thread, event, Row(RowKind.STEP, verb.step, status.encode()), check=check
    )


@answers(FinishStep)
def finish_step(stores: Stores, verb: FinishStep, body: Body) -> FinishedStep:
    _check_owner(stores, verb.thread)
    check_json(verb.detail, "detail", EVENT_BYTES_MAX)
    log = thread_log(verb.thread)
    rows: tuple[Row, ...] = ()
    if verb.status in FINAL or verb.status == "waiting":
        rows = (Row(RowKind.STEP, verb.step, verb.status.encode()),)
    elif verb.status == "pending":
        rows = (Row(RowKind.STEP, verb.step, None),)

    def check(live: LiveState) -> None:
        now = stores.ledger.get(log, RowKind.STEP, verb.step)
        if now is None or verb.status == "pending":
            return
        if now != _WAITING:
            raise _ended(verb.step, now)
        if verb.status in FINAL:
            raise Conflict(
                f"step {verb.step!r} is waiting for a decision",
                "decide it: relay pipeline approve RUN STEP",
            )

    def event(ref: str | None) -> Event:
        said = {**verb.detail, "step": verb.step, "status": verb.status, "ref": ref}
        return _event(stores, STEP_EVENT, verb.by, said)

    event(None)  # Build the event before anything is stored, to find errors in it.

    def additions(artifact: Artifact) -> tuple[Addition, ...]:
        return (PatchTerms(rows=rows, check=check), event(artifact.ref))

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


# Owners of runs


def _check_owner(stores: Stores, thread: str) -> None:
    """Raise Forbidden if the caller did not start a run."""
    if _owner(stores, thread) != caller_id(stores):
        raise Forbidden(
            f"run {thread} belongs to another caller: only its owner can resume or record it",
            "use the key that started it, or start your own run: relay pipeline run FILE",
        )


def _owner(stores: Stores, thread: str) -> str:
    """Return the owner of a run: the id of a key, or "" for the store's owner.

    Raises:
        NotFound: the thread is not a pipeline run.
        Forbidden: the thread is a copy of a run, or was started by an earlier version.
    """
    record = find_record(stores.ledger, thread)
    owner = stores.ledger.get(thread_log(thread), RowKind.OWNER, ONLY)
    if record.kind == "pipeline" and owner is not None:
        return owner.decode()
    hint = "start a new run: relay pipeline run FILE"
    if record.kind == "pipeline":
        raise Forbidden(
            f"run {thread} was started by an earlier version, which stored no owner", hint
        )
    if record.forked_from is not None:
        raise Forbidden(f"thread {thread} is a copy: only the run itself can be resumed", hint)
    raise NotFound(f"thread {thread} is not a pipeline run", "list the runs: relay pipeline list")


def _named_caller(stores: Stores, label: str) -> str:
    """Return the author of a decision, whose name begins with that of the caller's key."""
    return quote_name(label) if stores.caller is not None else _named_without_key(stores, label)


def _named_without_key(stores: Stores, label: str) -> str:
    """Return an unverified label.

    If the store has keys, the text cannot be mistaken for the name of a key.
    """
    has_keys = bool(stores.root.ledger.logs(KEYS, "", 1))
    name = quote_name(label)
    return f"no key as {name}" if has_keys else name


def _sender(stores: Stores, channel: str, seq: int) -> str:
    """Return the sender of a signal: the key, the given label, and the channel.

    Raises:
        NotFound: the signal does not exist.
    """
    facts = stores.ledger.read(channel_log(channel), seq - 1, 1)
    if not facts or facts[0].seq != seq:
        raise NotFound(f"signal {seq} not found on channel {channel!r}", "read the channel again")
    sent = decoded(facts[0], channel)
    key_first = qualified_name(sent.key, sent.by)
    by = quote_name(key_first) if sent.key else _named_without_key(stores, sent.by)
    return f"{by} on {quote_name(channel)}"


# Events


def _event(stores: Stores, type: str, by: str, detail: Any) -> Event:
    """Return an event of a run, with the caller's key in its detail.

    Raises:
        Invalid: the detail does not match the type of the event.
    """
    said = stamped(stores, to_builtins(detail) or {})
    if type == STEP_EVENT:
        try:
            convert(said, StepDetail)
        except ValidationError as error:
            raise Invalid(f"invalid detail of a step: {error}", "correct that field") from error
    return new_event(stores, type, by, said)


def _append(stores: Stores, thread: str, event: Event, *rows: Row, check: Any = None) -> Numbered:
    return numbered(stores, thread, append_event(stores, thread, event, rows, check), event)


def _ended(step: str, status: bytes) -> Conflict:
    return Conflict(
        f"step {step!r} has already ended: {status.decode()}",
        "see its result: relay pipeline show RUN",
        {"status": status.decode()},
    )
