"""Search: what a query found, best first, and how far the index was that it was asked of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from contextrelay.model.artifact import ArtifactType
from contextrelay.model.spent import Spent


class Hit(Struct, frozen=True, kw_only=True):
    """A passage that answers a query."""

    ref: str
    name: str | None
    type: ArtifactType
    lines: str
    """Where it stands, start:stop, lines numbered from 1; "" for what is about the artifact."""
    pointer: str | None = None
    """Of a document on one line: the entry that it is, or is of."""
    snippet: str
    """What stands around the words, defused."""
    score: float
    created_at: datetime
    why: tuple[str, ...]
    """The words of the query that are in it or beside it."""
    newer: str | None = None
    """A newer artifact of the same name: this one is stale."""
    next_args: dict[str, Any] = {}
    """What to give `slice` to read on."""


class IndexState(Struct, frozen=True, kw_only=True):
    """How far the search index is."""

    artifacts: int
    """That can be searched."""
    passages: int
    waiting: int = 0
    """Artifacts that are there and not in the index yet."""
    is_complete: bool = True
    """False where there may be more than those that wait: the look at what is new was cut short."""


class Hits(Struct, frozen=True, kw_only=True):
    """What a query found."""

    query: str
    scope: str
    """What was searched: all, thread <id>, or ref <ref>."""
    hits: list[Hit]
    found: int
    """Passages with a word of the query; for who may not see all, those seen among the best."""
    left_out: str = ""
    """What is not shown of what was found, in words; "" where nothing is."""
    ignored: tuple[str, ...] = ()
    """Words of the query that were not searched for: too many, or in no passage."""
    notes: tuple[str, ...] = ()
    """What else the reader has to know: how far the index is."""
    index: IndexState
    text: str
    """The hits as lines."""
    spent: Spent
