"""Show a matching record: its pointer, the identity of its parents, and its members.

Rule: the record is shown unchanged, because it was requested; everything around it is defused.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

import msgspec

from contextrelay.content.grep.gathered import Search, cut_around, score_of
from contextrelay.content.grep.shown_object import compact, short, shown_object
from contextrelay.content.grep.tree import Format, JsonContainer, delimiter_of
from contextrelay.content.tokens import count_tokens
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.documents.pointer import escape
from contextrelay.limits import GREP_RECORD_BYTES_MAX, MIB

# Number of parts of an enclosing record that are examined for its identity.
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


# A larger record is shown as raw text around the matches.
GREP_RECORD_DECODED_BYTES_MAX = 2 * MIB


_LINE_END = re.compile(r"\r?\n|\r")
_PARENTS_MAX, _LOOKED_AT_MAX = 3, 8
_MATCHED_CHARS = 240
_WHOLE_TRIES = 4
_WITHIN, _REST_TOKENS_MIN = " in ", 12
# No text has this many characters per token, so counting the tokens would not help.
_CHARS_A_TOKEN = 12


class RecordFormatter:
    """Formats records for display."""

    def __init__(
        self,
        searches: Sequence[Search],
        body: bytes,
        nodes: list[JsonContainer],
        format: Format,
    ) -> None:
        self._searches = searches
        self._body, self._nodes = body, nodes
        self._format: Format = format
        self._numbers: list[int] = []
        self._counts: dict[tuple[int, str], int] = {}
        self._delimiter = delimiter_of(body[:4_000].decode("latin-1"))
        header = self._cells(nodes[1]) if format == "table" and len(nodes) > 1 else []
        self._header = [name[:_MATCHED_CHARS] for name in header]

    def pointer(self, index: int) -> str:
        """Return the position of a record: RFC 6901 for JSON, XPath for XML, else like JSON."""
        parts: list[str] = []
        node = self._nodes[index]
        while node.parent >= 0:
            # A line of JSON lines is a document of its own.
            if self._format == "json lines" and node.parent == 0:
                break
            label = _decoded(node.label)
            if self._format == "sections":
                return f"/{label}" if label else ""
            parts.append(label + self._number(index) if self._format == "xml" else escape(label))
            index, node = node.parent, self._nodes[node.parent]
        return "".join(f"/{part}" for part in reversed(parts))

    def _number(self, index: int) -> str:
        """Return the XPath index of an element among siblings of the same name, as in `[2]`."""
        if not self._numbers:
            for each in self._nodes:
                key = each.parent, each.label
                self._counts[key] = number = self._counts.get(key, 0) + 1
                self._numbers.append(number)
        node = self._nodes[index]
        return f"[{self._numbers[index]}]" * (self._counts[node.parent, node.label] > 1)

    def text(self, index: int, chars_max: int, tokens_max: int | None = None) -> str:
        """Return a record with its pointer and the identity of its parents.

        JSON is cut to a number of tokens, if given.
        """
        node = self._nodes[index]
        if self._format == "table":
            return f"row {node.label}: {self._row(node, chars_max)}"
        pointer = self.pointer(index)
        above = self._parents(index)
        head = f"{pointer}{above}: " if pointer or above else ""
        if node.stop - node.start > GREP_RECORD_DECODED_BYTES_MAX:
            raw = self._body[node.start : node.stop].decode("utf-8", "replace")
            return head + " ".join(cut_around(raw, self._searches, _MATCHED_CHARS).split())
        if self._format not in ("json", "json lines"):
            return head + self._block(node, chars_max)
        raw = self._body[node.body : node.stop]
        if tokens_max is not None and head:
            tokens_max = max(1, tokens_max - count_tokens(head))
        text = self._object(raw, chars_max, tokens_max)
        if tokens_max is not None and self._format == "json lines":
            text += self._rest_of_line(index, tokens_max - count_tokens(text))
        return head + text

    def _rest_of_line(self, index: int, tokens_max: int) -> str:
        """Return the rest of the line that contains a record, if it fits."""
        node, label = self._nodes[index], ""
        while node.parent > 0:
            label, node = node.label, self._nodes[node.parent]
        tokens_max -= count_tokens(_WITHIN)
        is_large = node.stop - node.start > GREP_RECORD_DECODED_BYTES_MAX
        if node is self._nodes[index] or is_large or tokens_max < _REST_TOKENS_MIN:
            return ""
        raw = self._body[node.body : node.stop]
        rest = self._object(raw, 0, tokens_max, without=_decoded(label))
        return _WITHIN + defuse(rest).text if len(rest) > 2 else ""

    def _near_first(self, texts: Sequence[str]) -> list[int]:
        """Return the indexes of texts: the best matching first, then the others by distance to a
        match.
        """
        scores = list(map(self._matched, texts))
        matched = sorted(filter(scores.__getitem__, range(len(texts))), key=lambda at: -scores[at])
        anchors = matched[: len(self._searches)]
        others = (at for at in range(len(texts)) if not scores[at])
        far = {at: min((abs(at - to) for to in anchors), default=at) for at in others}
        return [*matched, *sorted(far, key=far.__getitem__)]

    def _matched(self, text: str) -> int:
        """Return the score of a text: by the number of patterns in it, then by whole words."""
        return score_of(text.encode("utf-8", "replace"), self._searches, _WHOLE_TRIES)

    def _object(
        self, raw: bytes, chars_max: int, tokens_max: int | None, without: str | None = None
    ) -> str:
        try:
            value = msgspec.json.decode(raw)
            whole = compact(value)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return raw.decode("utf-8", "replace")[:chars_max]

        def fits(text: str) -> bool:
            if tokens_max is None:
                return len(text) <= chars_max
            return len(text) <= _CHARS_A_TOKEN * tokens_max and count_tokens(text) <= tokens_max

        if not isinstance(value, dict | list) or (without is None and fits(whole)):
            return whole
        return shown_object(cast("Any", value), self._searches, fits, without)

    def _parents(self, index: int) -> str:
        """Return the identity of the nearest enclosing records, except that of the outermost."""
        said: list[str] = []
        at, looked_at = self._nodes[index].parent, 0
        outermost = 1 if self._format == "xml" else 0
        while at > outermost and len(said) < _PARENTS_MAX and looked_at < _LOOKED_AT_MAX:
            node = self._nodes[at]
            if node.is_record:
                said += identity(self._body, self._nodes, at, self._format)
                looked_at += 1
            at = node.parent
        return defuse(f" ({', '.join(said[:_PARENTS_MAX])})").text if said else ""

    def _block(self, node: JsonContainer, chars_max: int) -> str:
        """Return the lines of a YAML, XML or settings node; of a long node, matching lines
        first.
        """
        raw = self._body[node.start : node.stop].decode("utf-8", "replace")
        lines = [line.rstrip() for line in raw.split("\n") if line.strip()]
        if len("\n".join(lines)) > chars_max:
            left = chars_max
            kept: set[int] = set()
            for at in self._near_first(lines):
                if len(lines[at]) < left or not kept:
                    kept.add(at)
                    left -= len(lines[at]) + 1
            lines = [line[:chars_max] for at, line in enumerate(lines) if at in kept]
            lines.append("…")
        return " ".join(line.strip() for line in lines)

    def _row(self, node: JsonContainer, chars_max: int) -> str:
        """Return the cells of a row with their column names, matching cells first."""
        cells = self._cells(node)
        names = [*self._header, *(f"column {at}" for at in range(len(self._header), len(cells)))]
        parts = [
            f"{name}={cell[:_MATCHED_CHARS]}" for name, cell in zip(names, cells, strict=False)
        ]
        if sum(map(len, parts)) + 2 * len(parts) <= chars_max:
            return ", ".join(map(self._defused, names, parts))
        left = chars_max
        kept: list[int] = []
        for at in self._near_first(parts):
            if len(parts[at]) < left or not kept:
                kept.append(at)
                left -= len(parts[at]) + 2
        missing = len(parts) - len(kept)
        shown = (self._defused(names[at], parts[at]) for at in sorted(kept))
        return ", ".join(shown) + (f", …{missing} more" * bool(missing))

    def _defused(self, name: str, part: str) -> str:
        """Return a cell with its column name. Both are defused unless the cell was requested."""
        return part if self._matched(name) else defuse(name).text + part[len(name) :]

    def _cells(self, node: JsonContainer) -> list[str]:
        """Return the cells of a row, each on one line."""
        lines = self._body[node.start : node.stop].decode("utf-8", "replace").split("\n")
        try:
            whole = (f"{line}\n" for line in lines)
            cells = next(csv.reader(whole, delimiter=self._delimiter), lines)
        except csv.Error:
            return lines
        return [_LINE_END.sub(" ", cell) for cell in cells]


def _decoded(label: str) -> str:
    """Decode the UTF-8 of a key: the body is read as Latin-1 to get byte offsets."""
    try:
        text = label.encode("latin-1").decode()
        return json.loads(f'"{text}"') if "\\" in text else text
    except ValueError:
        return label
