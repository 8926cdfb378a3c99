"""The identity of a record: the values of its members that are named like an id or a name.

Rule: only the first GREP_RECORD_MEMBERS_MAX lines or parts of a record are examined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import msgspec

from contextrelay.content.grep.shown_object import short
from contextrelay.content.grep.tree import Format, JsonContainer
from contextrelay.limits import GREP_RECORD_BYTES_MAX

# Parts of an enclosing record that are examined for its identity.
GREP_RECORD_MEMBERS_MAX = 200


_IDENTIFIES = re.compile(
    r"(?:^|[_.-])(?:id|ids|uuid|guid|key|name|title|email|sku|code|number|ref|slug)$"
    r"|[a-z](?:Id|ID|Name|Key|Number)$",
    re.IGNORECASE,
)
_SHOWN_MAX = 2
_VALUE_CHARS = 60
_TAG_BYTES_MAX = 4_096
_ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
# A member on a line of its own; a value that starts with `{`, `[`, `|`, `>`, `&` or `*` is not
# plain.
_MEMBER = re.compile(r"""(["']?)([\w.-]{1,80}+)\1:[ \t]++([^\s#{\[|>&*][^\n]*+)""")


def identity(body: bytes, nodes: list[JsonContainer], index: int, format: Format) -> list[str]:
    """Return the first identifying values of a record, each with its name."""
    node = nodes[index]
    if format == "xml":
        members = _in_xml(body, nodes, index)
    elif node.stop - node.body > 4 * GREP_RECORD_BYTES_MAX:
        return []
    elif format == "yaml":
        members = _in_yaml(body, node)
    else:
        members = _in_json(body[node.body : node.stop])
    named = ((name, value) for name, value in members if _IDENTIFIES.search(name))
    plain = ((name, value) for name, value in named if isinstance(value, str | int))
    return [f"{name} {short(value, _VALUE_CHARS)}" for name, value in islice(plain, _SHOWN_MAX)]


def identifies(body: bytes, place: int) -> bool:
    """Return True if a position is in the header of a section, or in a value that names it."""
    first = max(0, place - _TAG_BYTES_MAX)
    start = body.rfind(b"\n", first, place) + 1 or first
    row = body[start:place].decode("utf-8", "replace").lstrip()
    key, is_value, _ = row.partition("=")
    return row.startswith("[") or bool(is_value and _IDENTIFIES.search(key.strip()))


def _in_json(raw: bytes) -> Iterator[tuple[str, Any]]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()


def _in_xml(body: bytes, nodes: list[JsonContainer], index: int) -> Iterator[tuple[str, str]]:
    """Yield attributes, then direct child elements that contain only text."""
    node = nodes[index]
    for attribute in _ATTRIBUTE.finditer(_tag(body, node).decode("utf-8", "replace")):
        yield attribute[1], attribute[2] or attribute[3] or ""
    for each in nodes[index + 1 : index + 1 + GREP_RECORD_MEMBERS_MAX]:
        if each.start >= node.stop:
            return
        tag = _tag(body, each)
        if each.parent == index and _IDENTIFIES.search(each.label) and not tag.endswith(b"/>"):
            start = each.start + len(tag)
            text, end, _ = body[start : start + _TAG_BYTES_MAX].partition(b"<")
            if end and text.strip():
                name = each.label.encode("latin-1")
                yield name.decode("utf-8", "replace"), text.decode("utf-8", "replace").strip()


def _tag(body: bytes, node: JsonContainer) -> bytes:
    """Return the start tag of an element."""
    stop = body.find(b">", node.start, node.start + _TAG_BYTES_MAX) + 1
    return body[node.start : stop]


def _in_yaml(body: bytes, node: JsonContainer) -> Iterator[tuple[str, str]]:
    """Yield members with the indent of the first."""
    before = node.body - body.rfind(b"\n", 0, node.body) - 1
    text = " " * before + body[node.body : node.stop].decode("utf-8", "replace")
    column = -1
    for line in islice(text.split("\n"), GREP_RECORD_MEMBERS_MAX):
        content = line.lstrip(" ")
        if not content.strip() or content[0] == "#":
            continue
        column = len(line) - len(content) if column < 0 else column
        if len(line) - len(content) == column and (member := _MEMBER.match(content)):
            yield member[2], member[3].partition(" #")[0].strip().strip("\"'")
