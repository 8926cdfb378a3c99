"""JSON scan: where the values, items and members of a JSON text begin and end; nothing is built.

A value is skipped by one pattern that knows brackets to a depth and strings; many small ones are
skipped by it at once. What is nested deeper is skipped bracket by bracket.

Rule: the text is valid JSON, which a parser has said before; each function is linear in what it
goes over, and keeps nothing of it.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec
from msgspec import Struct

# What lies before the value that a JSON pointer means is skipped by a pattern that knows so many
# levels of brackets, and so many items at once.
JSON_SKIPPED_DEPTH = 64
JSON_SKIPPED_AT_ONCE = 32


LIST, OBJECT, TEXT = b'[{"'

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Every choice is known by its first byte and none is taken back (`++`, `*+`): so it is linear.
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
    """Up to where the list or object ends in which it begins."""
    items: re.Pattern[bytes]
    """So many items, each with its comma."""
    members: re.Pattern[bytes]


@cache
def _patterns() -> _Patterns:
    """Made when first needed: that takes some milliseconds."""
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
    """Where the next value begins, behind blanks."""
    return _end(_BLANKS, raw, at)


def value_end(raw: bytes, at: int) -> int:
    """Where the value ends that begins here."""
    if raw[at] in (LIST, OBJECT):
        whole = _patterns().container.match(raw, at)
        return whole.end() if whole else _closed(raw, at, 0)
    return _end(_ONE_STRING if raw[at] == TEXT else _SCALAR, raw, at)


def rest_end(raw: bytes, at: int) -> int:
    """Where the list or object ends, of which an item or member ends here."""
    rest = _patterns().rest.match(raw, at)
    return rest.end() if rest else _closed(raw, at, 1)


class Items:
    """The items of a list, from its bracket on, one after the other or many at once."""

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self.at = at + 1
        """Behind the last item passed, or, at the end, behind the list."""
        self.count = 0
        """How many are passed."""

    def skip(self, count: int | None = None) -> int | None:
        """Go to the item of this number, or to the end; where it begins, None if there is none."""
        raw, items = self._raw, _patterns().items
        singles = 0
        while count is None or self.count < count:
            is_far = count is None or count - self.count >= JSON_SKIPPED_AT_ONCE
            many = items.match(raw, self.at) if is_far and not singles else None
            if many:
                self.at = many.end()
                self.count += JSON_SKIPPED_AT_ONCE
                continue
            # Where so many cannot be skipped at once, as many are one by one before it is tried
            # again: else a few deep ones would have the others gone over again and again.
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
    """The members of an object, from its bracket on: the first few names, and those looked for."""

    def __init__(self, raw: bytes, at: int, names_max: int) -> None:
        self._raw = raw
        self.at = at + 1
        """Behind the last member passed, or, at the end, behind the object."""
        self.count = 0
        self.names: list[str] = []
        """The first of them."""
        self._names_max = names_max
        self._singles = 0

    def find(self, name: str | None) -> int | None:
        """Where the value of the next member of this name begins; None if there is none.

        Before the next call, set `at` behind that value. Without a name, go to the end.
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
        """Pass many members at once, none of which can be the one that is looked for."""
        if self._singles or len(self.names) < self._names_max:
            self._singles = max(0, self._singles - 1)
            return False
        self.at = _end(_BEFORE_ITEM, self._raw, self.at)
        many = _patterns().members.match(self._raw, self.at)
        # The name may be there, plainly or with escapes.
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
    """A name as it is meant; as it is written, where that is no text."""
    try:
        return msgspec.json.decode(key, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return key[1:-1].decode("utf-8", "replace")


def _closed(raw: bytes, at: int, depth: int) -> int:
    """Where brackets are closed that are open to a depth here; one by one."""
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
