"""Outlines and digests: what a body is made of, short enough for a prompt."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from contextrelay.model.spent import Spent
from contextrelay.model.tokens import TokenCount


class Outlined(Struct, frozen=True, kw_only=True):
    """The shape of a body, the most telling things first, within a number of tokens."""

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


class Looked(Struct, frozen=True, kw_only=True):
    """What is kept of a body once somebody has looked into it."""

    shape: Shape
    whole: TokenCount
    note: str = ""
    """Why it was not looked into as it should be; "" where it was."""
