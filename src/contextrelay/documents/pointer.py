"""Pointers: the paths into a JSON document, as RFC 6901 spells them.

Rule: a text is parsed once, into tokens; from there on nobody splits a string again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from contextrelay.documents.values import is_list, is_object, shown
from contextrelay.errors import Invalid, Refused, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, POINTER_CHARS_MAX

Tokens = tuple[str, ...]
Place = tuple[str | int, ...]

APPEND = "-"
MISSING = "missing"
"""In the details of an error: the place that is not there."""

_BAD_ESCAPE = re.compile(r"~(?![01])")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# More digits than any list has items; so a long run of them costs nothing.
_INDEX_DIGITS_MAX = 18
_SHOWN_MEMBERS = 8


def parse(text: str) -> Tokens:
    """Read a pointer; the empty one names the whole document.

    Raises:
        Invalid: it is none; TooLarge where it is too long.
    """
    if not text:
        return ()
    if text[0] != "/":
        raise Invalid(
            f"the path {shown(text)} does not begin with a slash", f'write "/{text[:20]}"'
        )
    if len(text) > POINTER_CHARS_MAX:
        raise TooLarge(
            f"the path {shown(text)} has {len(text)} characters",
            f"the limit is {POINTER_CHARS_MAX} characters; replace what holds it as a whole",
        )
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise Invalid(f"the path {shown(text)} is not UTF-8", "write it with whole characters")
    tokens = text[1:].split("/")
    if len(tokens) > JSON_DEPTH_MAX:
        raise Invalid(
            f"the path {shown(text)} goes {len(tokens)} levels deep",
            f"the limit is {JSON_DEPTH_MAX} levels",
        )
    if "~" in text:
        if _BAD_ESCAPE.search(text):
            raise Invalid(
                f"the path {shown(text)} has a bare tilde", 'write "~" as "~0" and "/" as "~1"'
            )
        # In this order: "~01" is "~1", and not a slash.
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    return tuple(tokens)


def spell(tokens: Sequence[str]) -> str:
    """Write tokens as a pointer."""
    return "".join("/" + escape(token) for token in tokens)


def escape(token: str) -> str:
    """Write one token as it stands between two slashes."""
    return token.replace("~", "~0").replace("/", "~1")


def find(document: object, tokens: Sequence[str]) -> Any:
    """What is at a place.

    Raises:
        Refused: nothing is there.
    """
    return walk(document, tokens)[0]


def walk(document: object, tokens: Sequence[str]) -> tuple[Any, Place]:
    """What is at a place, and the way there, on which the index of a list is a number.

    Raises:
        Refused: nothing is there.
    """
    here: Any = document
    place: list[str | int] = []
    for depth, token in enumerate(tokens):
        key: Any = token
        if is_list(here):
            key = index_of(here, tokens[: depth + 1])
        elif not is_object(here) or token not in here:
            raise missing(here, tokens[: depth + 1])
        place.append(key)
        here = here[key]
    return here, tuple(place)


def index_of(items: list[Any], tokens: Sequence[str], is_insert: bool = False) -> int:
    """Where in a list the last token points: at an item or, to insert, at the end as well.

    Raises:
        Refused: the token is no index, or points behind the list.
    """
    token = tokens[-1]
    if is_insert and token == APPEND:
        return len(items)
    # isdigit alone would let other scripts' digits pass, and RFC 6901 has no leading zeros.
    if token.isascii() and token.isdigit() and (token[0] != "0" or token == "0"):
        index = int(token) if len(token) <= _INDEX_DIGITS_MAX else len(items) + 1
        if index < len(items) + is_insert:
            return index
    raise missing(items, tokens)


def missing(here: object, tokens: Sequence[str]) -> Refused:
    """The error for a place that is not there; `here` is what should hold it."""
    place = shown(spell(tokens))
    holder = shown(spell(tokens[:-1])) if len(tokens) > 1 else "the document"
    if is_list(here):
        count = len(here)
        return Refused(
            f"there is no {place}: {holder} is a list of {count}",
            f"its items are 0 to {count - 1}; to add at its end, use -" if count else "use -",
            {MISSING: place},
        )
    if is_object(here):
        names = list(here)
        listed = ", ".join(shown(name) for name in names[:_SHOWN_MEMBERS])
        more = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
        return Refused(
            f"there is no {place}: {holder} has no such member",
            f"it has {listed}{more}" if listed else "it is empty; add the member first",
            {MISSING: place},
        )
    return Refused(
        f"there is no {place}: {holder} is no object and no list",
        f"replace {holder} with one first",
        {MISSING: place},
    )
