"""Runs: what a model's answer on a thread comes to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from contextrelay.model.artifact import Artifact
from contextrelay.model.key import Key
from contextrelay.model.thread import Event


class Tokens(Struct, frozen=True, kw_only=True):
    """What one call took, or a run with all of its calls: as the provider counts, else as we do."""

    input: int = 0
    """All that was read, also from a cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    basis: Literal["measured", "estimated"] = "measured"


class RunResult(Struct, frozen=True, kw_only=True):
    """The answer of a model on a thread, and what it took."""

    text: str
    """As it came: nothing in it is made harmless."""
    ref: str | None
    """Of the artifact that the answer is; None where a run was interrupted before a word came."""
    run: str
    thread: str
    status: Literal["finished", "interrupted"] = "finished"
    stop: Literal["end", "length", "refused", "interrupted"] = "end"
    """Why the model ended: by itself, at its limit, by refusing, or because it was stopped."""
    provider: str
    model: str
    rounds: int
    tokens: Tokens = Tokens()
    price: str | None = None
    """In US dollars; None where no price is known."""
    duration_ms: int = 0
    source_refs: tuple[str, ...] = ()
    """What the model was shown or has read."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A tool that a model has used."""

    name: str
    arguments: str
    """The beginning of them, as they came."""
    is_error: bool
    refs: tuple[str, ...]
    duration_ms: int


STEP_EVENT = "run.step"
"""How a step stands; `detail` holds `step`, `status`, `ref` and what the runner says of it."""

CALLER = "caller"
"""In that `detail`: the name of the key that wrote it, on a server."""

StepStatus = Literal["pending", "running", "waiting", "done", "failed", "skipped"]
"""`waiting`: for somebody to approve. The last three are final."""
FINAL: tuple[StepStatus, ...] = ("done", "failed", "skipped")


def caller_name(key: Key) -> str:
    """How a key is named in records: by its name, else its id."""
    return key.name or key.id


def writer(event: Event) -> str:
    """Who wrote an event: the key that the store knows, and the name that its holder gave."""
    caller = event.detail.get(CALLER)
    return named(caller, event.by) if caller and isinstance(caller, str) else event.by


def named(caller: str, label: str) -> str:
    """Who did it, and as whom: a name that one gives oneself stands behind the known one."""
    return caller if label in (caller, "you") else f"{caller} as {label}"


class FinishedStep(Struct, frozen=True, kw_only=True):
    """What became of a step: its result, if it has one."""

    artifact: Artifact | None


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What calls took, together."""

    tokens_in: int = 0
    """All that was read, also from a cache."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    price: str | None = None
    """In US dollars, of the calls whose price is known; None where it is of none."""


class ToolSpan(Struct, frozen=True, kw_only=True):
    """A tool that the model called."""

    id: str
    name: str
    duration_ms: int
    is_error: bool
    refs: tuple[str, ...]


class ModelCall(Struct, frozen=True, kw_only=True):
    """One call of a model."""

    round: int
    at: datetime
    """When it was recorded: after its tools."""
    model: str
    usage: ModelUsage
    basis: str
    duration_ms: int
    """With its tools."""
    exchange: str | None
    """The ref of what was sent and answered."""
    tools: tuple[ToolSpan, ...] = ()
    tools_left_out: int = 0


class Run(Struct, frozen=True, kw_only=True):
    """One run: what was asked, who answered, and what that took."""

    run: str
    number: int
    """Counted by when runs began, from 1."""
    status: Literal["running", "finished", "interrupted", "failed"]
    kind: str
    provider: str
    model: str
    by: str
    started_at: datetime
    ended_at: datetime | None
    version: int | None
    """The state's version that it began with."""
    asked: str
    """The user's words, maybe cut."""
    asked_ref: str | None
    refs: tuple[str, ...]
    """What was given to it besides."""
    ref: str | None
    """The answer."""
    usage: ModelUsage
    duration_ms: int
    calls: tuple[ModelCall, ...]
    calls_left_out: int
    reason: str
    error: str


class Totals(Struct, frozen=True, kw_only=True):
    """What all runs of a thread took."""

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
    """The newest runs of a thread, oldest first, and what all of them took."""

    thread_id: str
    runs: list[Run]
    runs_left_out: int
    totals: Totals


class Diverged(Struct, frozen=True, kw_only=True):
    """Where a recorded run no longer holds."""

    run: str
    round: int = 0
    """0 where it is the answer, and no call."""
    tool: str = ""
    ref: str | None = None
    reason: str = ""


class ReplayedRun(Struct, frozen=True, kw_only=True):
    """One run, and what became of it."""

    run: str
    asked: str
    """The user's words, maybe cut."""
    old_ref: str | None
    """The answer that was recorded."""
    new_ref: str | None
    """The answer of now: the same one, where no model was called."""
    model: str
    """As PROVIDER:MODEL, of the answer of now."""
    price: str | None = None
    """In US dollars; None where no model was called, or no price is known."""
    error: str = ""
    """Why there is no answer of now."""


class Replay(Struct, frozen=True, kw_only=True):
    """What came of a replay."""

    thread_id: str
    fork: str | None
    """The thread that it went into; None for a dry run."""
    from_version: int
    version: int
    """How far it came, in versions of the thread that is replayed."""
    is_called: bool
    """Whether a model was, or in a dry run would be, called."""
    runs: list[ReplayedRun]
    diverged: Diverged | None = None
    is_equal: bool | None = None
    """Whether the states at the end are equal, but for what a version says of itself."""
    changes: list[dict[str, Any]] = []
    """The operations that lead from the recorded state to the new one."""
    skipped: list[str] = []
    """Patches of others that have no place in the new state, and why."""
