"""Pieces: what a reader gets of a body instead of all of it, and what was left out.

Rule: nothing is left out in silence. A piece says where it is from, what it leaves out, and the
call that goes on from there.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from contextrelay.model.spent import Spent

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
    """A line in which a pattern was found; a long one is folded around the place."""

    ref: str
    line: int
    """Lines are numbered from 1."""
    offset: int
    """Where the match begins, in bytes from the start of the body."""
    text: str
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
    """The matches as lines, numbered as grep does: 12: found, 11- beside it."""
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
    """False where one of them is binary; then the text tells sizes and hashes."""
    text: str
    added: int = 0
    """Lines."""
    removed: int = 0
    changes: list[Change] = []
    """Of two JSON documents: where they differ, the first of them."""
    left_out: str = ""
    notes: tuple[str, ...] = ()
    spent: Spent
