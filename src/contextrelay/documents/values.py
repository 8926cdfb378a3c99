"""JSON values as plain Python: types and equality.

Rule: this module imports nothing that loads slowly, because reading a project's files at every
start needs only this module.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

import msgspec

from contextrelay.documents.bounds import INTEGER_MAX, INTEGER_MIN
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, STATE_BYTES_MAX


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return True if a value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return True if a value is a JSON list."""
    return type(value) is list


def is_equal(one: Any, other: Any) -> bool:
    """Return True if two values are equal as JSON: 1 is 1.0, but true is not 1."""
    if is_object(one):
        if not is_object(other) or len(one) != len(other):
            return False
        return all(name in other and is_equal(value, other[name]) for name, value in one.items())
    if is_list(one):
        if not is_list(other) or len(one) != len(other):
            return False
        return all(is_equal(left, right) for left, right in zip(one, other, strict=True))
    return (type(one) is bool) == (type(other) is bool) and bool(one == other)


_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_INTEGER_CHARS_MAX = len(str(INTEGER_MIN))
_SHOWN_CHARS = 80


def read_json(text: bytes | str, what: str, bytes_max: int = STATE_BYTES_MAX) -> Any:
    """Return the value of a JSON text; `what` names the text in errors.

    Raises:
        Invalid: the text is not JSON, or not interoperable JSON.
        TooLarge: the text is longer than `bytes_max`.
    """
    # Import json here, because most commands read no hand-written JSON.
    import json

    if len(text) > bytes_max:
        hint = f"the limit is {bytes_max} bytes; send less"
        raise TooLarge(f"{what} is longer than {bytes_max} bytes", hint)
    try:
        decoded = text if isinstance(text, str) else text.decode()
        value = json.loads(
            decoded,
            object_pairs_hook=lambda pairs: _object(pairs, what),
            parse_constant=lambda constant: _float(constant, what),
            parse_float=lambda digits: _float(digits, what),
            parse_int=lambda digits: _integer(digits, what),
        )
    except UnicodeDecodeError as error:
        wrong = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise Invalid(f"{what} is not valid UTF-8: {wrong}", "encode it as UTF-8") from error
    except json.JSONDecodeError as error:
        wrong = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise Invalid(f"{what} is not JSON: {wrong}", "correct it there") from error
    except RecursionError as error:
        raise _too_deep(what, JSON_DEPTH_MAX) from error
    check_depth(value, what)
    if _ESCAPED_SURROGATE.search(decoded):
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError as error:
            lone = ord(error.object[error.start])
            raise Invalid(
                f"{what} contains a lone surrogate \\u{lone:04x} (half a character)",
                "write both surrogates of the pair, or neither",
            ) from error
    return value


def check_depth(value: object, what: str, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Check that a value is not nested too deeply, without recursion.

    Raises:
        Invalid: the value is nested too deeply.
    """
    level: list[Any] = [value]
    for _ in range(depth_max + 1):
        deeper: list[Any] = []
        for item in level:
            if is_object(item):
                deeper.append(item.values())
            elif is_list(item):
                deeper.append(item)
        if not deeper:
            return
        level = [item for items in deeper for item in items]
    raise _too_deep(what, depth_max)


def quote_value(text: str) -> str:
    """Return a path or name as errors quote it: short, and without hidden characters."""
    return ascii(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")


def encoded_bytes(value: object) -> int:
    """Return the size of a value as JSON, in bytes."""
    return len(msgspec.json.encode(value))


def _object(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen = set[str]()
    twice = next(name for name, _ in pairs if name in seen or seen.add(name))
    raise Invalid(f"{what} has a duplicate member {quote_value(twice)}", "remove one of them")


def _float(digits: str, what: str) -> float:
    if digits[-1].isalpha():  # NaN or Infinity.
        wrong = f"{what} contains {digits}, which is not valid JSON"
        raise Invalid(wrong, "use null or a string")
    number = float(digits)
    if not math.isfinite(number):
        wrong = f"{what} contains {quote_value(digits)}, which is too large"
        raise Invalid(wrong, "write it as a string")
    return number


def _integer(digits: str, what: str) -> int:
    # Check the length first, because parsing a long run of digits takes quadratic time.
    if len(digits) <= _INTEGER_CHARS_MAX and INTEGER_MIN <= (number := int(digits)) <= INTEGER_MAX:
        return number
    wrong = f"{what} contains {quote_value(digits)}, an integer of more than 64 bits"
    raise Invalid(wrong, "write large integers as strings")


def _too_deep(what: str, depth_max: int) -> Invalid:
    return Invalid(
        f"{what} is nested deeper than {depth_max} levels",
        f"the limit is {depth_max} levels; flatten it",
    )
