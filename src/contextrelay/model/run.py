"""Runs: the answers of models on a thread, their usage and their records."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from contextrelay.model.artifact import Artifact
from contextrelay.model.key import Key
from contextrelay.model.thread import Event


class Tokens(Struct, frozen=True, kw_only=True):
    """The tokens of one call, or of all calls of a run: as the provider reports them, else as we
    count.
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
    """The text as received: nothing in it is defused."""
    ref: str | None
    """Ref of the answer's artifact; None if the run was interrupted before any output."""
    run: str
    thread: str
    status: Literal["finished", "interrupted"] = "finished"
    stop: Literal["end", "length", "refused", "interrupted"] = "end"
    """Why the model ended: normally, at its output limit, by refusing, or by interruption."""
    provider: str
    model: str
    rounds: int
    tokens: Tokens = Tokens()
    price: str | None = None
    """In US dollars; None if no price is known."""
    duration_ms: int = 0
    source_refs: tuple[str, ...] = ()
    """The refs that the model was shown or has read."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A tool call of a model."""

    name: str
    arguments: str
    """The beginning of the arguments, as received."""
    is_error: bool
    refs: tuple[str, ...]
    duration_ms: int


STEP_EVENT = "run.step"
"""Event with the status of a step; `detail` holds `step`, `status`, `ref` and the runner's details.
"""

CALLER = "caller"
"""In that `detail`: the name of the key that wrote it, on a server."""

StepStatus = Literal["pending", "running", "waiting", "done", "failed", "skipped"]
"""`waiting`: for approval. The last three are final."""
FINAL: tuple[StepStatus, ...] = ("done", "failed", "skipped")


def caller_name(key: Key) -> str:
    """Return the name of a key for records: its name, or else its id."""
    return key.name or key.id


def writer_name(event: Event) -> str:
    """Return the writer of an event: the verified key, and the name its holder gave."""
    caller = event.detail.get(CALLER)
    return label_caller(caller, event.by) if caller and isinstance(caller, str) else event.by


def label_caller(caller: str, label: str) -> str:
    """Combine a verified caller with a self-chosen label, which comes after it."""
    return caller if label in (caller, "you") else f"{caller} as {label}"


class FinishedStep(Struct, frozen=True, kw_only=True):
    """A finished step with its result, if it has one."""

    artifact: Artifact | None


class ModelUsage(Struct, frozen=True, kw_only=True):
    """The total usage of several calls."""

    tokens_in: int = 0
    """All input tokens, including those read from a cache."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    price: str | None = None
    """In US dollars, for the calls with a known price; None if there is none."""


class ToolSpan(Struct, frozen=True, kw_only=True):
    """A tool call of a model, with its times."""

    id: str
    name: str
    duration_ms: int
    is_error: bool
    refs: tuple[str, ...]


class ModelCall(Struct, frozen=True, kw_only=True):
    """One call to a model."""

    round: int
    at: datetime
    """When it was recorded: after its tool calls."""
    model: str
    usage: ModelUsage
    basis: str
    duration_ms: int
    """Including its tool calls."""
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
    """The state's version at the start of the run."""
    asked: str
    """The user's prompt, possibly truncated."""
    asked_ref: str | None
    refs: tuple[str, ...]
    """The refs that it was given in addition."""
    ref: str | None
    """Ref of the answer."""
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
    """The point at which a replay differs from the record."""

    run: str
    round: int = 0
    """0 if the answer differs and not a call."""
    tool: str = ""
    ref: str | None = None
    reason: str = ""


class ReplayedRun(Struct, frozen=True, kw_only=True):
    """A recorded run and the result of its replay."""

    run: str
    asked: str
    """The user's prompt, possibly truncated."""
    old_ref: str | None
    """Ref of the recorded answer."""
    new_ref: str | None
    """Ref of the new answer: the recorded one if no model was called."""
    model: str
    """The model of the new answer, as PROVIDER:MODEL."""
    price: str | None = None
    """In US dollars; None if no model was called, or no price is known."""
    error: str = ""
    """Why there is no new answer."""


class Replay(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    thread_id: str
    fork: str | None
    """The thread with the replayed runs; None for a dry run."""
    from_version: int
    version: int
    """The last version of the original thread that was replayed."""
    is_called: bool
    """Whether a model was called, or would be called in a dry run."""
    runs: list[ReplayedRun]
    diverged: Diverged | None = None
    is_equal: bool | None = None
    """Whether the final states are equal, ignoring a version's own metadata."""
    changes: list[dict[str, Any]] = []
    """The operations that lead from the recorded state to the new one."""
    skipped: list[str] = []
    """Patches by others that do not apply to the new state, and why."""
