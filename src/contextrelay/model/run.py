"""Runs: the answers of models on a thread, their usage and their records."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import encode

from contextrelay.model.artifact import Artifact
from contextrelay.model.key import qualified_name
from contextrelay.model.thread import Event


class Tokens(Struct, frozen=True, kw_only=True):
    """The number of tokens of one call, or of all calls of a run, as reported by the provider or,
    without a report, as counted here.
    """

    input: int = 0
    """All input tokens, including those read from a cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    basis: Literal["measured", "estimated"] = "measured"


class RunResult(Struct, frozen=True, kw_only=True):
    """A model's answer on a thread, with its usage."""

    text: str
    """The text as the model returned it; nothing in it is defused."""
    ref: str | None
    """The ref of the answer's artifact; None if the run was interrupted before any output."""
    run: str
    thread: str
    status: Literal["finished", "interrupted"] = "finished"
    stop: Literal["end", "length", "refused", "interrupted"] = "end"
    """Why the model stopped: normally, at its output limit, because it refused, or by interruption.
    """
    provider: str
    model: str
    rounds: int
    tokens: Tokens = Tokens()
    price: str | None = None
    """The price in US dollars; None if unknown."""
    duration_ms: int = 0
    source_refs: tuple[str, ...] = ()
    """The refs whose content was shown to the model or read by it."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A tool call of a model."""

    name: str
    arguments: str
    """The beginning of the arguments, as the model sent them."""
    is_error: bool
    refs: tuple[str, ...]
    duration_ms: int


STEP_EVENT = "run.step"
"""Type of the event with the status of a step. Its `detail` holds `step`, `status`, `ref` and the
runner's details.
"""

CALLER = "caller"
"""The field of that `detail` with the name of the key that wrote the event, on a server."""

StepStatus = Literal["pending", "running", "waiting", "done", "failed", "skipped"]
"""Statuses of a step. `waiting`: for approval. The last three are final."""
FINAL: tuple[StepStatus, ...] = ("done", "failed", "skipped")


def writer_name(event: Event) -> str:
    """Return the name of an event's writer, after that of the verified key, if there is one."""
    caller = event.detail.get(CALLER)
    if caller and isinstance(caller, str):
        return quote_name(qualified_name(caller, event.by))
    return quote_name(event.by)


def quote_name(name: str) -> str:
    """Return a name in quotes if it could be mistaken for a decision by a signal, `X on Y`, or for
    one of a caller without a key, `no key as X`.
    """
    return encode(name).decode() if _AS_OR_ON.search(name) else name


_AS_OR_ON = re.compile(r'"|(?<!\S)(?:as|on)(?!\S)', re.IGNORECASE)


class FinishedStep(Struct, frozen=True, kw_only=True):
    """A finished step, with its result if there is one."""

    artifact: Artifact | None


class ModelUsage(Struct, frozen=True, kw_only=True):
    """The total usage of several calls."""

    tokens_in: int = 0
    """All input tokens, including those read from a cache."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    price: str | None = None
    """The price in US dollars of the calls with a known price; None if there is none."""


class ToolSpan(Struct, frozen=True, kw_only=True):
    """A tool call of a model, with start and end times."""

    id: str
    name: str
    duration_ms: int
    is_error: bool
    refs: tuple[str, ...]


class ModelCall(Struct, frozen=True, kw_only=True):
    """One call to a model."""

    round: int
    at: datetime
    """The time at which the call was recorded, which is after its tool calls."""
    model: str
    usage: ModelUsage
    basis: str
    duration_ms: int
    """Duration in milliseconds, including the tool calls."""
    exchange: str | None
    """The ref of the request and response."""
    tools: tuple[ToolSpan, ...] = ()
    tools_left_out: int = 0


class Run(Struct, frozen=True, kw_only=True):
    """One run: the prompt, the model that answered, and the usage."""

    run: str
    number: int
    """Runs are numbered by start time, from 1."""
    status: Literal["running", "finished", "interrupted", "failed"]
    kind: str
    provider: str
    model: str
    by: str
    started_at: datetime
    ended_at: datetime | None
    version: int | None
    """The version of the state at the start of the run."""
    asked: str
    """The user's prompt, possibly truncated."""
    asked_ref: str | None
    refs: tuple[str, ...]
    """The refs that were added to the prompt."""
    ref: str | None
    """The ref of the answer."""
    usage: ModelUsage
    duration_ms: int
    calls: tuple[ModelCall, ...]
    calls_left_out: int
    reason: str
    error: str


class Totals(Struct, frozen=True, kw_only=True):
    """The total usage of all runs of a thread."""

    runs: int = 0
    running: int = 0
    finished: int = 0
    interrupted: int = 0
    failed: int = 0
    calls: int = 0
    tools: int = 0
    usage: ModelUsage = ModelUsage()
    unpriced_calls: int = 0
    duration_ms: int = 0


class Trace(Struct, frozen=True, kw_only=True):
    """The newest runs of a thread, oldest first, and the totals of all runs."""

    thread_id: str
    runs: list[Run]
    runs_left_out: int
    totals: Totals


class Diverged(Struct, frozen=True, kw_only=True):
    """The first difference between a replay and the record."""

    run: str
    round: int = 0
    """The round of the call that differs; 0 if the answer differs."""
    tool: str = ""
    ref: str | None = None
    reason: str = ""


class ReplayedRun(Struct, frozen=True, kw_only=True):
    """A recorded run and the result of its replay."""

    run: str
    asked: str
    """The user's prompt, possibly truncated."""
    old_ref: str | None
    """The ref of the recorded answer."""
    new_ref: str | None
    """The ref of the new answer; if no model was called, that of the recorded answer."""
    model: str
    """The model of the new answer, as PROVIDER:MODEL."""
    price: str | None = None
    """The price in US dollars; None if no model was called or the price is unknown."""
    error: str = ""
    """Why there is no new answer."""


class Replay(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    thread_id: str
    fork: str | None
    """The thread with the replayed runs; None for a dry run."""
    from_version: int
    version: int
    """The last version of the original thread's state that was replayed."""
    is_called: bool
    """Whether a model was called, or would be called in a dry run."""
    runs: list[ReplayedRun]
    diverged: Diverged | None = None
    is_equal: bool | None = None
    """Whether the final states are equal, ignoring metadata about the version."""
    changes: list[dict[str, Any]] = []
    """The operations that lead from the recorded state to the new one."""
    skipped: list[str] = []
    """Patches by other writers that could not be applied to the new state, each with the reason."""
