"""Documents: one as a whole, or one a line.

Rule: what is nested too deeply or is too broken for the parser is described as far as it can be
read.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.json.broken import unreadable
from contextrelay.logic.outline.json.shape import Shape
from contextrelay.logic.outline.json.values import objects_of
from contextrelay.logic.outline.layout import Drawn

_NOT_READ = (msgspec.DecodeError, RecursionError, UnicodeError)


def draw(source: Source) -> Drawn | None:
    """The outline of a JSON document, or of one document a line."""
    lines = _json_lines(source)
    if lines is not None:
        return lines
    try:
        value = read(source)
    except ValueError:
        return unreadable(source)
    shape = Shape()
    shape.whole(source.measure(), value)
    return Drawn("json", shape.pieces, _pointer(value), shape.left_out, shape.names)


def read(source: Source) -> Any:
    """A document's value.

    Raises:
        ValueError: it is none, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(source.text)
    except _NOT_READ:
        pass
    try:
        return json.loads(source.text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _json_lines(source: Source) -> Drawn | None:
    """One document a line, if it is that; lines that are none are counted."""
    named = source.media_type == "application/x-ndjson"
    lines = source.lines
    if not named and not (len(lines) > 1 and _is_document(lines[0]) and _is_document(lines[1])):
        return None
    values: list[Any] = []
    bad: list[int] = []
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        try:
            values.append(decode(line))
        except _NOT_READ:
            if line.strip():
                bad.append(number)
    if len(bad) > len(lines) // 2:
        return None
    shape = Shape()
    shape.add(0, f"JSON lines: {len(values)} documents, {source.measure()}")
    if bad:
        some = ", ".join(map(str, bad[:5]))
        shape.add(1, f"lines that are no JSON: {len(bad)} (at {some})")
    shape.elements(values, 1)
    return Drawn("json lines", shape.pieces, "--lines 1:5", shape.left_out, shape.names)


def _is_document(line: str) -> bool:
    if not line.startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(line)
    except _NOT_READ:
        return False
    return True


def _pointer(value: Any) -> str:
    """The pointer of something that is there."""
    objects = objects_of([value])
    if not objects:
        return "--json-pointer /0" if value else ""
    key = next(iter(objects[0]), "")
    return f"--json-pointer /{key.replace('~', '~0').replace('/', '~1')}" if key else ""
