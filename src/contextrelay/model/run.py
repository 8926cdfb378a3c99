"""Runs: what a model's answer on a thread comes to."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


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
