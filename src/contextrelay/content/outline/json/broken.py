"""JSON that cannot be parsed: a truncated, invalid or too deeply nested document."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from contextrelay.content.outline.json.shape import JsonShape, shown_name
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source


def unreadable(source: Source) -> OutlineDraft | None:
    """Outline a document that cannot be parsed: its members as far as they can be read."""
    text = source.text
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return None
    shape = JsonShape()
    why = "read as far as was looked at" if source.is_partial else "broken, cut or too deep"
    shape.add(0, f"JSON, {why}; {source.measure()}")
    _walk(text, start, shape, 1)
    return OutlineDraft("json", shape.pieces, "--bytes 0:2000", shape.left_out)


_BLANK = re.compile(r"[\s,:]*")
_MEMBERS_MAX = 200_000
_BROKEN_DEPTH_MAX = 6


def _walk(text: str, at: int, shape: JsonShape, depth: int) -> None:
    """Read the members of an array or object one by one, and descend into the unclosed one."""
    decoder = json.JSONDecoder()
    is_object = text[at] == "{"
    at += 1
    keys: list[str] = []
    values: list[Any] = []
    broken = -1
    for _ in range(_MEMBERS_MAX):
        at = cast("re.Match[str]", _BLANK.match(text, at)).end()
        if at >= len(text) or text[at] in "]}":
            break
        try:
            if is_object:
                key, at = decoder.raw_decode(text, at)
                keys.append(str(key))
                at = cast("re.Match[str]", _BLANK.match(text, at)).end()
            broken = at
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        broken = -1
    indent = " " * (depth - 1)
    if is_object:
        shape.add(depth - 1, f"{indent}object, {len(keys)} keys read")
        shape.members([dict(zip(keys, values, strict=False))], depth)
    else:
        shape.add(depth - 1, f"{indent}array, {len(values)} elements read")
        shape.elements(values, depth)
    if broken >= 0 and text[broken : broken + 1] in ("{", "[") and depth < _BROKEN_DEPTH_MAX:
        name = shown_name(keys[-1]) if is_object and keys else f"element {len(values)}"
        shape.add(depth, f"{' ' * depth}{name}, not closed:")
        _walk(text, broken, shape, depth + 1)
