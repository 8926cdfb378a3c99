"""Tasks: one step, or one item of a fan-out, done wherever a runner puts it; only refs travel.

Rule: a task ends by `FinishStep`, which stores its result with its event. Until that is committed
it may be done again, with the same key; after that never.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Encoder, decode
from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.client.run.tally import since_ms
from contextrelay.doors.pipeline.steps.child import Cancelled
from contextrelay.doors.pipeline.steps.leftovers import KEY_VARIABLE
from contextrelay.doors.pipeline.steps.python_pool import PythonPool, module_sha256
from contextrelay.doors.pipeline.steps.values import Scope, Values, fingerprint
from contextrelay.doors.wrap.output import Output
from contextrelay.errors import Conflict, Forbidden, Gone, Invalid, NotFound, RelayError
from contextrelay.limits import (
    LABEL_CHARS_MAX,
    SOURCE_REFS_MAX,
    STEP_BACKOFF_S,
    STEP_BACKOFF_S_MAX,
    STEP_JSON_BYTES_MAX,
    STEP_REASON_CHARS_MAX,
    TTL_S_MAX,
)
from contextrelay.logic.document.args_schema import check_value
from contextrelay.logic.pipeline.language import Step, values_in
from contextrelay.logic.pipeline.template import Value
from contextrelay.model.artifact import Artifact
from contextrelay.model.runs.pipeline import StepView
from contextrelay.model.runs.step import FinishedStep
from contextrelay.wire.verbs import FindResult, FinishStep, KeepResult

COMPLAINT_VARIABLE = "RELAY_COMPLAINT"
_canonical = Encoder(order="sorted")
_CACHE_KEY_CHARS = 32


class Task(Struct, frozen=True, kw_only=True):
    """What is to be done: a step with what it needs to know, and where."""

    thread: str
    key: str
    """Names the step in its run: `plan`, `review[3]`, `sub/plan`."""
    step: Step
    scope: Scope
    folder: str
    """Where commands are run, and modules are looked for: that of the pipeline's file."""
    address: str | None = None
    model: str | None = None

    @property
    def step_key(self) -> str:
        """The same for every try of this step in this run."""
        return f"{self.thread}/{self.key}"

    def env(self) -> dict[str, str]:
        """What a command of the step finds in its environment."""
        own = {
            KEY_VARIABLE: self.step_key,
            "RELAY_RUN": self.thread,
            "RELAY_STEP": self.key,
            "RELAY_THREAD": self.thread,
        }
        if self.address is not None:
            own["CONTEXTRELAY_URL"] = self.address
        return {**os.environ, **own}


class Made(Struct, frozen=True, kw_only=True):
    """What one try of a step brought: bytes, or an artifact that is stored already, or nothing."""

    output: Output | None = None
    body: bytes | None = None
    ref: str | None = None
    media_type: str | None = None
    sources: tuple[str, ...] = ()
    by: str = "pipeline"
    detail: dict[str, Any] = {}

    def whole(self) -> bytes:
        """All of it, to be looked into."""
        if self.output is not None:
            return self.output.whole()
        return self.body or b""


class Place(Struct, frozen=True):
    """Where a task is done: the relay there, its processes, and whether the run was cancelled."""

    relay: Relay
    pool: PythonPool
    stop: Event
    is_elsewhere: bool = False
    """Whether it may be another machine than that of the pipeline's file."""


Try = Callable[[Place, Task, Values, str], Made]


def perform(place: Place, task: Task, tries: Mapping[str, Try]) -> StepView:
    """Do a task to its end, which is then an event of the run; `tries` by kind of step.

    It is done, failed, or `cancelled`: then nothing of it is written, and it may be done again.

    Raises:
        Conflict: somebody else has ended this step.
        RelayError: the store does not answer.
    """
    started_s = time.monotonic()
    step, values = task.step, Values(place.relay, task.scope)
    attempts = 0
    try:
        used = values_in(replace(step, when=None, foreach=None))
        refs_in = values.refs_in(used)
        cache_key = _cache_key(task, values, used) if _is_cached(step) else ""
        found = place.relay.transport.ask(FindResult(cache_key)) if cache_key else []
        if found:
            with suppress(NotFound, Gone):  # It went meanwhile: it is made again.
                return _finish(place, task, Made(ref=found[0].ref), started_s, refs_in, 0)
        complaint, is_warned, left = "", False, step.retries
        while True:
            attempts += 1
            try:
                made = _fitting(step, tries[step.kind](place, task, values, complaint))
                break
            except _Misfit as misfit:
                if is_warned:
                    raise
                complaint, is_warned = misfit.message, True
            except (Invalid, Forbidden, Cancelled, NotFound):
                raise
            except RelayError:
                if left <= 0:
                    raise
                left -= 1
                wait_s = STEP_BACKOFF_S * 2 ** (step.retries - left - 1)
                if place.stop.wait(min(wait_s, STEP_BACKOFF_S_MAX)):
                    raise
        ended = _finish(place, task, made, started_s, refs_in, attempts)
    except Conflict:
        raise
    except RelayError as error:
        if place.stop.is_set():
            status = "cancelled"
            return StepView(step=task.key, kind=step.kind, status=status, reason=error.message)
        return _fail(place, task, error, started_s, attempts)
    if cache_key and ended.ref is not None:
        with suppress(RelayError):  # It is done, whether or not the next run finds it.
            keep = KeepResult(cache_key, ended.ref, step.cache_s or TTL_S_MAX)
            place.relay.transport.ask(keep)
    return ended


def _is_cached(step: Step) -> bool:
    """Whether results are kept here: those of capabilities have a cache of their own."""
    if step.kind == "cap":
        return False
    return step.kind == "prompt" if step.cache_s is None else step.cache_s > 0


def _cache_key(task: Task, values: Values, used: list[Value]) -> str:
    parts = fingerprint(task.step, values, used)
    if task.step.kind in ("exec", "cli", "python"):
        parts["folder"] = task.folder
    if task.step.kind == "python":
        parts["module"] = module_sha256(task.step.target, Path(task.folder))
    named = _canonical.encode({**parts, "model": task.model})
    return hashlib.sha256(named).hexdigest()[:_CACHE_KEY_CHARS]


class _Misfit(RelayError):
    """A result is not what the step's schema says."""


def _fitting(step: Step, made: Made) -> Made:
    """A result that was checked by the step's schema.

    Raises:
        _Misfit: it does not fit.
    """
    if step.out.schema is None:
        return made
    body = made.whole()
    if len(body) > STEP_JSON_BYTES_MAX:
        raise _Misfit(f"the result has {len(body):,} bytes", "answer with less")
    try:
        document = decode(_bare(body))
        check_value(document, step.out.schema, "the result")
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise _Misfit(f"the result is no JSON: {error}", "answer with JSON alone") from error
    except Invalid as error:
        raise _Misfit(f"{error.message}, as out.schema says", error.hint) from error
    if made.output is not None:
        made.output.close()
    json = "application/json"
    return replace(made, output=None, body=_canonical.encode(document), media_type=json)


def _bare(body: bytes) -> bytes:
    """JSON without the Markdown fence that models put around it."""
    text = body.strip()
    if text.startswith(b"```") and text.endswith(b"```") and b"\n" in text:
        return text.partition(b"\n")[2][:-3]
    return text


def _finish(
    place: Place, task: Task, made: Made, started_s: float, refs_in: list[str], attempts: int
) -> StepView:
    """Store what a step brought, with the event that it is done."""
    duration_ms = since_ms(started_s)
    sources = list(dict.fromkeys((*refs_in, *made.sources)))
    detail = {
        "kind": task.step.kind,
        "key": task.step_key,
        "refs_in": sources[:SOURCE_REFS_MAX],
        "attempts": attempts,
        "is_cached": not attempts,
        "duration_ms": duration_ms,
        **made.detail,
    }
    has_result = made.output is not None or made.body is not None
    verb = FinishStep(
        thread=task.thread,
        step=task.key,
        detail=detail,
        has_result=has_result,
        ref=made.ref,
        source_refs=tuple(sources[:SOURCE_REFS_MAX]) if has_result else (),
        name=task.step.out.name or (f"{task.step.name} result" if has_result else None),
        type=task.step.out.type,
        media_type=made.media_type,
        by=made.by[:LABEL_CHARS_MAX],
    )
    if made.output is not None:
        finished = made.output.store(lambda parts: replace(verb, parts=parts))
        made.output.close()
    else:
        finished: FinishedStep = place.relay.transport.ask(verb, made.body or b"")
    return StepView(
        step=task.key,
        kind=task.step.kind,
        status="done",
        ref=_ref(finished.artifact),
        by=verb.by,
        is_cached=not attempts,
        tokens_in=made.detail.get("tokens_in", 0),
        tokens_out=made.detail.get("tokens_out", 0),
        price=made.detail.get("price", "0"),
        duration_ms=duration_ms,
    )


def _ref(artifact: Artifact | None) -> str | None:
    return None if artifact is None else artifact.ref


def _fail(place: Place, task: Task, error: RelayError, started_s: float, attempts: int) -> StepView:
    """Write that a step failed, and why."""
    duration_ms = since_ms(started_s)
    reason = error.message[:STEP_REASON_CHARS_MAX]
    detail = {
        "kind": task.step.kind,
        "key": task.step_key,
        "reason": reason,
        "hint": error.hint[:STEP_REASON_CHARS_MAX],
        "error": error.code,
        "attempts": attempts,
        "duration_ms": duration_ms,
    }
    verb = FinishStep(thread=task.thread, step=task.key, status="failed", detail=detail)
    place.relay.transport.ask(verb)
    return StepView(
        step=task.key,
        kind=task.step.kind,
        status="failed",
        reason=reason,
        hint=error.hint,
        duration_ms=duration_ms,
    )


def folder_of(place: Place, task: Task) -> Path:
    """The folder of the pipeline's file; on another machine that has none, the current one.

    Raises:
        NotFound: it is no longer there. A command is never run where it was not meant to.
    """
    folder = Path(task.folder)
    if folder.is_dir():
        return folder
    if place.is_elsewhere:
        return Path.cwd()
    hint = "put it back and resume, or run the pipeline from where it is now"
    raise NotFound(f"the pipeline's folder {folder} is gone", hint)
