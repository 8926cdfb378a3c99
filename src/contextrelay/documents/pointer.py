"""Pointers: paths into a JSON document (RFC 6901).

Rule: a text is parsed once, into tokens; no other code splits the string again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from contextrelay.documents.values import is_list, is_object, quote_value
from contextrelay.errors import Invalid, Refused, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, POINTER_CHARS_MAX

Tokens = tuple[str, ...]
Place = tuple[str | int, ...]

APPEND = "-"
MISSING = "missing"  # The key of the missing position in the details of an error.

_BAD_ESCAPE = re.compile(r"~(?![01])")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# One more digit than the largest list index has, so that a long run of digits is cheap to check.
_INDEX_DIGITS_MAX = 18
_SHOWN_MEMBERS = 8


def parse(text: str) -> Tokens:
    """Return the tokens of a pointer; the empty pointer means the whole document.

    Raises:
        Invalid: the pointer is malformed.
        TooLarge: the pointer is too long.
    """
    if not text:
        return ()
    if text[0] != "/":
        wrong = f"invalid path {quote_value(text)}: it must start with a slash"
        raise Invalid(wrong, f'pass "/{text[:20]}"')
    if len(text) > POINTER_CHARS_MAX:
        hint = f"the limit is {POINTER_CHARS_MAX} characters; replace a parent as a whole"
        raise TooLarge(f"the path {quote_value(text)} has {len(text)} characters", hint)
    if not text.isascii() and _LONE_SURROGATE.search(text):
        hint = "check how the text was decoded"
        raise Invalid(f"the path {quote_value(text)} is not valid UTF-8", hint)
    tokens = text[1:].split("/")
    if len(tokens) > JSON_DEPTH_MAX:
        hint = f"the limit is {JSON_DEPTH_MAX} levels"
        raise Invalid(f"the path {quote_value(text)} is {len(tokens)} levels deep", hint)
    if "~" in text:
        if _BAD_ESCAPE.search(text):
            hint = 'write "~" as "~0" and "/" as "~1"'
            raise Invalid(f"invalid path {quote_value(text)}: unescaped tilde", hint)
        # Replace in this order, because "~01" means "~1", not a slash.
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    return tuple(tokens)


def spell(tokens: Sequence[str]) -> str:
    """Return tokens as a pointer."""
    return "".join("/" + escape(token) for token in tokens)


def escape(token: str) -> str:
    """Return a token with ~ and / escaped."""
    return token.replace("~", "~0").replace("/", "~1")


def find(document: object, tokens: Sequence[str]) -> Any:
    """Return the value at a position.

    Raises:
        Refused: the position does not exist.
    """
    return walk(document, tokens)[0]


def walk(document: object, tokens: Sequence[str]) -> tuple[Any, Place]:
    """Return the value at a position, and the path to the value, with list indexes as numbers.

    Raises:
        Refused: the position does not exist.
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
    """Return the list index that the last token means; `is_insert`: the end is valid too.

    Raises:
        Refused: the token is not an index, or is out of range.
    """
    token = tokens[-1]
    if is_insert and token == APPEND:
        return len(items)
    # isdigit alone is not enough: it accepts digits of other scripts, and RFC 6901 forbids leading
    # zeros.
    if token.isascii() and token.isdigit() and (token[0] != "0" or token == "0"):
        index = int(token) if len(token) <= _INDEX_DIGITS_MAX else len(items) + 1
        if index < len(items) + is_insert:
            return index
    raise missing(items, tokens)


def missing(here: object, tokens: Sequence[str]) -> Refused:
    """Return the error for a position that does not exist; `here` is the value at its parent."""
    place = quote_value(spell(tokens))
    holder = quote_value(spell(tokens[:-1])) if len(tokens) > 1 else "the document"
    why, hint = "is not an object or list", f"replace {holder} with one first"
    if is_list(here):
        count = len(here)
        why = f"is a list of {count}"
        hint = f"its items are 0 to {count - 1}; use - to append" if count else "use - to append"
    elif is_object(here):
        names = list(here)
        listed = ", ".join(quote_value(name) for name in names[:_SHOWN_MEMBERS])
        more = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
        why = "has no such member"
        hint = f"it has {listed}{more}" if listed else "it is empty; add the member first"
    return Refused(f"{place} not found: {holder} {why}", hint, {MISSING: place})
