"""JSON documents: a single one, or one per line.

Rule: a document that is nested too deeply or is invalid is outlined as far as it can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from contextrelay.content.outline.json.broken import unreadable
from contextrelay.content.outline.json.levels import find_errors
from contextrelay.content.outline.json.shape import JsonShape, objects_of
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.outline.log.lines import whole_lines
from contextrelay.content.source import Source

_NOT_READ = (msgspec.DecodeError, RecursionError, UnicodeError)


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a JSON document, or of JSON lines."""
    lines = _json_lines(source)
    if lines is not None:
        return lines
    try:
        value = read(source)
    except ValueError:
        return _several(source) or unreadable(source)
    shape = JsonShape()
    shape.whole(source.measure(), value)
    return OutlineDraft("json", shape.pieces, _pointer(value), shape.left_out, shape.names)


def read(source: Source) -> Any:
    """Return the value of a document.

    Raises:
        ValueError: it is invalid or nested too deeply.
    """
    try:
        return msgspec.json.decode(source.text)
    except _NOT_READ:
        pass
    try:
        return json.loads(source.text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _json_lines(source: Source) -> OutlineDraft | None:
    """Outline one document per line, counting invalid lines; return None for other text."""
    named = source.media_type == "application/x-ndjson"
    lines = source.lines
    if not named and not (len(lines) > 1 and _is_document(lines[0]) and _is_document(lines[1])):
        return None
    values: list[Any] = []
    numbers: list[int] = []
    bad: list[int] = []
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        try:
            values.append(decode(line))
            numbers.append(number)
        except _NOT_READ:
            if line.strip():
                bad.append(number)
    if len(bad) > len(lines) // 2:
        return None
    shape = JsonShape()
    shape.add(0, f"JSON lines: {len(values)} documents, {source.measure()}")
    if bad:
        some = ", ".join(map(str, bad[:5]))
        shape.add(1, f"lines that are no JSON: {len(bad)} (at {some})")
    _records(shape, lines, values, numbers)
    return OutlineDraft("json lines", shape.pieces, "--lines 1:5", shape.left_out, shape.names)


_BLANK = re.compile(r"\s*")
_DOCUMENTS_MAX = 200_000


def _several(source: Source) -> OutlineDraft | None:
    """Outline several documents in a row, each on several lines, as far as they can be read."""
    text = source.text
    values: list[Any] = []
    numbers: list[int] = []
    decode = json.JSONDecoder().raw_decode
    at, line = 0, 1
    while len(values) < _DOCUMENTS_MAX:
        start = cast("re.Match[str]", _BLANK.match(text, at)).end()
        line += text.count("\n", at, start)
        if text[start : start + 1] not in ("{", "["):
            break
        try:
            value, at = decode(text, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        numbers.append(line)
        line += text.count("\n", start, at)
    if len(values) < 2:
        return None
    rest = text[at:].strip()
    partly = f", read up to line {line}" if rest else ""
    shape = JsonShape()
    shape.add(0, f"JSON: {len(values)} documents, {source.measure()}{partly}")
    _records(shape, source.lines, values, numbers)
    return OutlineDraft("json", shape.pieces, "--lines 1:41", shape.left_out, shape.names)


def _records(
    shape: JsonShape, lines: Sequence[str], values: Sequence[Any], numbers: Sequence[int]
) -> None:
    """Outline documents by their common structure, with the lines of those that report errors."""
    shape.elements(values, 1)
    for noun, found in zip(("error", "warning"), find_errors(values), strict=True):
        there = [numbers[index] for index in found if numbers[index] <= len(lines)]
        shape.pieces += whole_lines(noun, lines, there)


def _is_document(line: str) -> bool:
    if not line.startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(line)
    except _NOT_READ:
        return False
    return True


def _pointer(value: Any) -> str:
    """Return a pointer to an existing value."""
    objects = objects_of([value])
    if not objects:
        return "--json-pointer /0" if value else ""
    key = next(iter(objects[0]), "")
    return f"--json-pointer /{key.replace('~', '~0').replace('/', '~1')}" if key else ""
