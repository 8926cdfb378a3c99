"""JSON pointers: return the value at a position exactly as stored, byte for byte.

The parser splits one level of the path at a time into its undecoded values. If an object has a name
twice, the last one counts, as for every other JSON reader here.

Rule: memory is one level of the path; the parser's process limits it, to lists of about 3 million
items and objects of about a million members (docs/decisions/0036).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Raw

from contextrelay.content.slicing.source import (
    FittedPiece,
    SliceSource,
    bytes_for,
    fit_bytes,
    format_range,
)
from contextrelay.documents.pointer import parse, spell
from contextrelay.documents.values import quote_value
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import MIB

# A longer value is shown without its names or the number of its items.
JSON_COUNTED_BYTES_MAX = 4 * MIB
_NAMES_SHOWN = 12
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_LINE = re.compile(rb"\S[^\n]*")
_BLANKS = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_LINES = "application/x-ndjson"
_LINES_HINT = "read lines instead: relay get {} --lines 1:40"


def slice_at_pointer(source: SliceSource, pointer: str, tokens_max: int) -> FittedPiece:
    """Return the value at a pointer, or its beginning if it does not fit.

    Raises:
        Invalid: the pointer is invalid, or the body is not JSON.
        NotFound: there is no such value.
    """
    tokens = parse(pointer)
    body = json_of(source)
    value = _value(source, body, tokens)
    room = bytes_for(tokens_max)
    text, kept = fit_bytes(bytes(value[:room]), tokens_max, is_end=len(value) <= room)
    if kept == len(value):
        return FittedPiece(at=pointer, text=text)
    # If the same value occurs earlier, its bytes are the same too. Offsets are those of the stored
    # body, which may start with a byte order mark.
    start = body.find(value) + source.size_bytes - len(body)
    # The names inside a value that is too long, so that the reader can go deeper.
    notes: tuple[str, ...] = ()
    if len(value) <= JSON_COUNTED_BYTES_MAX and (tokens or not is_lines(source)):
        if bytes(value[:1]) == b"{":
            names = _names(msgspec.json.decode(value, type=dict[str, Raw]))
            notes = (f"an object that {names}",)
        elif bytes(value[:1]) == b"[":
            notes = (f"a list of {len(msgspec.json.decode(value, type=list[Raw])):,}",)
    rest = f"{len(value) - kept:,} of {len(value):,} bytes of {pointer or 'the document'}"
    return FittedPiece(
        at=pointer,
        text=text,
        left_out=rest,
        next_args={"bytes": format_range(start + kept, start + len(value))},
        notes=notes,
    )


def json_of(source: SliceSource) -> bytes:
    """Return a body that is declared as JSON, or looks like it, without its byte order mark."""
    body = source.bytes_of(0, source.size_bytes).removeprefix(_BYTE_ORDER_MARK)
    if source.type != "json" and body.lstrip(_BLANKS)[:1] not in (b"{", b"["):
        hint = _LINES_HINT.format(source.ref[:8])
        raise Invalid(f"{source.ref} is not JSON (type {source.type})", hint)
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
    return Invalid(f"{source.ref} is not JSON: {error}", _LINES_HINT.format(source.ref[:8]))


def _value(source: SliceSource, body: bytes, tokens: tuple[str, ...]) -> memoryview:
    value, depth = memoryview(body.strip(_BLANKS)), 0
    try:
        if is_lines(source):
            if not tokens:
                return memoryview(body.strip())
            index = int(tokens[0]) if _INDEX.fullmatch(tokens[0]) else None
            line = None if index is None else next(islice(lines_of(body), index, None), None)
            if line is None:
                raise _missing(tokens[:1], _items(sum(1 for _ in lines_of(body))))
            value, depth = memoryview(line.rstrip()), 1
        if depth == len(tokens):
            msgspec.json.decode(value, type=Raw)
        for end in range(depth + 1, len(tokens) + 1):
            value = _child(value, tokens[:end])
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(source, error) from None
    return value


def _child(value: memoryview, path: tuple[str, ...]) -> memoryview:
    token = path[-1]
    if bytes(value[:1]) == b"{":
        members = msgspec.json.decode(value, type=dict[str, Raw])
        if token not in members:
            raise _missing(path, _names(members))
        return memoryview(members[token])
    if bytes(value[:1]) == b"[":
        items = msgspec.json.decode(value, type=list[Raw])
        if not _INDEX.fullmatch(token) or int(token) >= len(items):
            raise _missing(path, _items(len(items)))
        return memoryview(items[int(token)])
    msgspec.json.decode(value, type=Raw)
    raise _missing(path, "is not an object or list")


def _missing(path: tuple[str, ...], why: str) -> NotFound:
    holder = quote_value(spell(path[:-1])) if len(path) > 1 else "the document"
    return NotFound(f"{quote_value(spell(path))} not found", f"{holder} {why}")


def _items(count: int) -> str:
    return f"is a list {f'with items 0 to {count - 1:,}' if count else 'without items'}"


def _names(members: dict[str, Raw]) -> str:
    """Return the first names of an object, and the number of further ones."""
    if not members:
        return "is empty"
    more = len(members) - _NAMES_SHOWN
    names = ", ".join(map(quote_value, islice(members, _NAMES_SHOWN)))
    return f"has {names}{f' and {more:,} more' if more > 0 else ''}"
