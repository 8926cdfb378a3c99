"""Replies of the verbs that read bodies: outline, digest, slice, grep, diff, search.

Rule: nothing is omitted silently. A reply states its source, what it omits, and the call that
continues from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from contextrelay.model.artifact import ArtifactType
from contextrelay.model.tokens import Spent, TokenCount


class Outlined(Struct, frozen=True, kw_only=True):
    """The structure of a body, most important items first, within a number of tokens."""

    ref: str
    kind: str
    """The format as which the body was parsed: json, python, log, ..."""
    text: str
    omitted: int
    """The number of items that did not fit."""
    left_out: str = ""
    """The omitted items in words; "" if nothing is omitted."""
    next: str = ""
    """The command that reads a piece of the body."""
    next_args: dict[str, Any] = {}
    """The arguments of `slice` that read the same piece as `next`."""
    notes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Names of the prompt injection patterns that were found in quoted text and defused."""
    spent: Spent


class Digested(Struct, frozen=True, kw_only=True):
    """Head, tail, error lines and outline of a body, within a number of tokens."""

    ref: str
    kind: str
    text: str
    omitted_lines: int
    """The number of lines of the body that are not included."""
    left_out: str = ""
    next: str = ""
    next_args: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    spent: Spent


class BodyOutline(Struct, frozen=True, kw_only=True):
    """An outline of a body, independent of the refs to the body."""

    kind: str
    text: str
    tokens: int
    omitted: int
    way: str = ""
    """How to read a piece of the body: a selector and its value."""
    value: str = ""
    patterns: tuple[str, ...] = ()


class CachedOutline(Struct, frozen=True, kw_only=True):
    """The cached outline and other results of reading a body."""

    outline: BodyOutline = field(name="shape")
    whole: TokenCount
    note: str = ""
    """Why the body was not parsed as expected; "" if it was parsed as expected."""
    version: int = field(name="drawn_by", default=0)
    """The value of `OUTLINE_VERSION` when the outline was made.

    Outlines of older versions are made again.
    """


OUTLINE_VERSION = 3
"""The version of the outline format. It is incremented when outlines change."""


Way = Literal["lines", "bytes", "tokens", "json_pointer", "json_path", "rows", "heading", "symbol"]


class Selector(Struct, frozen=True):
    """A selection of a piece of a body: one selector with its value; for a table, the columns."""

    way: Way
    value: str
    columns: tuple[str, ...] = ()


class Piece(Struct, frozen=True, kw_only=True):
    """A piece of a body, within a number of tokens."""

    ref: str
    way: Way
    at: str
    """The position of this piece, in the selector's notation: for lines, 1:121."""
    text: str
    left_out: str = ""
    """The part of the requested text that is not in `text`, in words; "" if there is none."""
    next: str = ""
    """The command that reads the text after this piece; "" at the end."""
    next_args: dict[str, Any] = {}
    """The arguments of `slice` that read the same piece as `next`."""
    notes: tuple[str, ...] = ()
    """Other facts that the reader needs: how the text was decoded, which lines were folded."""
    spent: Spent


class Match(Struct, frozen=True, kw_only=True):
    """A matching line or record; a long line is folded around the match."""

    ref: str
    line: int
    """Line number of the match, from 1."""
    offset: int
    """Offset of the match, in bytes from the start of the body."""
    text: str
    """The line, or for structured content the record, with its pointer."""
    pointer: str | None = None
    """JSON Pointer or similar position of the record in its document; None for a line."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Skipped(Struct, frozen=True, kw_only=True):
    """An artifact that was not searched, and why."""

    ref: str
    why: str


class Found(Struct, frozen=True, kw_only=True):
    """The matches of a pattern in a body or several bodies, within a number of tokens."""

    matches: list[Match]
    count: int
    """Total number of matches, shown or not."""
    is_complete: bool
    """False if the search stopped at a time limit or another limit; `count` is then a minimum."""
    looked_at: int
    """The number of artifacts that were searched."""
    skipped: list[Skipped]
    text: str
    """The matches as lines, numbered as in grep output: 12: found, 11- context."""
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
    """The differences between two bodies, as a unified diff, within a number of tokens."""

    old: str
    new: str
    is_same: bool
    is_text: bool
    """False if one of the bodies is binary; `text` then has sizes and hashes."""
    text: str
    added: int = 0
    """The number of added lines."""
    removed: int = 0
    changes: list[Change] = []
    """The first differences between two JSON documents; empty for other bodies."""
    left_out: str = ""
    notes: tuple[str, ...] = ()
    spent: Spent


class Hit(Struct, frozen=True, kw_only=True):
    """A passage that matches a query."""

    ref: str
    name: str | None
    type: ArtifactType
    lines: str
    """Line range, start:stop, numbered from 1; "" if the hit is about the artifact itself."""
    pointer: str | None = None
    """For a document on one line: the entry that contains the passage."""
    snippet: str
    """The text around the matched words, defused."""
    score: float
    created_at: datetime
    why: tuple[str, ...]
    """The words of the query that occur in the passage or in its neighbours."""
    newer: str | None = None
    """The ref of a newer artifact of the same name, which means that this artifact is outdated."""
    next_args: dict[str, Any] = {}
    """The arguments of `slice` that continue reading after the passage."""


class IndexState(Struct, frozen=True, kw_only=True):
    """The progress of the search index."""

    artifacts: int
    """The number of searchable artifacts."""
    passages: int
    waiting: int = 0
    """The number of artifacts that are not indexed yet."""
    is_complete: bool = True
    """False if more artifacts may be waiting, because the check for new artifacts stopped early."""


class Hits(Struct, frozen=True, kw_only=True):
    """The passages that match a query."""

    query: str
    scope: str
    """The scope of the search: all, thread <id>, or ref <ref>."""
    hits: list[Hit]
    found: int
    """The number of passages with a word of the query. For a key with limited access, only passages
    among the best ones that the key may see are counted.
    """
    left_out: str = ""
    """The number of results that are not shown, in words; "" if all are shown."""
    ignored: tuple[str, ...] = ()
    """Words of the query that were not searched, because there were too many words or no passage
    contains them.
    """
    notes: tuple[str, ...] = ()
    """Other facts that the reader needs, such as the progress of the index."""
    index: IndexState
    text: str
    """The hits as lines."""
    spent: Spent
