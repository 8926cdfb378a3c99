"""Tasks: one step, or one item of a fan-out, which any runner can run. Only refs are sent.

Rule: a task ends with the verb `FinishStep`, which stores the result and the event together. Until
that is committed, the task may be run again with the same key; after that, never.
"""

from __future__ import annotations

import hashlib
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
from contextrelay.documents.args_schema import check_value
from contextrelay.errors import Conflict, Forbidden, Gone, Invalid, NotFound, RelayError
from contextrelay.identity import AGENT_VARIABLE
from contextrelay.limits import (
    SOURCE_REFS_MAX,
    STEP_JSON_BYTES_MAX,
    STEP_REASON_CHARS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.pipeline import StepView
from contextrelay.model.run import FinishedStep
from contextrelay.pipelines.expressions import Value
from contextrelay.pipelines.language import Step, values_in
from contextrelay.pipelines.record import RunSpent
from contextrelay.pipelines.steps.child import KEY_VARIABLE, Cancelled
from contextrelay.pipelines.steps.python_pool import PythonPool, module_sha256
from contextrelay.pipelines.steps.values import Scope, Values, fingerprint
from contextrelay.runs.output import StoredOutput
from contextrelay.runs.prices import since_ms
from contextrelay.verbs import FindResult, FinishStep, KeepResult

# Three times in seconds: the delay between two attempts, which is doubled each time; the time from
# terminating a process until it is killed; and the time from killing it until nothing waits for it.
STEP_BACKOFF_S = 0.5
STEP_BACKOFF_S_MAX = 30.0


COMPLAINT_VARIABLE = "RELAY_COMPLAINT"
_canonical = Encoder(order="sorted")
_CACHE_KEY_CHARS = 32


class Task(Struct, frozen=True, kw_only=True):
    """A unit of work: a step with all data that is needed to run it."""

    thread: str
    key: str
    """The key of the step in its run, for example `plan`, `review[3]` or `sub/plan`."""
    step: Step
    scope: Scope
    folder: str
    """The folder in which commands run and modules are found: that of the pipeline's file."""
    address: str | None = None
    model: str | None = None

    @property
    def step_key(self) -> str:
        """Return the key of the step, which includes the run and is the same for every attempt."""
        return f"{self.thread}/{self.key}"

    def env(self) -> dict[str, str]:
        """Return the environment variables that are added for the command of the step."""
        own = {
            KEY_VARIABLE: self.step_key,
            "RELAY_RUN": self.thread,
            "RELAY_STEP": self.key,
            "RELAY_THREAD": self.thread,
            AGENT_VARIABLE: self.step.name,
        }
        if self.address is not None:
            own["CONTEXTRELAY_URL"] = self.address
        return own


class StepOutput(Struct, frozen=True, kw_only=True):
    """The output of one attempt: bytes, a stored artifact, or nothing."""

    output: StoredOutput | None = None
    body: bytes | None = None
    ref: str | None = None
    media_type: str | None = None
    sources: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    failure: RelayError | None = None
    """The error of a command that failed; then `output` has its stdout and its stderr."""

    def whole(self) -> bytes:
        """Return the whole output as bytes."""
        if self.output is not None:
            return self.output.whole()
        return self.body or b""


class Workplace(Struct, frozen=True):
    """The environment of a task: its relay, its child processes, and the cancellation of the
    run.
    """

    relay: Relay
    pool: PythonPool
    stop: Event
    is_elsewhere: bool = False
    """True if this may be a machine that does not have the pipeline's file."""


Try = Callable[[Workplace, Task, Values, str], StepOutput]


def perform(place: Workplace, task: Task, tries: Mapping[str, Try]) -> StepView:
    """Run a task to its end, record the end, and return the view of the step. `tries` has a
    function for each kind of step.

    The status is done, failed, or `cancelled`. A cancelled task is not recorded, so it may be run
    again.

    Raises:
        Conflict: another worker already ended the step.
        RelayError: the store is not available.
    """
    so_far, step, values = Attempts(), task.step, Values(place.relay, task.scope)
    try:
        used = values_in(replace(step, when=None, foreach=None))
        refs_in = values.refs_in(used)
        cache_key = _cache_key(task, values, used) if _is_cached(step) else ""
        found = place.relay.transport.ask(FindResult(cache_key)) if cache_key else []
        if found:
            # The artifact was deleted in the meantime, so create it again.
            with suppress(NotFound, Gone):
                return _finish(place, task, StepOutput(ref=found[0].ref), so_far, refs_in)
        made = _made(place, task, values, tries[step.kind], so_far)
        ended = _finish(place, task, made, so_far, refs_in)
    except Conflict:
        raise
    except RelayError as error:
        if place.stop.is_set():
            status = "cancelled"
            return StepView(step=task.key, kind=step.kind, status=status, reason=error.message)
        try:
            return _fail(place, task, error, so_far)
        finally:
            so_far.close()
    if cache_key and ended.ref is not None:
        # The step is done, even if the next run cannot find its result in the cache.
        with suppress(RelayError):
            keep = KeepResult(cache_key, ended.ref, step.cache_s or TTL_S_MAX)
            place.relay.transport.ask(keep)
    return ended


class Attempts:
    """The attempts of a task and their total cost."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self.attempts = 0
        self.failed: StoredOutput | None = None
        """The output of the last attempt, if it was a command that failed."""
        self._spent = RunSpent()

    def take(self, made: StepOutput) -> None:
        """Add the cost of an attempt. The cost counts even if the result of the attempt is not
        used.

        Raises:
            RelayError: the attempt failed. Its output is kept until the next one.
        """
        took = {name: made.detail[name] for name in _COSTS if name in made.detail}
        self._spent.add(StepView(step="", kind="", status="", **took))
        self.close()
        if made.failure is not None:
            self.failed = made.output
            raise made.failure

    def close(self) -> None:
        """Discard the output of a failed attempt."""
        if self.failed is not None:
            self.failed.close()
            self.failed = None

    def detail(self) -> dict[str, Any]:
        """Return the costs as fields of an event."""
        return {
            "attempts": self.attempts,
            "duration_ms": since_ms(self._started_s),
            **(self._spent.fields() if self._spent.tokens_in else {}),
        }


_COSTS = ("tokens_in", "tokens_out", "price")


def _made(place: Workplace, task: Task, values: Values, once: Try, so_far: Attempts) -> StepOutput:
    """Run attempts until one has a valid result, up to the retry limit of the step, and return its
    output.
    """
    step = task.step
    complaint, is_warned, left = "", False, step.retries
    while True:
        so_far.attempts += 1
        try:
            made = once(place, task, values, complaint)
            so_far.take(made)
            return _fitting(step, made)
        except _Misfit as misfit:
            if is_warned:
                raise
            complaint, is_warned = misfit.message, True
        except (Invalid, Forbidden, Cancelled, NotFound, Gone):
            raise
        except RelayError:
            if left <= 0:
                raise
            left -= 1
            wait_s = STEP_BACKOFF_S * 2 ** (step.retries - left - 1)
            if place.stop.wait(min(wait_s, STEP_BACKOFF_S_MAX)):
                raise


def _is_cached(step: Step) -> bool:
    """Return True if this module caches the results of a step. Capabilities have a cache of their
    own.
    """
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
    """The result does not match the schema of the step."""


def _fitting(step: Step, made: StepOutput) -> StepOutput:
    """Return the output of an attempt, after checking it against the JSON Schema of the step.

    Raises:
        _Misfit: the output does not match the schema.
    """
    if step.out.schema is None:
        return made
    size_bytes = len(made.body or b"") if made.output is None else made.output.size_bytes
    is_too_long = size_bytes > STEP_JSON_BYTES_MAX
    body = b"" if is_too_long else made.whole()
    if made.output is not None:
        made.output.close()
    if is_too_long:
        bound = f"out.schema allows at most {STEP_JSON_BYTES_MAX:,}"
        raise _Misfit(f"the result has {size_bytes:,} bytes; {bound}", "return a shorter result")
    try:
        document = decode(_bare(body))
        check_value(document, step.out.schema, "the result")
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise _Misfit(f"the result is not valid JSON: {error}", "answer with JSON only") from error
    except Invalid as error:
        raise _Misfit(f"{error.message} (out.schema)", error.hint) from error
    json = "application/json"
    return replace(made, output=None, body=_canonical.encode(document), media_type=json)


def _bare(body: bytes) -> bytes:
    """Return a body without the Markdown fence that models put around JSON."""
    text = body.strip()
    if text.startswith(b"```") and text.endswith(b"```") and b"\n" in text:
        return text.partition(b"\n")[2][:-3]
    return text


def _finish(
    place: Workplace, task: Task, made: StepOutput, so_far: Attempts, refs_in: list[str]
) -> StepView:
    """Store the output of a step together with its final event, and return the view of the step."""
    sources = list(dict.fromkeys((*refs_in, *made.sources)))
    detail = {
        "kind": task.step.kind,
        "key": task.step_key,
        "refs_in": sources[:SOURCE_REFS_MAX],
        "is_cached": not so_far.attempts,
        **made.detail,
        **so_far.detail(),
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
        by=task.step.name,
    )
    if made.output is not None:
        finished = made.output.store(lambda parts: replace(verb, parts=parts))
        made.output.close()
    else:
        finished: FinishedStep = place.relay.transport.ask(verb, made.body or b"")
    ref = None if finished.artifact is None else finished.artifact.ref
    return _view(task, "done", {**detail, "by": verb.by}, ref)


def _view(task: Task, status: str, detail: Mapping[str, Any], ref: str | None = None) -> StepView:
    """Return the view of a task that has ended."""
    shown = {name: detail[name] for name in _SHOWN if name in detail}
    return StepView(step=task.key, kind=task.step.kind, status=status, ref=ref, **shown)


_SHOWN = ("by", "reason", "hint", "is_cached", *_COSTS, "duration_ms")


def _fail(place: Workplace, task: Task, error: RelayError, so_far: Attempts) -> StepView:
    """Record that a step failed, and why, and return the view of the step."""
    detail = {
        "kind": task.step.kind,
        "key": task.step_key,
        "reason": error.message[:STEP_REASON_CHARS_MAX],
        "hint": error.hint[:STEP_REASON_CHARS_MAX],
        "error": error.code,
        **so_far.detail(),
    }
    verb = FinishStep(
        thread=task.thread, step=task.key, status="failed", detail=detail, by=task.step.name
    )
    output = so_far.failed
    if output is None or not output.size_bytes or output.trouble is not None:
        place.relay.transport.ask(verb)
        return _view(task, "failed", detail)
    kept = replace(verb, has_result=True, name=f"{task.step.name} output", media_type="text/plain")
    finished = output.store(lambda parts: replace(kept, parts=parts))
    assert finished.artifact is not None
    return _view(task, "failed", detail, finished.artifact.ref)


def folder_of(place: Workplace, task: Task) -> Path:
    """Return the folder of the pipeline's file, or the current folder on another machine that does
    not have it.

    Raises:
        NotFound: the folder no longer exists. A command is never run in another folder instead.
    """
    folder = Path(task.folder)
    if folder.is_dir():
        return folder
    if place.is_elsewhere:
        return Path.cwd()
    hint = "restore the folder and resume, or run the pipeline from its new folder"
    raise NotFound(f"the pipeline's folder {folder} no longer exists", hint)
