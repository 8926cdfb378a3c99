"""JSON pointers: return the value at a position exactly as stored, byte for byte.

The parser validates the body once without building values. Then the body is scanned once from the
start: values off the path are skipped, and the scan descends along the path. If an object has a
name twice, the last one counts, as for every other JSON reader here.

Rule: time is linear in the body and independent of the pointer's depth; memory is the body and the
shown part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from contextrelay.content.slicing.fit import FittedPiece, bytes_for, fit_bytes
from contextrelay.content.slicing.json_scan import (
    LIST,
    OBJECT,
    Items,
    Members,
    rest_end,
    value_end,
    value_start,
)
from contextrelay.content.slicing.source import SliceSource
from contextrelay.content.slicing.span import spell as spell_span
from contextrelay.documents.pointer import parse, spell
from contextrelay.documents.values import quote_value
from contextrelay.errors import Invalid, NotFound, TooLarge

# Maximum number of repetitions of a name in an object on the path; the last one counts.
JSON_SAME_NAMES_MAX = 1_000


_NAMES_SHOWN = 12
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_LINE = re.compile(rb"\S[^\n]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_LINES = "application/x-ndjson"


def take_at_pointer(source: SliceSource, pointer: str, tokens_max: int) -> FittedPiece:
    """Return the value at a pointer, or its beginning if it does not fit.

    Raises:
        Invalid: the pointer is invalid, or the body is not JSON.
        NotFound: there is no such value.
        TooLarge: a name on the path is repeated too often.
    """
    tokens = parse(pointer)
    body = json_of(source)
    start, stop = _place(source, body, tokens)
    room = bytes_for(tokens_max)
    head = body[start : min(stop, start + room)]
    text, kept = fit_bytes(head, tokens_max, is_end=stop - start <= room)
    if kept == stop - start:
        return FittedPiece(at=pointer, text=text)
    # Offsets are those of the stored body, which may start with a byte order mark.
    before = source.size_bytes - len(body)
    rest = f"{stop - start - kept:,} of {stop - start:,} bytes of {pointer or 'the document'}"
    return FittedPiece(
        at=pointer,
        text=text,
        left_out=rest,
        next_args={"bytes": spell_span(before + start + kept, before + stop)},
        notes=() if not tokens and is_lines(source) else _inside(body, start),
    )


def json_of(source: SliceSource) -> bytes:
    """Return a body that is declared as JSON, or looks like it, without its byte order mark."""
    body = source.bytes_of(0, source.size_bytes).removeprefix(_BYTE_ORDER_MARK)
    first = value_start(body, 0)
    if source.type != "json" and body[first : first + 1] not in (b"{", b"["):
        raise Invalid(
            f"{source.ref} is not JSON (type {source.type})",
            f"read lines instead: relay get {source.ref[:8]} --lines 1:40",
        )
    return body


def is_lines(source: SliceSource) -> bool:
    """Return True for JSON lines, which are treated as the items of a list."""
    return source.media_type.partition(";")[0].strip() == _JSON_LINES


def lines_of(body: bytes) -> Iterator[bytes]:
    """Yield the documents of JSON lines."""
    return (line[0] for line in _LINE.finditer(body))


def not_json(source: SliceSource, error: Exception) -> Invalid:
    """Return the error for a body that the JSON parser refuses."""
    if isinstance(error, RecursionError):
        return Invalid(
            f"{source.ref} is nested too deeply to parse as JSON",
            f"read bytes instead: relay get {source.ref[:8]} --bytes 0:2000",
        )
    hint = f"read lines instead: relay get {source.ref[:8]} --lines 1:40"
    return Invalid(f"{source.ref} is not JSON: {error}", hint)


def _check(source: SliceSource, raw: memoryview) -> None:
    """Refuse a body that is not JSON, or is nested too deeply."""
    try:
        msgspec.json.decode(raw, type=Raw)
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(source, error) from None


def _place(source: SliceSource, body: bytes, tokens: tuple[str, ...]) -> tuple[int, int]:
    """Return start and end of the value at a pointer."""
    depth = start = 0
    if is_lines(source):
        if not tokens:
            start = value_start(body, 0)
            return start, max(start, len(body.rstrip()))
        index = int(tokens[0]) if _INDEX.fullmatch(tokens[0]) else None
        line = None if index is None else next(islice(_LINE.finditer(body), index, None), None)
        if line is None:
            raise _missing(tokens[:1], _items(sum(1 for _ in _LINE.finditer(body))))
        start, stop = line.span()
        depth = 1
        _check(source, memoryview(body)[start:stop])
    else:
        _check(source, memoryview(body))
    found = _Descent(body, tokens).below(value_start(body, start), depth, needs_end=False)
    if found.missing is not None:
        raise found.missing
    return found.start, found.stop


class _Found(Struct, frozen=True):
    """The value at a pointer, or why it does not exist; and the end of the searched value."""

    end: int
    start: int = 0
    stop: int = 0
    missing: NotFound | None = None


class _Descent:
    """Follows a pointer through a valid document, reading each byte once."""

    def __init__(self, raw: bytes, tokens: tuple[str, ...]) -> None:
        self._raw = raw
        self._tokens = tokens
        self._same_names = 0

    def below(self, at: int, depth: int, needs_end: bool) -> _Found:
        """Find the value for the tokens from `depth` on, inside the value that starts at `at`.

        `needs_end`: also find the end of that value, because its object continues after it.
        """
        raw, tokens = self._raw, self._tokens
        if depth == len(tokens):
            stop = value_end(raw, at)
            return _Found(stop, at, stop)
        if raw[at] == LIST:
            return self._in_list(at, depth, needs_end)
        if raw[at] == OBJECT:
            return self._in_object(at, depth)
        missing = _missing(tokens[: depth + 1], "is not an object or list")
        return _Found(value_end(raw, at), missing=missing)

    def _in_list(self, at: int, depth: int, needs_end: bool) -> _Found:
        token = self._tokens[depth]
        items = Items(self._raw, at)
        start = items.skip(int(token) if _INDEX.fullmatch(token) else None)
        if start is None:
            missing = _missing(self._tokens[: depth + 1], _items(items.count))
            return _Found(items.at, missing=missing)
        found = self.below(start, depth + 1, needs_end)
        if not needs_end:
            return found
        return _Found(rest_end(self._raw, found.end), found.start, found.stop, found.missing)

    def _in_object(self, at: int, depth: int) -> _Found:
        members = Members(self._raw, at, _NAMES_SHOWN)
        found: _Found | None = None
        while (start := members.find(self._tokens[depth])) is not None:
            self._same_names += found is not None
            if self._same_names > JSON_SAME_NAMES_MAX:
                raise TooLarge(
                    f"{quote_value(spell(self._tokens[: depth + 1]))} is repeated too often",
                    f"the limit is {JSON_SAME_NAMES_MAX:,} of the same name; find it with grep",
                )
            found = self.below(start, depth + 1, needs_end=True)
            members.at = found.end
        if found is None:
            missing = _missing(self._tokens[: depth + 1], _names(members))
            return _Found(members.at, missing=missing)
        return _Found(members.at, found.start, found.stop, found.missing)


def _missing(path: tuple[str, ...], why: str) -> NotFound:
    holder = quote_value(spell(path[:-1])) if len(path) > 1 else "the document"
    return NotFound(f"{quote_value(spell(path))} not found", f"{holder} {why}")


def _items(count: int) -> str:
    return f"is a list {f'with items 0 to {count - 1:,}' if count else 'without items'}"


def _names(members: Members) -> str:
    """Return the first names of an object, and the number of further ones."""
    if not members.count:
        return "is empty"
    more = members.count - len(members.names)
    names = ", ".join(map(quote_value, members.names))
    return f"has {names}{f' and {more:,} more' if more else ''}"


def _inside(raw: bytes, at: int) -> tuple[str, ...]:
    """Return the names inside a value that is too long, so that the reader can go deeper."""
    if raw[at] == OBJECT:
        members = Members(raw, at, _NAMES_SHOWN)
        members.find(None)
        return (f"an object that {_names(members)}",)
    if raw[at] == LIST:
        items = Items(raw, at)
        items.skip()
        return (f"a list of {items.count:,}",)
    return ()
