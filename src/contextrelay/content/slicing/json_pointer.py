"""JSON pointers into a body: the value at a place, as it stands there, byte for byte.

The parser checks the body once, building nothing. Then the body is gone through once from its
beginning: what is not on the way is skipped, and the way goes down as it is met. Of a name that an
object has twice the last one counts, as for every other reader of JSON here.

Rule: time grows with the body and not with the depth of the pointer; memory is the body and what
is shown of it.
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
from contextrelay.documents.values import shown
from contextrelay.errors import Invalid, NotFound, TooLarge

# Of the same name in objects on the way of a JSON pointer; the last one counts.
JSON_SAME_NAMES_MAX = 1_000


_NAMES_SHOWN = 12
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_LINE = re.compile(rb"\S[^\n]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_LINES = "application/x-ndjson"


def take_at_pointer(source: SliceSource, pointer: str, tokens_max: int) -> FittedPiece:
    """The value at a pointer; of one that does not fit, its beginning.

    Raises:
        Invalid: the pointer is none, or the body is no JSON.
        NotFound: nothing is there.
        TooLarge: a name on the way is there too often.
    """
    tokens = parse(pointer)
    body = json_of(source)
    start, stop = _place(source, body, tokens)
    room = bytes_for(tokens_max)
    head = body[start : min(stop, start + room)]
    text, kept = fit_bytes(head, tokens_max, is_end=stop - start <= room)
    if kept == stop - start:
        return FittedPiece(at=pointer, text=text)
    # Places are those of the body as it is stored, which may begin with a mark that is no JSON.
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
    """A body that says of itself that it is JSON, or looks like it, without its byte order mark."""
    body = source.bytes_of(0, source.size_bytes).removeprefix(_BYTE_ORDER_MARK)
    first = value_start(body, 0)
    if source.type != "json" and body[first : first + 1] not in (b"{", b"["):
        raise Invalid(
            f"{source.ref} is no JSON, but {source.type}",
            f"take lines of it: relay get {source.ref[:8]} --lines 1:40",
        )
    return body


def is_lines(source: SliceSource) -> bool:
    """Whether it is one document a line; then the lines are the items of a list."""
    return source.media_type.partition(";")[0].strip() == _JSON_LINES


def lines_of(body: bytes) -> Iterator[bytes]:
    """The documents of JSON lines."""
    return (line[0] for line in _LINE.finditer(body))


def not_json(source: SliceSource, error: Exception) -> Invalid:
    """The error for a body that the parser of JSON refuses."""
    if isinstance(error, RecursionError):
        return Invalid(
            f"{source.ref} is nested too deep to be read as JSON",
            f"take bytes of it: relay get {source.ref[:8]} --bytes 0:2000",
        )
    hint = f"take lines of it: relay get {source.ref[:8]} --lines 1:40"
    return Invalid(f"{source.ref} is not JSON: {error}", hint)


def _check(source: SliceSource, raw: memoryview) -> None:
    """Refuse what is no JSON, or is nested so deep that it cannot be read."""
    try:
        msgspec.json.decode(raw, type=Raw)
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(source, error) from None


def _place(source: SliceSource, body: bytes, tokens: tuple[str, ...]) -> tuple[int, int]:
    """From where to where the value at a pointer stands."""
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
    """The value at a pointer, or why it is not there; and where the searched value ends."""

    end: int
    start: int = 0
    stop: int = 0
    missing: NotFound | None = None


class _Descent:
    """The way of a pointer through a document that is valid, each byte of it passed once."""

    def __init__(self, raw: bytes, tokens: tuple[str, ...]) -> None:
        self._raw = raw
        self._tokens = tokens
        self._same_names = 0

    def below(self, at: int, depth: int, needs_end: bool) -> _Found:
        """Find what the tokens from a depth on mean, below the value that begins here.

        `needs_end`: say where that value ends, because an object goes on behind it.
        """
        raw, tokens = self._raw, self._tokens
        if depth == len(tokens):
            stop = value_end(raw, at)
            return _Found(stop, at, stop)
        if raw[at] == LIST:
            return self._in_list(at, depth, needs_end)
        if raw[at] == OBJECT:
            return self._in_object(at, depth)
        missing = _missing(tokens[: depth + 1], "it is no object and no list")
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
                    f"{shown(spell(self._tokens[: depth + 1]))} is there too often",
                    f"the limit is {JSON_SAME_NAMES_MAX:,} times the same name; find it with grep",
                )
            found = self.below(start, depth + 1, needs_end=True)
            members.at = found.end
        if found is None:
            missing = _missing(self._tokens[: depth + 1], f"it {_names(members)}")
            return _Found(members.at, missing=missing)
        return _Found(members.at, found.start, found.stop, found.missing)


def _missing(path: tuple[str, ...], why: str) -> NotFound:
    holder = shown(spell(path[:-1])) if len(path) > 1 else "the document"
    return NotFound(f"there is no {shown(spell(path))}", f"{holder}: {why}")


def _items(count: int) -> str:
    return f"it is a list: {f'its items are 0 to {count - 1:,}' if count else 'it is empty'}"


def _names(members: Members) -> str:
    """The first names of an object, and how many more there are."""
    if not members.count:
        return "is empty"
    more = members.count - len(members.names)
    names = ", ".join(map(shown, members.names))
    return f"has {names}{f' and {more:,} more' if more else ''}"


def _inside(raw: bytes, at: int) -> tuple[str, ...]:
    """What is in a value that is too long to be shown, so that the reader can go deeper."""
    if raw[at] == OBJECT:
        members = Members(raw, at, _NAMES_SHOWN)
        members.find(None)
        return (f"it is an object with {_names(members).removeprefix('has ')}",)
    if raw[at] == LIST:
        items = Items(raw, at)
        items.skip()
        return (f"it is a list of {items.count:,}",)
    return ()
