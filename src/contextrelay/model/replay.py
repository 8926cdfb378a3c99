"""Replays: what came of doing a thread's runs again."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


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
