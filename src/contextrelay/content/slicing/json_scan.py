"""JSON scan: find where values, items and members of a JSON text begin and end, without parsing.

A value is skipped by one pattern that matches strings, and brackets up to a depth; many small
values are skipped at once. Deeper values are skipped bracket by bracket.

Rule: the text is valid JSON, as checked before; each function is linear in the text it skips, and
keeps none of it.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec
from msgspec import Struct

# Limits of the pattern that skips values before a pointer's target: levels of brackets, and items
# skipped at once.
JSON_SKIPPED_DEPTH = 64
JSON_SKIPPED_AT_ONCE = 32


LIST, OBJECT, TEXT = b'[{"'

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Every alternative is determined by its first byte, without backtracking (`++`, `*+`): linear time.
_PLAIN = rb'[^\[\]{}"]++'
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_ONE_STRING = re.compile(_STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^\[\]{},: \t\r\n]++")
_NAME = re.compile(rb"[ \t\r\n,]*+(" + _STRING + rb")[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL)
_BRACKETS = re.compile(_STRING + rb"|[\[{]++|[\]}]++", re.DOTALL)
_BEFORE_ITEM = re.compile(rb"[ \t\r\n,]*+")


class _Patterns(Struct, frozen=True):
    container: re.Pattern[bytes]
    rest: re.Pattern[bytes]
    """Matches up to the end of the list or object that contains the position."""
    items: re.Pattern[bytes]
    """Matches several items, each with its comma."""
    members: re.Pattern[bytes]


@cache
def _patterns() -> _Patterns:
    """Compile the patterns when first needed, which takes some milliseconds."""
    inside = _PLAIN + rb"|" + _STRING
    container = rb"[\[{](?:" + inside + rb")*+[\]}]"
    for _ in range(JSON_SKIPPED_DEPTH - 1):
        container = rb"[\[{](?:" + inside + rb"|" + container + rb")*+[\]}]"
    item = rb'(?:[^\[\]{}",]++|' + _STRING + rb"|" + container + rb")++"
    many = b"{%d}" % JSON_SKIPPED_AT_ONCE
    return _Patterns(
        re.compile(container, re.DOTALL),
        re.compile(rb"(?:" + inside + rb"|" + container + rb")*+[\]}]", re.DOTALL),
        re.compile(rb"(?:" + item + rb",)" + many, re.DOTALL),
        re.compile(rb"(?:[ \t\r\n]*+" + _STRING + item + rb",)" + many, re.DOTALL),
    )


def value_start(raw: bytes, at: int) -> int:
    """Return the start of the next value, after whitespace."""
    return _end(_BLANKS, raw, at)


def value_end(raw: bytes, at: int) -> int:
    """Return the end of the value that starts here."""
    if raw[at] in (LIST, OBJECT):
        whole = _patterns().container.match(raw, at)
        return whole.end() if whole else _closed(raw, at, 0)
    return _end(_ONE_STRING if raw[at] == TEXT else _SCALAR, raw, at)


def rest_end(raw: bytes, at: int) -> int:
    """Return the end of the list or object, given the end of one of its items or members."""
    rest = _patterns().rest.match(raw, at)
    return rest.end() if rest else _closed(raw, at, 1)


class Items:
    """Iterates over the items of a list, starting at its bracket, singly or in bulk."""

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self.at = at + 1
        """Position after the last item passed, or after the list at its end."""
        self.count = 0
        """The number of items passed."""

    def skip(self, count: int | None = None) -> int | None:
        """Advance to the item with this index, or to the end; return its start, or None."""
        raw, items = self._raw, _patterns().items
        singles = 0
        while count is None or self.count < count:
            is_far = count is None or count - self.count >= JSON_SKIPPED_AT_ONCE
            many = items.match(raw, self.at) if is_far and not singles else None
            if many:
                self.at = many.end()
                self.count += JSON_SKIPPED_AT_ONCE
                continue
            # If a bulk skip fails, skip as many items singly before the next attempt: otherwise a
            # few deep items would cause the others to be scanned repeatedly.
            singles = (singles or JSON_SKIPPED_AT_ONCE) - 1
            start = self._next()
            if start is None:
                return None
            self.at = _end(_BEFORE_ITEM, raw, value_end(raw, start))
            self.count += 1
        return self._next()

    def _next(self) -> int | None:
        start = _end(_BEFORE_ITEM, self._raw, self.at)
        if self._raw[start] in b"]":
            self.at = start + 1
            return None
        return start


class Members:
    """Iterates over the members of an object, starting at its bracket; records the first names."""

    def __init__(self, raw: bytes, at: int, names_max: int) -> None:
        self._raw = raw
        self.at = at + 1
        """Position after the last member passed, or after the object at its end."""
        self.count = 0
        self.names: list[str] = []
        """The first names."""
        self._names_max = names_max
        self._singles = 0

    def find(self, name: str | None) -> int | None:
        """Return the start of the value of the next member with this name, or None.

        Before the next call, set `at` to the end of that value. Without a name, advance to the end.
        """
        raw = self._raw
        spelled = b"" if name is None else msgspec.json.encode(name)
        while True:
            if self._skips_many(spelled):
                continue
            key = _NAME.match(raw, self.at)
            if key is None:
                self.at = _end(_BEFORE_ITEM, raw, self.at) + 1
                return None
            self.count += 1
            if len(self.names) < self._names_max:
                self.names.append(_name(key[1]))
            is_same = key[1] == spelled or (b"\\" in key[1] and _name(key[1]) == name)
            if name is not None and is_same:
                return key.end()
            self.at = value_end(raw, key.end())

    def _skips_many(self, spelled: bytes) -> bool:
        """Skip many members at once, unless one of them may be the target."""
        if self._singles or len(self.names) < self._names_max:
            self._singles = max(0, self._singles - 1)
            return False
        self.at = _end(_BEFORE_ITEM, self._raw, self.at)
        many = _patterns().members.match(self._raw, self.at)
        # The name may occur, plainly or with escapes.
        may_hold = many and any(
            self._raw.find(sign, self.at, many.end()) >= 0 for sign in (spelled, b"\\")
        )
        if many and not (spelled and may_hold):
            self.at = many.end()
            self.count += JSON_SKIPPED_AT_ONCE
            return True
        self._singles = JSON_SKIPPED_AT_ONCE - 1
        return False


def _name(key: bytes) -> str:
    """Decode a JSON string; return it raw if it is not valid."""
    try:
        return msgspec.json.decode(key, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return key[1:-1].decode("utf-8", "replace")


def _closed(raw: bytes, at: int, depth: int) -> int:
    """Return the position where `depth` open brackets are closed, scanning bracket by bracket."""
    for part in _BRACKETS.finditer(raw, at):
        sign, size = raw[part.start()], part.end() - part.start()
        if sign in (LIST, OBJECT):
            depth += size
        elif sign != TEXT:
            if depth <= size:
                return part.start() + depth
            depth -= size
    return len(raw)


def _end(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    match = pattern.match(raw, at)
    return match.end() if match else at
