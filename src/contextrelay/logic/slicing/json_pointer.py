"""JSON pointers into a body: the value at a place, as it stands there, byte for byte.

Rule: what is not on the way is skipped, never built; so memory is the body and little more. Of a
list with very many items not even that many places are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import JSON_COMMAS_MAX
from contextrelay.logic.document.pointer import parse, spell
from contextrelay.logic.document.values import shown as told
from contextrelay.logic.slicing.fit import Taken, fit_bytes
from contextrelay.logic.slicing.source import Source
from contextrelay.logic.slicing.span import spell as spell_span

_NAMES_SHOWN = 12
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_PART = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},]', re.DOTALL)
JSON_LINES = "application/x-ndjson"


def take_at_pointer(source: Source, pointer: str, tokens_max: int) -> Taken:
    """The value at a pointer; of one that does not fit, its beginning.

    Raises:
        Invalid: the pointer is none, or the body is no JSON.
        NotFound: nothing is there.
    """
    tokens = parse(pointer)
    body = json_of(source)
    value = body
    for depth, token in enumerate(tokens):
        value = _member(source, value, token, tokens[: depth + 1], is_top=depth == 0)
    raw = bytes(value).strip()
    if not tokens and not is_lines(source):
        check_json(source, raw)
    text, kept = fit_bytes(raw, tokens_max, is_end=True)
    if kept == len(raw):
        return Taken(at=pointer, text=text)
    # The same bytes may stand elsewhere too: then either place will do.
    offset = body.find(raw)
    rest = f"{len(raw) - kept:,} of {len(raw):,} bytes of {pointer or 'the document'}"
    return Taken(
        at=pointer,
        text=text,
        left_out=rest,
        next_args={"bytes": spell_span(offset + kept, offset + len(raw))},
        notes=_inside(source, raw),
    )


def json_of(source: Source) -> bytes:
    """A body that says of itself that it is JSON, or looks like it, without its byte order mark."""
    body = source.bytes_of(0, source.size_bytes).removeprefix(b"\xef\xbb\xbf")
    if source.type != "json" and body.lstrip()[:1] not in (b"{", b"["):
        raise Invalid(
            f"{source.ref} is no JSON, but {source.type}",
            f"take lines of it: relay get {source.ref[:8]} --lines 1:40",
        )
    return body


def is_lines(source: Source) -> bool:
    """Whether it is one document a line; then the lines are the items of a list."""
    return source.media_type.partition(";")[0].strip() == JSON_LINES


def check_json(source: Source, raw: bytes) -> None:
    """Refuse what is no JSON, or is nested so deep that it cannot be read."""
    _decode(source, raw, Raw)


def lines_of(body: bytes) -> Iterator[bytes]:
    """The documents of JSON lines."""
    start = 0
    while start < len(body):
        stop = body.find(b"\n", start)
        stop = len(body) if stop < 0 else stop
        if line := body[start:stop].strip():
            yield line
        start = stop + 1


def _member(
    source: Source, value: bytes | Raw, token: str, path: tuple[str, ...], is_top: bool
) -> bytes | Raw:
    """What is below a value by one token."""
    head = bytes(memoryview(value)[:64]).lstrip()[:1]
    if is_top and is_lines(source):
        return _item(lines_of(bytes(value)), token, path)
    if head == b"{":
        # A class with this one member: all others are skipped as they are read.
        picked = msgspec.defstruct("Picked", [("value", Raw, Raw())], rename={"value": token})
        found: Raw = _decode(source, value, picked).value
        if not memoryview(found).nbytes:
            names = list(_decode(source, value, dict[str, Raw]))
            raise _missing(path, f"it has {_names(names)}" if names else "it is empty")
        return found
    if head == b"[":
        if bytes(value).count(b",") > JSON_COMMAS_MAX:
            return _item(_items(bytes(value)), token, path)
        items: list[Raw] = _decode(source, value, list[Raw])
        return _item(iter(items), token, path)
    raise _missing(path, "it is no object and no list")


def _item(items: Iterator[Any], token: str, path: tuple[str, ...]) -> Any:
    count = 0
    if _INDEX.fullmatch(token):
        index = int(token)
        for item in items:
            if count == index:
                return item
            count += 1
    else:
        count = sum(1 for _ in items)
    told_items = f"its items are 0 to {count - 1:,}" if count else "it is empty"
    raise _missing(path, f"it is a list: {told_items}")


def _items(raw: bytes) -> Iterator[bytes]:
    """The items of a list, one after the other, found by their brackets."""
    depth, start = 0, 0
    for part in _PART.finditer(raw):
        sign = raw[part.start()]
        if sign in b"[{":
            depth += 1
            if depth == 1:
                start = part.end()
        elif sign in b"]}":
            depth -= 1
            if depth == 0:
                if last := raw[start : part.start()].strip():
                    yield last
                return
        elif sign == 0x2C and depth == 1:
            yield raw[start : part.start()].strip()
            start = part.end()


def _decode(source: Source, raw: bytes | Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except RecursionError:
        raise Invalid(
            f"{source.ref} is nested too deep to be read as JSON",
            f"take bytes of it: relay get {source.ref[:8]} --bytes 0:2000",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = f"take lines of it: relay get {source.ref[:8]} --lines 1:40"
        raise Invalid(f"{source.ref} is not JSON: {error}", hint) from None


def _missing(path: tuple[str, ...], why: str) -> NotFound:
    holder = told(spell(path[:-1])) if len(path) > 1 else "the document"
    return NotFound(f"there is no {told(spell(path))}", f"{holder}: {why}")


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(told(name) for name in names[:_NAMES_SHOWN]) + more


def _inside(source: Source, raw: bytes) -> tuple[str, ...]:
    """What is in a value that is too long to be shown, so that the reader can go deeper."""
    if raw[:1] == b"{":
        return (f"it is an object with {_names(list(_decode(source, raw, dict[str, Raw])))}",)
    if raw[:1] == b"[" and raw.count(b",") <= JSON_COMMAS_MAX:
        return (f"it is a list of {len(_decode(source, raw, list[Raw])):,}",)
    return ()
