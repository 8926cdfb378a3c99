"""Answers of the verbs that look inside bodies: outline, digest, slice, grep, diff, search.

Rule: nothing is left out in silence. An answer says where it is from, what it leaves out, and the
call that continues from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from contextrelay.model.artifact import ArtifactType
from contextrelay.model.tokens import Spent, TokenCount


class Outlined(Struct, frozen=True, kw_only=True):
    """The shape of a body, the most important things first, within a number of tokens."""

    ref: str
    kind: str
    """What it was read as: json, python, log, ..."""
    text: str
    omitted: int
    """How many things it would name had there been room."""
    left_out: str = ""
    """The same in words; "" where nothing is left out."""
    next: str = ""
    """The command that gets a piece of it."""
    next_args: dict[str, Any] = {}
    """The same as arguments of `slice`."""
    notes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Which known tricks were seen in what is quoted, and defused, by name."""
    spent: Spent


class Digested(Struct, frozen=True, kw_only=True):
    """Head, tail, error lines and outline of a body, within a number of tokens."""

    ref: str
    kind: str
    text: str
    omitted_lines: int
    """How many lines of the body are not in it."""
    left_out: str = ""
    next: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    spent: Spent


class Shape(Struct, frozen=True, kw_only=True):
    """An outline as it is made of a body, whatever refs stand for it."""

    kind: str
    text: str
    tokens: int
    omitted: int
    way: str = ""
    """How to get a piece of it: a way of slicing, and what it is given."""
    value: str = ""
    patterns: tuple[str, ...] = ()


class CachedOutline(Struct, frozen=True, kw_only=True):
    """What is kept of a body once somebody has looked into it."""

    shape: Shape
    whole: TokenCount
    note: str = ""
    """Why it was not looked into as it should be; "" where it was."""
    drawn_by: int = 0
    """How outlines were drawn then (`DRAWN_BY`): what was drawn otherwise is drawn again."""


DRAWN_BY = 3
"""Counted up where outlines change."""


Way = Literal["lines", "bytes", "tokens", "json_pointer", "json_path", "rows", "heading", "symbol"]


class Selector(Struct, frozen=True):
    """Which piece is meant: one way, what it is given, and of a table the columns."""

    way: Way
    value: str
    columns: tuple[str, ...] = ()


class Piece(Struct, frozen=True, kw_only=True):
    """A piece of a body, within a number of tokens."""

    ref: str
    way: Way
    at: str
    """The piece that this is, as the way spells it: of lines, 1:121."""
    text: str
    left_out: str = ""
    """What was asked for and is not in the text, in words; "" where nothing is."""
    next: str = ""
    """The command that goes on where this ends; "" where nothing is left."""
    next_args: dict[str, Any] = {}
    """The same as arguments of `slice`."""
    notes: tuple[str, ...] = ()
    """What else the reader has to know: how it was decoded, which lines were folded."""
    spent: Spent


class Match(Struct, frozen=True, kw_only=True):
    """A line or record in which a pattern was found; a long line is folded around the place."""

    ref: str
    line: int
    """Lines are numbered from 1."""
    offset: int
    """Where the match begins, in bytes from the start of the body."""
    text: str
    """The line, or of structured content the record, with its pointer."""
    pointer: str | None = None
    """Of a record: where it is in its document."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """An artifact that was not looked into, and why."""

    ref: str
    why: str


class Found(Struct, frozen=True, kw_only=True):
    """What a pattern was found in, within a number of tokens."""

    matches: list[Match]
    count: int
    """Matches there are, shown or not."""
    is_complete: bool
    """False where time or a limit ended it before all was looked at; then `count` is a minimum."""
    looked_at: int
    """Artifacts that were looked into."""
    skipped: list[Skipped]
    text: str
    """The matches as lines, numbered as grep does: 12: found, 11- context."""
    left_out: str = ""
    next: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    spent: Spent


class Change(Struct, frozen=True, kw_only=True):
    """One change between two JSON documents."""

    op: str
    """add, remove or replace."""
    path: str


class Differing(Struct, frozen=True, kw_only=True):
    """What differs between two bodies, as a unified diff within a number of tokens."""

    old: str
    new: str
    is_same: bool
    is_text: bool
    """False where one of them is binary; then the text has sizes and hashes."""
    text: str
    added: int = 0
    """Lines."""
    removed: int = 0
    changes: list[Change] = []
    """Of two JSON documents: where they differ, the first of them."""
    left_out: str = ""
    notes: tuple[str, ...] = ()
    spent: Spent


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
    """The words of the query that are in it or in its neighbours."""
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
