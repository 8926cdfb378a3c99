"""JSONPath (RFC 9535) queries: every selected value with its pointer.

python-jsonpath parses and evaluates a query. It limits neither steps nor time, so this runs only in
a parser process, which is ended (bounded/bodies.py).

Rule: only what is shown is formatted. Once the budget is used, further results are counted, but
neither formatted nor encoded; of a long value only the beginning is encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

import msgspec
from jsonpath import JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.function_extensions import Match, Search
from msgspec import Struct

from contextrelay.content.grep.match import compile_pattern
from contextrelay.content.slicing.json_pointer import is_lines, json_of, lines_of, not_json
from contextrelay.content.slicing.source import FittedPiece, SliceSource, bytes_for, fit_lines
from contextrelay.documents.pointer import spell
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import LINE_BYTES_SHOWN, MIB, POINTER_CHARS_MAX

JSON_PATH_BYTES_MAX = 16 * MIB
# Maximum estimated memory for the values of a document that is built for a query.
JSON_PATH_ROOM_BYTES_MAX = 256 * MIB
JSON_PATH_MATCHES_MAX = 10_000


def slice_by_path(source: SliceSource, query: str, tokens_max: int) -> FittedPiece:
    """Return the values that a query selects, one per line: pointer, a tab, JSON.

    Raises:
        Invalid: the query is invalid, or the body is not JSON.
        TooLarge: the body or the query exceeds a limit.
    """
    found = _selected(query, _document(source))
    shown: list[_Line] = []
    following: JSONPathMatch | None = None
    room = bytes_for(tokens_max)
    known, is_more = 0, False
    try:
        for match in found:
            if following is None and room > 0 and known < JSON_PATH_MATCHES_MAX:
                shown.append(_line(match))
                room -= len(shown[-1].text)
            else:
                following = following or match
                is_more = known == JSON_PATH_MATCHES_MAX
            if is_more:
                break
            known += 1
    except RecursionError as error:
        raise _too_deep() from error
    if not shown:
        return FittedPiece(at=query, text="", notes=("no matches",))
    text, count = fit_lines([each.text for each in shown], tokens_max)
    folded = next((each.pointer for each in shown[:count] if each.is_folded), None)
    note = f"long values are folded; to read one in full: --json-pointer '{folded}'"
    notes = () if folded is None else (note,)
    if count == known:
        return FittedPiece(at=query, text=text, notes=notes)
    first = shown[count].pointer if count < len(shown) else _pointer(following)
    many = f"{'more than ' if is_more else ''}{known:,}"
    return FittedPiece(
        at=query,
        text=text,
        left_out=f"{known - count:,} of {many} values",
        next_args={"json_pointer": first} if len(first) <= POINTER_CHARS_MAX else {},
        notes=notes,
    )


def _selected(query: str, document: Any) -> Iterator[JSONPathMatch]:
    hint = "use RFC 9535 syntax, for example $.orders[?@.total > 100].id"
    try:
        parsed = _Environment(strict=True).compile(query)
    except RecursionError as error:
        raise _too_deep() from error
    except JSONPathError as error:
        why = error.args[0] if error.args else error
        raise Invalid(f"invalid JSONPath query: {why}", hint) from error
    except (ValueError, OverflowError) as error:
        raise Invalid("invalid JSONPath query: a number is too large", hint) from error
    if not isinstance(parsed, JSONPath):
        raise Invalid("invalid JSONPath query: more than one query", hint)
    # Not `finditer`, which would parse a document that is a string.
    found: Any = [
        _Match(filter_context={}, obj=document, parent=None, path="", parts=(), root=document)
    ]
    for segment in parsed.segments:
        found = segment.resolve(found)
    return iter(found)


def _too_deep() -> Invalid:
    return Invalid(
        "the query or the document is nested too deeply", "name the path explicitly, without `..`"
    )


class _Match(JSONPathMatch):
    """A selected value, without its path as text and without the values below it."""

    def add_child(self, *children: JSONPathMatch) -> None:
        """Do not keep every selected value in memory."""

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
        # The path as text would be built for every match, with names of any length.
        parts = (*self.parts, key)
        return _Match(filter_context={}, obj=obj, parent=None, path="", parts=parts, root=self.root)


class _Environment(JSONPathEnvironment):
    """RFC 9535, with patterns in RE2, whose time is linear."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _FullMatch()
        self.function_extensions["search"] = _Search()

    def getitem(self, obj: Any, key: Any) -> Any:
        """Return items of a list or members of an object; a slice of a string selects nothing."""
        return () if isinstance(obj, str) else super().getitem(obj, key)

    def _eq(self, left: object, right: object) -> bool:
        """Tell numbers from booleans inside of lists and objects too."""
        return super()._eq(left, right) and _is_same(left, right)


def _is_same(left: Any, right: Any) -> bool:
    """Compare two values that Python considers equal, but where 1 and true may be exchanged."""
    if is_list(left) and is_list(right):
        return all(map(_is_same, left, right))
    if is_object(left) and is_object(right):
        return all(_is_same(each, right[name]) for name, each in left.items())
    return isinstance(left, bool) == isinstance(right, bool)


class _FullMatch(Match):
    def __call__(self, value: object, pattern: object) -> bool:
        return _finds("fullmatch", value, pattern)


class _Search(Search):
    def __call__(self, value: object, pattern: object) -> bool:
        return _finds("search", value, pattern)


_compiled = lru_cache(maxsize=32)(compile_pattern)


def _finds(way: str, value: object, pattern: object) -> bool:
    if not isinstance(value, str) or not isinstance(pattern, str):
        return False
    try:
        return bool(getattr(_compiled(pattern), way)(value.encode("utf-8", "replace")))
    except Invalid:
        return False  # An invalid pattern matches nothing (RFC 9535).


class _Line(Struct, frozen=True):
    pointer: str
    text: str
    is_folded: bool


def _line(match: JSONPathMatch) -> _Line:
    value: Any = match.obj
    pointer = _pointer(match)
    head, parts = "", _encoded(value)
    while len(head) <= LINE_BYTES_SHOWN and (part := next(parts, "")):
        head += part
    is_folded = len(head) > LINE_BYTES_SHOWN
    head = head[:LINE_BYTES_SHOWN]
    if is_folded and (is_list(value) or is_object(value)):
        head += f" [… more of {len(value):,} {'items' if is_list(value) else 'members'}]"
    elif is_folded:
        head += f" [… more of {len(str(value)):,} characters]"
    return _Line(pointer, f"{pointer}\t{head}\n", is_folded)


def _pointer(match: JSONPathMatch | None) -> str:
    return "" if match is None else spell([str(part) for part in match.parts])


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
            members = zip(chain(("",), repeat(",")), here.items(), strict=False)
            waiting.append((f"{comma}{_scalar(name)}:", each) for comma, (name, each) in members)
            closings.append("}")
        elif is_list(here):
            yield before + "["
            waiting.append(zip(chain(("",), repeat(",")), here, strict=False))
            closings.append("]")
        else:
            yield before + _scalar(here)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        # A longer part is cut at the line length in any case.
        value = value[: LINE_BYTES_SHOWN + 1]
    return msgspec.json.encode(value).decode()


def _document(source: SliceSource) -> Any:
    if source.size_bytes > JSON_PATH_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} is too large for JSONPath ({source.size_bytes:,} bytes)",
            f"the limit is {JSON_PATH_BYTES_MAX:,} bytes; a JSON pointer takes more",
        )
    body = json_of(source)
    # Measured on CPython, with documents of only small objects, small lists, numbers or strings.
    containers = 170 * body.count(b"{") + 64 * body.count(b"[")
    scalars = 34 * (body.count(b",") + body.count(b"\n")) + 12 * body.count(b'"')
    texts = (1 if body.isascii() else 4) * len(body)
    if containers + scalars + texts > JSON_PATH_ROOM_BYTES_MAX:
        raise TooLarge(
            f"{source.ref} has too many values for JSONPath",
            f"the limit is {JSON_PATH_ROOM_BYTES_MAX:,} bytes of them; a JSON pointer takes more",
        )
    try:
        if is_lines(source):
            return [msgspec.json.decode(line) for line in lines_of(body)]
        return msgspec.json.decode(body)
    except (RecursionError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(source, error) from None
