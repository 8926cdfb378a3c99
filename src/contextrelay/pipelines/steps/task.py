"""Tasks: one step, or one item of a fan-out, done wherever a runner puts it; only refs travel.

Rule: a task ends by `FinishStep`, which stores its result with its event. Until that is committed
it may be done again, with the same key; after that never.
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
from contextrelay.limits import (
    LABEL_CHARS_MAX,
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

# Between two tries of a step, doubled each time; and from asking it to end until it is killed,
# and from there until nobody waits for it any more.
STEP_BACKOFF_S = 0.5
STEP_BACKOFF_S_MAX = 30.0


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
        """What a command of the step finds in its environment, besides what is there already."""
        own = {
            KEY_VARIABLE: self.step_key,
            "RELAY_RUN": self.thread,
            "RELAY_STEP": self.key,
            "RELAY_THREAD": self.thread,
        }
        if self.address is not None:
            own["CONTEXTRELAY_URL"] = self.address
        return own


class StepOutput(Struct, frozen=True, kw_only=True):
    """What one try of a step brought: bytes, or an artifact that is stored already, or nothing."""

    output: StoredOutput | None = None
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


class Workplace(Struct, frozen=True):
    """Where a task is done: the relay there, its processes, and whether the run was cancelled."""

    relay: Relay
    pool: PythonPool
    stop: Event
    is_elsewhere: bool = False
    """Whether it may be another machine than that of the pipeline's file."""


Try = Callable[[Workplace, Task, Values, str], StepOutput]


def perform(place: Workplace, task: Task, tries: Mapping[str, Try]) -> StepView:
    """Do a task to its end, which is then an event of the run; `tries` by kind of step.

    It is done, failed, or `cancelled`: then nothing of it is written, and it may be done again.

    Raises:
        Conflict: somebody else has ended this step.
        RelayError: the store does not answer.
    """
    so_far, step, values = SoFar(), task.step, Values(place.relay, task.scope)
    try:
        used = values_in(replace(step, when=None, foreach=None))
        refs_in = values.refs_in(used)
        cache_key = _cache_key(task, values, used) if _is_cached(step) else ""
        found = place.relay.transport.ask(FindResult(cache_key)) if cache_key else []
        if found:
            with suppress(NotFound, Gone):  # It went meanwhile: it is made again.
                return _finish(place, task, StepOutput(ref=found[0].ref), so_far, refs_in)
        made = _made(place, task, values, tries[step.kind], so_far)
        ended = _finish(place, task, made, so_far, refs_in)
    except Conflict:
        raise
    except RelayError as error:
        if place.stop.is_set():
            status = "cancelled"
            return StepView(step=task.key, kind=step.kind, status=status, reason=error.message)
        return _fail(place, task, error, so_far)
    if cache_key and ended.ref is not None:
        with suppress(RelayError):  # It is done, whether or not the next run finds it.
            keep = KeepResult(cache_key, ended.ref, step.cache_s or TTL_S_MAX)
            place.relay.transport.ask(keep)
    return ended


class SoFar:
    """How often a task was tried, and what all of that took."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self.attempts = 0
        self._spent = RunSpent()

    def take(self, made: StepOutput) -> None:
        """Count what a try took, also where its result is not used."""
        took = {name: made.detail[name] for name in _COSTS if name in made.detail}
        self._spent.add(StepView(step="", kind="", status="", **took))

    def detail(self) -> dict[str, Any]:
        """What its event says of it."""
        return {
            "attempts": self.attempts,
            "duration_ms": since_ms(self._started_s),
            **(self._spent.fields() if self._spent.tokens_in else {}),
        }


_COSTS = ("tokens_in", "tokens_out", "price")


def _made(place: Workplace, task: Task, values: Values, once: Try, so_far: SoFar) -> StepOutput:
    """Try until there is a result that fits, as often as the step says."""
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


def _fitting(step: Step, made: StepOutput) -> StepOutput:
    """A result that was checked by the step's schema.

    Raises:
        _Misfit: it does not fit.
    """
    if step.out.schema is None:
        return made
    size_bytes = len(made.body or b"") if made.output is None else made.output.size_bytes
    is_too_long = size_bytes > STEP_JSON_BYTES_MAX
    body = b"" if is_too_long else made.whole()
    if made.output is not None:
        made.output.close()
    if is_too_long:
        bound = f"at most {STEP_JSON_BYTES_MAX:,} are checked by out.schema"
        raise _Misfit(f"the result has {size_bytes:,} bytes: {bound}", "answer with less")
    try:
        document = decode(_bare(body))
        check_value(document, step.out.schema, "the result")
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise _Misfit(f"the result is no JSON: {error}", "answer with JSON alone") from error
    except Invalid as error:
        raise _Misfit(f"{error.message}, as out.schema says", error.hint) from error
    json = "application/json"
    return replace(made, output=None, body=_canonical.encode(document), media_type=json)


def _bare(body: bytes) -> bytes:
    """JSON without the Markdown fence that models put around it."""
    text = body.strip()
    if text.startswith(b"```") and text.endswith(b"```") and b"\n" in text:
        return text.partition(b"\n")[2][:-3]
    return text


def _finish(
    place: Workplace, task: Task, made: StepOutput, so_far: SoFar, refs_in: list[str]
) -> StepView:
    """Store what a step brought, with the event that it is done."""
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
        by=made.by[:LABEL_CHARS_MAX],
    )
    if made.output is not None:
        finished = made.output.store(lambda parts: replace(verb, parts=parts))
        made.output.close()
    else:
        finished: FinishedStep = place.relay.transport.ask(verb, made.body or b"")
    ref = None if finished.artifact is None else finished.artifact.ref
    return _view(task, "done", {**detail, "by": verb.by}, ref)


def _view(task: Task, status: str, detail: Mapping[str, Any], ref: str | None = None) -> StepView:
    """A task that is over, as its event says."""
    shown = {name: detail[name] for name in _SHOWN if name in detail}
    return StepView(step=task.key, kind=task.step.kind, status=status, ref=ref, **shown)


_SHOWN = ("by", "reason", "hint", "is_cached", *_COSTS, "duration_ms")


def _fail(place: Workplace, task: Task, error: RelayError, so_far: SoFar) -> StepView:
    """Write that a step failed, and why."""
    detail = {
        "kind": task.step.kind,
        "key": task.step_key,
        "reason": error.message[:STEP_REASON_CHARS_MAX],
        "hint": error.hint[:STEP_REASON_CHARS_MAX],
        "error": error.code,
        **so_far.detail(),
    }
    verb = FinishStep(thread=task.thread, step=task.key, status="failed", detail=detail)
    place.relay.transport.ask(verb)
    return _view(task, "failed", detail)


def folder_of(place: Workplace, task: Task) -> Path:
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
