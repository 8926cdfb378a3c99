"""Trees: the positions of the records of JSON, YAML, XML, settings and tables in a body.

A body is read as Latin-1, so that positions in the text are byte offsets; the syntax of these
formats is ASCII. A node starts at its key, so that a match in the key belongs to it.

Rule: one pass in linear time over any input, and at most GREP_NODES_MAX nodes.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

GREP_NODES_MAX = 400_000

RecordFormat = Literal["json", "json lines", "yaml", "xml", "sections", "table"]


class RecordNode(Struct, gc=False):
    """A part of a body that contains other parts, from its key to its end."""

    start: int
    stop: int
    parent: int  # The index of the enclosing node; -1 for the first node.
    label: str
    body: int  # Offset of the node's value, after its key.
    is_record: bool


class NoRecords(Exception):
    """There are more nodes than the limit, or the text is malformed; the message says which."""


_MANY = f"more than {GREP_NODES_MAX:,} records"
HasMatch = Callable[[int, int], bool]  # Returns True if a match starts between two offsets.


def nodes_of(text: str, format: RecordFormat, places: Sequence[int]) -> list[RecordNode]:
    """Return the nodes of a text that contain a match, parents first.

    For XML all nodes are returned, because elements are counted and identify each other.

    Raises:
        NoRecords: the text has too many nodes, or is malformed.
    """

    def has_match(start: int, stop: int) -> bool:
        at = bisect_left(places, start)
        return at < len(places) and places[at] < stop

    return _READERS[format](text, has_match)


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# A run of members with plain values; a string, or a key with an opening bracket; an opening
# bracket, a closing one, and commas.
_JSON = re.compile(
    rf'(?:{_STRING}\s*+:\s*+(?:{_STRING}|[^\s"{{}}\[\],:]++)\s*+,?+\s*+)++'
    rf"|({_STRING})(?:\s*+:\s*+([{{\[]))?+"
    r"|([{\[])|([}\]])|(,[^\"{}\[\]:]*+)",
    re.DOTALL,
)
_KEYED, _OPENS, _CLOSES, _COMMAS = 2, 3, 4, 5


def _json(
    text: str, has_match: HasMatch, offset: int = 0, stop: int | None = None
) -> list[RecordNode]:
    nodes = [RecordNode(offset, len(text) if stop is None else stop, -1, "", offset, True)]
    stack = [0]
    counts = [0]
    for token in _JSON.finditer(text, offset, nodes[0].stop):
        sign = token.lastindex
        if sign in (_KEYED, _OPENS):
            at, is_record = token.start(sign), token[sign] == "{"
            if len(stack) == 1 and sign == _OPENS and len(nodes) == 1 and counts[0] == 0:
                nodes[0].body = at
                nodes[0].is_record = is_record
                stack.append(0)
            else:
                label = token[1][1:-1] if sign == _KEYED else str(counts[-1])
                nodes.append(RecordNode(token.start(), at, stack[-1], label, at, is_record))
                stack.append(len(nodes) - 1)
                if len(nodes) > GREP_NODES_MAX:
                    raise NoRecords(_MANY)
            counts.append(0)
        elif sign == _COMMAS:
            counts[-1] += token[0].count(",")
        elif sign == _CLOSES:
            if len(stack) < 2:
                raise NoRecords
            index = stack.pop()
            nodes[index].stop = token.end()
            counts.pop()
            _drop(nodes, index, has_match)
    if len(stack) != 1:
        raise NoRecords
    return nodes


def _drop(nodes: list[RecordNode], index: int, has_match: HasMatch) -> bool:
    """Remove a node that has ended without a match; return True if it was removed."""
    node = nodes[index]
    if not index or index < len(nodes) - 1 or has_match(node.start, node.stop):
        return False
    nodes.pop()
    return True


def _json_lines(text: str, has_match: HasMatch) -> list[RecordNode]:
    nodes = [RecordNode(0, len(text), -1, "", 0, False)]
    for start, stop in _lines(text):
        if not has_match(start, stop) or text[start:stop].isspace():
            continue
        try:
            found = _json(text, has_match, start, stop)
        except NoRecords:
            continue  # This line is not a JSON document.
        base = len(nodes)
        found[0].stop = stop
        for each in found:
            each.parent = each.parent + base if each.parent >= 0 else 0
        nodes += found
        if len(nodes) > GREP_NODES_MAX:
            raise NoRecords(_MANY)
    return nodes


def _lines(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    end = len(text) if end is None else end
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


_YAML_NEXT = re.compile(r"^---(?:[ \t][^\n]*)?\r?(?:\n|\Z)", re.MULTILINE)
_YAML_LINE = re.compile(
    r"^([ ]*+)((?:- )*+)(?=[^\n#])([^\s#:][^\n:]{0,200}+(?=:(?:\s|\Z)))?+[^\n]*+", re.MULTILINE
)


def _yaml(text: str, has_match: HasMatch) -> list[RecordNode]:
    """Return the nodes of YAML documents; each of several is a record with its number."""
    marks = [(mark.start(), mark.end()) for mark in _YAML_NEXT.finditer(text)]
    if marks and all(row.lstrip()[:1] in ("", "#", "%") for row in text[: marks[0][0]].split("\n")):
        marks[0] = (0, 0)  # Nothing precedes the first marker.
    else:
        marks.insert(0, (0, 0))
    if len(marks) > GREP_NODES_MAX:
        raise NoRecords(_MANY)
    nodes = [RecordNode(0, len(text), -1, "", 0, len(marks) == 1)]
    if len(marks) == 1:
        _yaml_document(text, nodes, 0, has_match)
        return nodes
    stops = [start for start, _ in marks[1:]] + [len(text)]
    for number, ((_, start), stop) in enumerate(zip(marks, stops, strict=True)):
        if has_match(start, stop):
            nodes.append(RecordNode(start, stop, 0, str(number), start, True))
            _yaml_document(text, nodes, len(nodes) - 1, has_match)
    return nodes


def _yaml_document(text: str, nodes: list[RecordNode], root: int, has_match: HasMatch) -> None:
    """Add the nodes of a document by indent: a key or a dash, with the lines indented below it.

    The stack holds columns times two, plus one for a dash, with the node that starts there.
    """
    stack: list[tuple[int, int]] = [(-1, root)]
    counts: dict[int, int] = {}
    end = nodes[root].stop
    for match in _YAML_LINE.finditer(text, nodes[root].start, end):
        start, stop = match.span()
        indent = match.end(1) - start
        # A dash may be in the same column as the key of its list.
        while stack[-1][0] >= 2 * indent + bool(match[2]):
            _, index = stack.pop()
            nodes[index].stop = start
            if _drop(nodes, index, has_match):
                counts.pop(index, None)
        for dash in range(len(match[2]) // 2):
            parent = stack[-1][1]
            number = counts.get(parent, 0)
            counts[parent] = number + 1
            at = start + indent + 2 * dash
            nodes.append(RecordNode(at, stop, parent, str(number), at + 2, True))
            stack.append((2 * (indent + 2 * dash) + 1, len(nodes) - 1))
        if match[3] is not None and text[match.end(3) + 1 : stop].strip() in ("", "|", ">"):
            column = indent + len(match[2])
            at = match.start(3)
            nodes.append(RecordNode(at, stop, stack[-1][1], match[3], stop, True))
            stack.append((2 * column, len(nodes) - 1))
        if len(nodes) > GREP_NODES_MAX:
            raise NoRecords(_MANY)
    while stack:
        nodes[stack.pop()[1]].stop = end


_XML = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[?!][^<>]*+>"
    r"|<(/?)([A-Za-z_][\w:.-]*+)([^<>]*+)>",
    re.DOTALL,
)


def _xml(text: str, has_match: HasMatch) -> list[RecordNode]:
    """Return the elements of an XML text; one without children and few values is its parent's."""
    nodes = [RecordNode(0, len(text), -1, "", 0, False)]
    stack = [0]
    labels: dict[str, str] = {}
    for tag in _XML.finditer(text):
        if tag[2] is None:
            continue
        if tag[1]:
            if len(stack) > 1 and nodes[stack[-1]].label == tag[2]:
                nodes[stack.pop()].stop = tag.end()
            continue
        nodes[stack[-1]].is_record = True
        is_record = tag[3].count("=") > 1
        at, label = tag.start(), labels.setdefault(tag[2], tag[2])
        nodes.append(RecordNode(at, tag.end(), stack[-1], label, at, is_record))
        if len(nodes) > GREP_NODES_MAX:
            raise NoRecords(_MANY)
        if not tag[3].endswith("/"):
            stack.append(len(nodes) - 1)
    for index in stack[1:]:
        nodes[index].stop = nodes[nodes[index].parent].stop
    nodes[0].is_record = False
    return nodes


_SECTION = re.compile(
    r"^[ \t]*+(\[\[?)[ \t]*+([^\[\],\n]++)\]\]?[ \t]*+(?:[#;][^\n]*+)?\r?$", re.MULTILINE
)


def _sections(text: str, has_match: HasMatch) -> list[RecordNode]:
    """Return the sections of a settings file, and the lines before the first section.

    Sections with the same name (`[[name]]`) are numbered.
    """
    heads = list(islice(_SECTION.finditer(text), GREP_NODES_MAX))
    if len(heads) == GREP_NODES_MAX:
        raise NoRecords(_MANY)
    if not heads:
        raise NoRecords
    nodes = [RecordNode(0, len(text), -1, "", 0, False)]
    nodes.append(RecordNode(0, heads[0].start(), 0, "", 0, True))
    counts: dict[str, int] = {}
    for at, head in enumerate(heads):
        stop = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        label = head[2].strip()
        if head[1] == "[[":
            counts[label] = number = counts.get(label, -1) + 1
            label = f"{label}/{number}"
        if has_match(head.start(), stop):
            nodes.append(RecordNode(head.start(), stop, 0, label, head.start(), True))
    return nodes


def _table(text: str, has_match: HasMatch) -> list[RecordNode]:
    """Return the rows of a table. The first row is the header and not a record."""
    nodes = [RecordNode(0, len(text), -1, "", 0, False)]
    spans: list[tuple[int, int]] = []

    def lines() -> Iterator[str]:
        for span in _lines(text):
            spans.append(span)
            yield text[span[0] : span[1]]

    try:
        for number, _ in enumerate(csv.reader(lines(), delimiter=delimiter_of(text))):
            start, stop = spans[0][0], spans[-1][1]
            if not number or has_match(start, stop):
                nodes.append(RecordNode(start, stop, 0, str(number - 1), start, number > 0))
            spans.clear()
            if len(nodes) > GREP_NODES_MAX:
                raise NoRecords(_MANY)
    except csv.Error as error:
        raise NoRecords from error
    return nodes


def delimiter_of(text: str) -> str:
    """Return the delimiter of a table: the most frequent candidate in its first line."""
    head = text[:4_000].partition("\n")[0]
    return max(("\t", ",", ";", "|"), key=head.count)


_READERS: dict[RecordFormat, Callable[[str, HasMatch], list[RecordNode]]] = {
    "json": _json,
    "json lines": _json_lines,
    "yaml": _yaml,
    "xml": _xml,
    "sections": _sections,
    "table": _table,
}
