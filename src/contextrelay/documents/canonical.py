"""Canonical JSON (RFC 8785): one encoding for each value, so that equal values have equal hashes.

Rule: values that are equal as JSON are encoded in the same way in every language. Integers keep all
their digits, even if a double could not represent them.
"""

from __future__ import annotations

from decimal import Decimal
from json import dumps
from typing import cast

from contextrelay.errors import Invalid
from contextrelay.limits import JSON_DEPTH_MAX

# An artifact's description is deeper than its metadata by two levels.
_DEPTH_MAX = JSON_DEPTH_MAX + 2
# Numbers from 10^21 on, and below 10^-6, are written with an exponent.
_DIGITS_MAX = 21
_ZEROS_MAX = 6


def canonical(value: object) -> bytes:
    """Encode a JSON value canonically, in UTF-8.

    Raises:
        Invalid: the value is not JSON, or is nested too deeply.
    """
    try:
        return _spelled(value, 0).encode()
    except UnicodeEncodeError as error:
        raise Invalid("a string is not valid UTF-8", "remove it") from error


def _spelled(value: object, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise Invalid(f"nested deeper than {_DEPTH_MAX} levels", "flatten it")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        items = (_spelled(item, depth + 1) for item in cast("list[object]", value))
        return f"[{','.join(items)}]"
    if isinstance(value, dict):
        # RFC 8785 sorts by UTF-16 code units, not by characters, which differs for rare characters.
        held = cast("dict[str, object]", value)
        names = sorted(held, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        members = (
            f"{dumps(name, ensure_ascii=False)}:{_spelled(held[name], depth + 1)}" for name in names
        )
        return f"{{{','.join(members)}}}"
    raise Invalid(f"a value of type {type(value).__name__} is not a JSON type", "remove it")


def _number(value: float) -> str:
    """Return a double as text, with the fewest digits that give the same double (ECMAScript)."""
    if value == 0:
        return "0"
    parts = Decimal(repr(value)).as_tuple()
    if not isinstance(parts.exponent, int):
        raise Invalid(f"{value} is not valid JSON", "use null or a string")
    every = "".join(map(str, parts.digits))
    digits = every.rstrip("0")
    # The position of the decimal point, relative to the first digit.
    point = len(every) + parts.exponent
    sign = "-" if parts.sign else ""
    if len(digits) <= point <= _DIGITS_MAX:
        return sign + digits.ljust(point, "0")
    if 0 < point <= _DIGITS_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_ZEROS_MAX < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
