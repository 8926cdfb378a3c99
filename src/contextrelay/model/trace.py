"""Traces: what runs on a thread did, call by call, and what that took."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True):
    """What calls took, together."""

    tokens_in: int = 0
    """All that was read, also from a cache."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    price: str | None = None
    """In US dollars, of the calls whose price is known; None where it is of none."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A tool that the model called."""

    id: str
    name: str
    duration_ms: int
    is_error: bool
    refs: tuple[str, ...]


class Call(Struct, frozen=True, kw_only=True):
    """One call of a model."""

    round: int
    at: datetime
    """When it was recorded: after its tools."""
    model: str
    usage: Usage
    basis: str
    duration_ms: int
    """With its tools."""
    exchange: str | None
    """The ref of what was sent and answered."""
    tools: tuple[ToolUse, ...] = ()
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
    usage: Usage
    duration_ms: int
    calls: tuple[Call, ...]
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
    usage: Usage = Usage()
    unpriced_calls: int = 0
    duration_ms: int = 0


class Trace(Struct, frozen=True, kw_only=True):
    """The newest runs of a thread, oldest first, and what all of them took."""

    thread_id: str
    runs: list[Run]
    runs_left_out: int
    totals: Totals
