"""Bounds: limits of names, labels and JSON values from outside.

Rule: a check costs no more than the limit that it checks, for any input. There is no recursion, and
shared or cyclic values are counted each time they occur.
"""

from __future__ import annotations

import math
import re
from types import NoneType
from typing import cast

import msgspec

from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import (
    CHANNEL_CHARS_MAX,
    JSON_DEPTH_MAX,
    KEY_CHARS_MAX,
    LABEL_CHARS_MAX,
    NAME_CHARS_MAX,
)
from contextrelay.model.names import CONTROL_CHARS, HIDDEN_CHARS

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**64 - 1

_UNPRINTABLE = re.compile(f"[{HIDDEN_CHARS}]")
_UNPRINTABLE_CHANNEL = re.compile(rf"[{CONTROL_CHARS}\ud800-\udfff]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SHOWN_CHARS = 60


def check_json(value: object, what: str, bytes_max: int, depth_max: int = JSON_DEPTH_MAX) -> bytes:
    """Return a JSON value encoded as JSON, with its keys in the same order.

    Raises:
        Invalid: the value is not JSON, or is nested too deeply.
        TooLarge: the encoded value is longer than `bytes_max`.
    """
    check_values(value, what, bytes_max, depth_max)
    encoded = msgspec.json.encode(value)
    if len(encoded) > bytes_max:
        raise _too_large(what, bytes_max)
    return encoded


def check_values(value: object, what: str, bytes_max: int, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Check that a value is JSON without encoding it; errors as in `check_json`."""
    # Walk level by level. The size of every value is subtracted from the limit before its children
    # are visited, so the walk ends even if values are shared or cyclic.
    left_bytes = bytes_max
    level: list[object] = [value]
    for depth in range(depth_max + 1):
        deeper: list[object] = []
        for item in level:
            left_bytes -= _least_bytes(item, what)
            if left_bytes < 0:
                raise _too_large(what, bytes_max)
            if not isinstance(item, dict | list | tuple):
                continue
            if depth == depth_max:
                hint = f"the limit is {depth_max} levels; flatten it, or push it as a body"
                raise Invalid(f"{what} is nested deeper than {depth_max} levels", hint)
            if isinstance(item, dict):
                deeper.extend(cast("dict[str, object]", item).values())
            else:
                deeper.extend(cast("list[object]", item))
        level = deeper
        if not level:
            break


def _least_bytes(item: object, what: str) -> int:
    """Return the minimum encoded size of a value without its children, if its type is JSON."""
    # Compare exact types, because a subclass of str or int may be encoded as something else, or not
    # at all.
    kind = type(item)
    if kind is str:
        return 2 + _chars(cast("str", item), what)
    if kind is int and not INTEGER_MIN <= cast("int", item) <= INTEGER_MAX:
        hint = "write large integers as strings"
        raise Invalid(f"{what} contains an integer of more than 64 bits", hint)
    if kind is float and not math.isfinite(cast("float", item)):
        raise Invalid(f"{what} contains {item}, which is not valid JSON", "use null or a string")
    if kind in (int, float, bool, NoneType):
        return 1
    if kind in (list, tuple):
        return 1 + len(cast("list[object]", item))
    if kind is dict:
        return 1 + sum(4 + _chars(key, what) for key in cast("dict[object, object]", item))
    raise Invalid(
        f"{what} contains a value of type {kind.__name__}, which is not a JSON type",
        "use only dict, list, str, int, float, bool and None",
    )


def _chars(text: object, what: str) -> int:
    """Return the length of a string or key, after checking that it is valid."""
    if type(text) is not str:
        given = type(text).__name__
        raise Invalid(f"{what} has a key of type {given}, expected a string", "use strings as keys")
    if not text.isascii() and _LONE_SURROGATE.search(text):
        hint = "decode it with the right encoding, or push it as a binary body"
        raise Invalid(f"{what} contains {_shown(text)}, which is not valid UTF-8", hint)
    return len(text)


def _too_large(what: str, bytes_max: int) -> TooLarge:
    return TooLarge(
        f"{what} is longer than {bytes_max} bytes as JSON",
        f"the limit is {bytes_max} bytes; push the rest as a separate body and use its ref here",
    )


def check_name(name: str) -> str:
    """Check that a name is valid as a file name; return the name.

    Raises:
        Invalid: the name is not valid.
        TooLarge: the name is too long.
    """
    check_label(name, "name", NAME_CHARS_MAX)
    if "/" in name or "\\" in name:
        hint = "pass only the last part of the path"
        raise Invalid(f"the name {_shown(name)} contains a slash", hint)
    if name in {".", ".."}:
        raise Invalid(f"invalid name {name!r}", "choose another file name")
    return name


def check_label(text: str, what: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    """Check that a text fits on one line and is safe to show; return the text.

    `what` names it in errors.

    Raises:
        Invalid: the text is empty or contains an invalid character.
        TooLarge: the text is too long.
    """
    if not text.strip():
        raise Invalid(f"{what} is empty", f"pass at least one letter as {what}, or omit it")
    if len(text) > chars_max:
        hint = f"the limit is {chars_max} characters; shorten it"
        raise TooLarge(f"{what} has {len(text)} characters", hint)
    if _LONE_SURROGATE.search(text):
        hint = "rename the file, or pass a name"
        raise Invalid(f"{what} {_shown(text)} is not valid UTF-8", hint)
    if hidden := _UNPRINTABLE.search(text):
        wrong = f"contains the control character U+{ord(hidden[0]):04X}"
        raise Invalid(f"{what} {_shown(text)} {wrong}", "remove that character")
    return text


def check_channel(channel: str) -> str:
    """Check the name of a channel; return the name.

    A name is any text without control characters; slashes and spaces are allowed.

    Raises:
        Invalid: the name is empty or contains a control character.
        TooLarge: the name is too long.
    """
    if not channel:
        raise Invalid("the channel name is empty", "pass a name")
    if len(channel) > CHANNEL_CHARS_MAX:
        hint = f"the limit is {CHANNEL_CHARS_MAX} characters; shorten it"
        raise TooLarge(f"the channel name has {len(channel)} characters", hint)
    if hidden := _UNPRINTABLE_CHANNEL.search(channel):
        wrong = f"contains U+{ord(hidden[0]):04X}"
        raise Invalid(f"the channel name {_shown(channel)} {wrong}", "remove that character")
    return channel


def check_idempotency_key(key: str) -> None:
    """Check that a text is a valid idempotency key.

    Raises:
        Invalid: the text is not a valid key.
    """
    if not 1 <= len(key) <= KEY_CHARS_MAX or not key.isascii() or not key.isprintable():
        hint = f"a key has 1 to {KEY_CHARS_MAX} printable ASCII characters"
        raise Invalid("invalid idempotency key", hint)


def _shown(text: str) -> str:
    """Return a text in the form in which errors quote it: short, and without hidden characters."""
    return ascii(text[:_SHOWN_CHARS])
