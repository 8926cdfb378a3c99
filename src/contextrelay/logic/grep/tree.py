"""Trees: where the records of JSON, YAML, XML, settings and tables begin and end in a body.

A body is read as Latin-1, so that places in the text are places in the bytes; what these formats
are built from is ASCII. A node begins with its key, so that what is found in the key belongs to it.

Rule: one pass over the text, in linear time on anything, and no more nodes than NODES_MAX.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from contextrelay.limits import GREP_NODES_MAX

Format = Literal["json", "json lines", "yaml", "xml", "sections", "table"]


class Node(Struct, gc=False):
    """A part of a body that holds others: from where its key begins to its end."""

    start: int
    stop: int
    parent: int
    """The index of the node that it is in, -1 for the first."""
    label: str
    body: int
    """Where its value begins, behind its key."""
    is_record: bool


class TooMany(Exception):
    """There are more nodes than are kept, which it says, or the text is not what it should be."""


_MANY = f"more than {GREP_NODES_MAX:,} records"


def nodes_of(text: str, format: Format) -> list[Node]:
    """The nodes of a text, each behind the one that it is in.

    Raises:
        TooMany: it has too many, or is no such text.
    """
    return _READERS[format](text)


_JSON = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]', re.DOTALL)


def _json(text: str, offset: int = 0, stop: int | None = None) -> list[Node]:
    nodes = [Node(offset, len(text) if stop is None else stop, -1, "", offset, True)]
    stack = [0]
    counts = [0]
    key = (-1, "")
    last = (-1, "")
    for token in _JSON.finditer(text, offset, nodes[0].stop):
        sign = token[0]
        if sign[0] == '"':
            last = (token.start(), sign)
        elif sign == ":":
            key = last
        elif sign in "{[":
            is_root = len(nodes) == 1 and len(stack) == 1 and counts[0] == 0
            if is_root:
                nodes[0].body = token.start()
                nodes[0].is_record = sign == "{"
                counts[0] = 0
                stack.append(0)
                counts.append(0)
            else:
                label = key[1][1:-1] if key[0] >= 0 else str(counts[-1])
                start = key[0] if key[0] >= 0 else token.start()
                nodes.append(Node(start, start, stack[-1], label, token.start(), sign == "{"))
                stack.append(len(nodes) - 1)
                counts.append(0)
                if len(nodes) > GREP_NODES_MAX:
                    raise TooMany(_MANY)
            key = (-1, "")
        elif sign == ",":
            counts[-1] += 1
            key = (-1, "")
        else:
            if len(stack) < 2:
                raise TooMany
            nodes[stack.pop()].stop = token.end()
            counts.pop()
            key = (-1, "")
    if len(stack) != 1:
        raise TooMany
    return nodes


def _json_lines(text: str) -> list[Node]:
    nodes = [Node(0, len(text), -1, "", 0, False)]
    for start, stop in _lines(text):
        if text[start:stop].isspace() or start == stop:
            continue
        try:
            found = _json(text, start, stop)
        except TooMany:
            continue  # A line that is no JSON.
        base = len(nodes)
        found[0].stop = stop
        for each in found:
            each.parent = each.parent + base if each.parent >= 0 else 0
        nodes += found
        if len(nodes) > GREP_NODES_MAX:
            raise TooMany(_MANY)
    return nodes


def _lines(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    end = len(text) if end is None else end
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


_YAML_NEXT = re.compile(r"^---(?:[ \t][^\n]*)?\r?(?:\n|\Z)", re.MULTILINE)
_YAML_LINE = re.compile(r"([ ]*)((?:- )*)([^\s#:][^\n:]{0,200}?(?=:(?:\s|$)))?")


def _yaml(text: str) -> list[Node]:
    """One document, or several by their number, each a record."""
    marks = [(mark.start(), mark.end()) for mark in _YAML_NEXT.finditer(text)]
    if marks and all(row.lstrip()[:1] in ("", "#", "%") for row in text[: marks[0][0]].split("\n")):
        marks[0] = (0, 0)  # Nothing stands before it.
    else:
        marks.insert(0, (0, 0))
    if len(marks) > GREP_NODES_MAX:
        raise TooMany(_MANY)
    nodes = [Node(0, len(text), -1, "", 0, len(marks) == 1)]
    if len(marks) == 1:
        _yaml_document(text, nodes, 0)
        return nodes
    stops = [start for start, _ in marks[1:]] + [len(text)]
    for number, ((_, start), stop) in enumerate(zip(marks, stops, strict=True)):
        nodes.append(Node(start, stop, 0, str(number), start, True))
        _yaml_document(text, nodes, len(nodes) - 1)
    return nodes


def _yaml_document(text: str, nodes: list[Node], root: int) -> None:
    """Add the nodes of a document, by indent: a key or a dash with what is indented further below.

    On the stack are columns twice, and one more for a dash, with the node that begins there.
    """
    stack: list[tuple[int, int]] = [(-1, root)]
    counts: dict[int, int] = {}
    end = nodes[root].stop
    for start, stop in _lines(text, nodes[root].start, end):
        match = _YAML_LINE.match(text, start, stop)
        assert match is not None
        if match.end(2) >= stop or text[match.end(2)] == "#":
            continue
        indent = len(match[1])
        # A dash may stand right below the key whose list it is in.
        while stack[-1][0] >= 2 * indent + bool(match[2]):
            nodes[stack.pop()[1]].stop = start
        for dash in range(len(match[2]) // 2):
            parent = stack[-1][1]
            number = counts.get(parent, 0)
            counts[parent] = number + 1
            at = start + indent + 2 * dash
            nodes.append(Node(at, stop, parent, str(number), at + 2, True))
            stack.append((2 * (indent + 2 * dash) + 1, len(nodes) - 1))
        if match[3] is not None and text[match.end(3) + 1 : stop].strip() in ("", "|", ">"):
            column = indent + len(match[2])
            at = match.start(3)
            nodes.append(Node(at, stop, stack[-1][1], match[3], stop, True))
            stack.append((2 * column, len(nodes) - 1))
        if len(nodes) > GREP_NODES_MAX:
            raise TooMany(_MANY)
    while stack:
        nodes[stack.pop()[1]].stop = end


_XML = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[?!][^>]*+>"
    r"|<(/?)([A-Za-z_][\w:.-]*+)([^<>]*+)>",
    re.DOTALL,
)


def _xml(text: str) -> list[Node]:
    """Elements; one without others in it belongs to its parent, unless it has several values."""
    nodes = [Node(0, len(text), -1, "", 0, False)]
    stack = [0]
    for tag in _XML.finditer(text):
        if tag[2] is None:
            continue
        if tag[1]:
            if len(stack) > 1 and nodes[stack[-1]].label == tag[2]:
                nodes[stack.pop()].stop = tag.end()
            continue
        nodes[stack[-1]].is_record = True
        is_record = tag[3].count("=") > 1
        nodes.append(Node(tag.start(), tag.end(), stack[-1], tag[2], tag.start(), is_record))
        if len(nodes) > GREP_NODES_MAX:
            raise TooMany(_MANY)
        if not tag[3].endswith("/"):
            stack.append(len(nodes) - 1)
    for index in stack[1:]:
        nodes[index].stop = nodes[nodes[index].parent].stop
    nodes[0].is_record = False
    return nodes


_SECTION = re.compile(
    r"^[ \t]*+(\[\[?)[ \t]*+([^\[\],\n]++)\]\]?[ \t]*+(?:[#;][^\n]*+)?\r?$", re.MULTILINE
)


def _sections(text: str) -> list[Node]:
    """Sections of settings, each from its header on; and what stands before the first.

    Of several of a name (`[[name]]`) each has its number.
    """
    heads = list(islice(_SECTION.finditer(text), GREP_NODES_MAX))
    if len(heads) == GREP_NODES_MAX:
        raise TooMany(_MANY)
    if not heads:
        raise TooMany
    nodes = [Node(0, len(text), -1, "", 0, False)]
    nodes.append(Node(0, heads[0].start(), 0, "", 0, True))
    counts: dict[str, int] = {}
    for at, head in enumerate(heads):
        stop = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        label = head[2].strip()
        if head[1] == "[[":
            counts[label] = number = counts.get(label, -1) + 1
            label = f"{label}/{number}"
        nodes.append(Node(head.start(), stop, 0, label, head.start(), True))
    return nodes


def _table(text: str) -> list[Node]:
    """Rows; the first is the header, and no record."""
    nodes = [Node(0, len(text), -1, "", 0, False)]
    spans = list(_lines(text))
    reader = csv.reader((text[start:stop] for start, stop in spans), delimiter=delimiter_of(text))
    before = 0
    try:
        for number, _ in enumerate(reader):
            last = min(reader.line_num, len(spans))
            if last > before:
                start, stop = spans[before][0], spans[last - 1][1]
                nodes.append(Node(start, stop, 0, str(number - 1), start, number > 0))
            before = last
            if len(nodes) > GREP_NODES_MAX:
                raise TooMany(_MANY)
    except csv.Error as error:
        raise TooMany from error
    return nodes


def delimiter_of(text: str) -> str:
    """What parts the cells of a table: what its first line has most of."""
    head = text[:4_000].partition("\n")[0]
    return max(("\t", ",", ";", "|"), key=head.count)


_READERS: dict[Format, Callable[[str], list[Node]]] = {
    "json": _json,
    "json lines": _json_lines,
    "yaml": _yaml,
    "xml": _xml,
    "sections": _sections,
    "table": _table,
}
