"""JSONPath (RFC 9535) queries: every selected value with its pointer.

Rule: only what is shown is built. Once the budget is used, further results are counted, but neither
formatted nor encoded; of a long value only the beginning is encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from contextrelay.content.slicing.fit import FittedPiece, bytes_for, fit_lines
from contextrelay.content.slicing.json_pointer import is_lines, json_of, lines_of, not_json
from contextrelay.content.slicing.json_query import CHARS_A_STEP, Link, Place, Query
from contextrelay.content.slicing.source import SliceSource
from contextrelay.documents.pointer import spell
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import TooLarge
from contextrelay.limits import LINE_BYTES_SHOWN, MIB, POINTER_CHARS_MAX

JSON_PATH_BYTES_MAX = 16 * MIB
# Maximum estimated memory for the values of a document that is built for a query.
JSON_PATH_ROOM_BYTES_MAX = 256 * MIB
JSON_PATH_MATCHES_MAX = 10_000


def take_by_path(source: SliceSource, query: str, tokens_max: int) -> FittedPiece:
    """Return the values that a query selects, one per line: pointer, a tab, JSON.

    Raises:
        Invalid: the query is invalid, or the body is not JSON.
        TooLarge: the body or the query exceeds a limit.
    """
    asked = Query(query, _document(source))
    places = asked.places()
    shown: list[_Line] = []
    following: Place | None = None
    room = bytes_for(tokens_max)
    for place in places:
        if room <= 0 or len(shown) >= JSON_PATH_MATCHES_MAX:
            following = place
            break
        shown.append(_line(asked, place))
        room -= len(shown[-1].text)
    text, count = fit_lines([each.text for each in shown], tokens_max)
    if not shown:
        return FittedPiece(at=query, text="", notes=("no matches",))
    if count == len(shown) and following is None:
        return FittedPiece(at=query, text=text, notes=_notes(shown))
    known, is_more = len(shown), False
    if following is not None:
        known, is_more = _counted(places, known)
    first = shown[count].pointer if count < len(shown) else _pointer(following)
    many = f"{'more than ' if is_more else ''}{known:,}"
    return FittedPiece(
        at=query,
        text=text,
        left_out=f"{known - count:,} of {many} values",
        next_args={"json_pointer": first} if len(first) <= POINTER_CHARS_MAX else {},
        notes=_notes(shown[:count]),
    )


class _Line(Struct, frozen=True):
    pointer: str
    text: str
    is_folded: bool


def _counted(places: Iterator[Place], known: int) -> tuple[int, bool]:
    """Count the remaining results; also return whether the count is a minimum."""
    try:
        while known < JSON_PATH_MATCHES_MAX:
            known += 1
            if next(places, None) is None:
                return known, False
    except TooLarge:
        pass  # The results shown are correct, and the reply says that there are more.
    return known, True


def _line(asked: Query, place: Place) -> _Line:
    value, pointer = place[0], _pointer(place)
    asked.count(len(pointer) // CHARS_A_STEP)
    head, is_folded = _head(asked, value)
    if is_folded and (is_list(value) or is_object(value)):
        head += f" [… more of {len(value):,} {'items' if is_list(value) else 'members'}]"
    elif is_folded:
        head += f" [… more of {len(str(value)):,} characters]"
    return _Line(pointer, f"{pointer}\t{head}\n", is_folded)


def _pointer(place: Place | None) -> str:
    link: Link = None if place is None else place[1]
    keys: list[str] = []
    while link is not None:
        link, key = link
        keys.append(str(key))
    return spell(keys[::-1])


def _head(asked: Query, value: Any) -> tuple[str, bool]:
    """Return the JSON of a value up to LINE_BYTES_SHOWN, and whether it was cut."""
    parts: list[str] = []
    chars = 0
    for part in _encoded(value):
        parts.append(part)
        chars += len(part)
        asked.count(1)
        if chars > LINE_BYTES_SHOWN:
            return "".join(parts)[:LINE_BYTES_SHOWN], True
    return "".join(parts), False


def _encoded(value: Any) -> Iterator[str]:
    """Yield the JSON of a value in parts, none much longer than a line."""
    waiting: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    closings = [""]
    while waiting:
        before, here = next(waiting[-1], (None, None))
        if before is None:
            waiting.pop()
            yield closings.pop()
            continue
        if is_object(here):
            yield before + "{"
            waiting.append(_members(here))
            closings.append("}")
        elif is_list(here):
            yield before + "["
            waiting.append(("," if index else "", each) for index, each in enumerate(here))
            closings.append("]")
        else:
            yield before + _scalar(here)


def _members(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    comma = ""
    for name, each in value.items():
        yield f"{comma}{_scalar(name)}:", each
        comma = ","


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        # A longer part is cut at the line length in any case.
        value = value[: LINE_BYTES_SHOWN + 1]
    return msgspec.json.encode(value).decode()


def _notes(lines: list[_Line]) -> tuple[str, ...]:
    for line in lines:
        if line.is_folded:
            return (
                f"long values are folded; to read one in full: --json-pointer '{line.pointer}'",
            )
    return ()


def _document(source: SliceSource) -> Any:
    """Parse the document, limited by its size and by the estimated memory of its values.

    Raises:
        TooLarge: it exceeds a limit.
    """
    if source.size_bytes > JSON_PATH_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} is too large for JSONPath ({source.size_bytes:,} bytes)",
            f"the limit is {JSON_PATH_BYTES_MAX:,} bytes; a JSON pointer has no limit",
        )
    body = json_of(source)
    if _memory_bytes(body) > JSON_PATH_ROOM_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} has too many values for JSONPath",
            f"the limit is {JSON_PATH_ROOM_BYTES_MAX:,} bytes of them; a JSON pointer has no limit",
        )
    try:
        if is_lines(source):
            return [msgspec.json.decode(line) for line in lines_of(body)]
        return msgspec.json.decode(body)
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(source, error) from None


def _memory_bytes(body: bytes) -> int:
    """Estimate the memory of a document's values from its punctuation: measured on CPython with
    documents that consist only of small objects, small lists, numbers or strings.
    """
    containers = 170 * body.count(b"{") + 64 * body.count(b"[")
    scalars = 34 * (body.count(b",") + body.count(b"\n")) + 12 * body.count(b'"')
    return containers + scalars + (1 if body.isascii() else 4) * len(body)
