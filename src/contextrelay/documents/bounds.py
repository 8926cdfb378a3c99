"""Bounds: what a name, a label or a JSON value from outside may be.

Rule: a check costs no more than the limit that it checks, whatever it is given: no recursion, and
what is shared or cyclic is counted every time it is met.
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
    """Encode a JSON value, keys in the order they have.

    Raises:
        Invalid: it is not JSON, or is nested too deep.
        TooLarge: it is over `bytes_max` as JSON.
    """
    # Level by level. Every value takes its bytes off the limit before its own values are looked
    # at, so the walk ends, however much is shared in it.
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
                raise Invalid(
                    f"{what} is nested deeper than {depth_max} levels",
                    f"the limit is {depth_max} levels; flatten it, or push it as a body",
                )
            if isinstance(item, dict):
                deeper.extend(cast("dict[str, object]", item).values())
            else:
                deeper.extend(cast("list[object]", item))
        level = deeper
        if not level:
            break
    encoded = msgspec.json.encode(value)
    if len(encoded) > bytes_max:
        raise _too_large(what, bytes_max)
    return encoded


def _least_bytes(item: object, what: str) -> int:
    """How many bytes a value takes at least, without the values in it; refuse what is not JSON."""
    # Exact types: a subclass of str or int may encode as something else, or not at all.
    kind = type(item)
    if kind is str:
        return 2 + _chars(cast("str", item), what)
    if kind is int and not INTEGER_MIN <= cast("int", item) <= INTEGER_MAX:
        raise Invalid(
            f"{what} holds an integer of more than 64 bits", "write large integers as strings"
        )
    if kind is float and not math.isfinite(cast("float", item)):
        raise Invalid(f"{what} holds {item}, which is no JSON", "use null, or a string")
    if kind in (int, float, bool, NoneType):
        return 1
    if kind in (list, tuple):
        return 1 + len(cast("list[object]", item))
    if kind is dict:
        return 1 + sum(4 + _chars(key, what) for key in cast("dict[object, object]", item))
    raise Invalid(
        f"{what} holds a {kind.__name__}, which is no JSON value",
        "use only dict, list, str, int, float, bool and None",
    )


def _chars(text: object, what: str) -> int:
    """The length of a string or key, checked."""
    if type(text) is not str:
        raise Invalid(
            f"{what} has a key that is a {type(text).__name__}, not a string",
            "write its keys as strings",
        )
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise Invalid(
            f"{what} holds {_shown(text)}, which is not UTF-8",
            "decode it with the encoding that it has, or push it as a binary body",
        )
    return len(text)


def _too_large(what: str, bytes_max: int) -> TooLarge:
    return TooLarge(
        f"{what} is over {bytes_max} bytes as JSON",
        f"the limit is {bytes_max} bytes; push the rest as a body of its own and name its ref here",
    )


def check_name(name: str) -> str:
    """Check that a name can be the name of a file.

    Raises:
        Invalid: it cannot; TooLarge where it is too long.
    """
    check_label(name, "name", NAME_CHARS_MAX)
    if "/" in name or "\\" in name:
        raise Invalid(
            f"the name {_shown(name)} holds a slash", "give the last part of the path only"
        )
    if name in {".", ".."}:
        raise Invalid(f"{name!r} is no name", "give the file a name of its own")
    return name


def check_label(text: str, what: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    """Check a short text that fits on one line and can be shown as it is.

    Raises:
        Invalid: it cannot; TooLarge where it is too long.
    """
    if not text.strip():
        raise Invalid(f"{what} is empty", f"give {what} at least one letter, or leave it out")
    if len(text) > chars_max:
        raise TooLarge(
            f"{what} has {len(text)} characters", f"the limit is {chars_max} characters; shorten it"
        )
    if _LONE_SURROGATE.search(text):
        raise Invalid(
            f"{what} {_shown(text)} is not UTF-8", "rename the file, or give a name by itself"
        )
    hidden = _UNPRINTABLE.search(text)
    if hidden:
        raise Invalid(
            f"{what} {_shown(text)} holds the control character U+{ord(hidden[0]):04X}",
            "leave that character out",
        )
    return text


def check_channel(channel: str) -> str:
    """Check the name of a channel: any text without control characters, slashes and spaces too.

    Raises:
        Invalid: it is empty or holds a control character; TooLarge where it is too long.
    """
    if not channel:
        raise Invalid("the channel has no name", "give it one")
    if len(channel) > CHANNEL_CHARS_MAX:
        raise TooLarge(
            f"the channel's name has {len(channel)} characters",
            f"the limit is {CHANNEL_CHARS_MAX} characters; shorten it",
        )
    hidden = _UNPRINTABLE_CHANNEL.search(channel)
    if hidden:
        raise Invalid(
            f"the channel {_shown(channel)} holds U+{ord(hidden[0]):04X}",
            "leave that character out",
        )
    return channel


def check_idempotency_key(key: str) -> None:
    """Check that a text can be an idempotency key.

    Raises:
        Invalid: it cannot.
    """
    if not 1 <= len(key) <= KEY_CHARS_MAX or not key.isascii() or not key.isprintable():
        raise Invalid(
            "invalid idempotency key",
            f"a key has 1 to {KEY_CHARS_MAX} printable ASCII characters",
        )


def _shown(text: str) -> str:
    """A text as an error may quote it: short, and with nothing hidden in it."""
    return ascii(text[:_SHOWN_CHARS])
