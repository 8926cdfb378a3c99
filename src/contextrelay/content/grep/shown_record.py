"""Show a matching record: its pointer, the identity of its parents, and its members.

Rule: the record is shown unchanged, because it was requested; everything around it is defused.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec import Struct

from contextrelay.content.grep.match import Search, cut_around, match_level, score_of
from contextrelay.content.grep.tree import RecordFormat, RecordNode, delimiter_of
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


def identity(body: bytes, nodes: list[RecordNode], index: int, format: RecordFormat) -> list[str]:
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


def _in_xml(body: bytes, nodes: list[RecordNode], index: int) -> Iterator[tuple[str, str]]:
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


def _tag(body: bytes, node: RecordNode) -> bytes:
    stop = body.find(b">", node.start, node.start + _TAG_BYTES_MAX) + 1
    return body[node.start : stop]


def _in_yaml(body: bytes, node: RecordNode) -> Iterator[tuple[str, str]]:
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
        self, searches: Sequence[Search], body: bytes, nodes: list[RecordNode], format: RecordFormat
    ) -> None:
        self._searches = searches
        self._body, self._nodes = body, nodes
        self._format: RecordFormat = format
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

    def _best(self, texts: Sequence[str], chars_max: int, apart: int) -> list[int]:
        """Return the indexes of texts that fit: the best matching, and others near to them."""
        scores = list(map(self._matched, texts))
        matched = sorted(filter(scores.__getitem__, range(len(texts))), key=lambda at: -scores[at])
        anchors = matched[: len(self._searches)]
        others = (at for at in range(len(texts)) if not scores[at])
        far = {at: min((abs(at - to) for to in anchors), default=at) for at in others}
        kept: list[int] = []
        for at in (*matched, *sorted(far, key=far.__getitem__)):
            if len(texts[at]) < chars_max or not kept:
                kept.append(at)
                chars_max -= len(texts[at]) + apart
        return sorted(kept)

    def _matched(self, text: str) -> int:
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

    def _block(self, node: RecordNode, chars_max: int) -> str:
        """Return the lines of a YAML, XML or settings node; of a long one, matching lines first."""
        raw = self._body[node.start : node.stop].decode("utf-8", "replace")
        lines = [line.rstrip() for line in raw.split("\n") if line.strip()]
        if len("\n".join(lines)) > chars_max:
            lines = [lines[at][:chars_max] for at in self._best(lines, chars_max, 1)] + ["…"]
        return " ".join(line.strip() for line in lines)

    def _row(self, node: RecordNode, chars_max: int) -> str:
        cells = self._cells(node)
        names = [*self._header, *(f"column {at}" for at in range(len(self._header), len(cells)))]
        pairs = zip(names, cells, strict=False)
        parts = [f"{name}={cell[:_MATCHED_CHARS]}" for name, cell in pairs]
        if sum(map(len, parts)) + 2 * len(parts) <= chars_max:
            return ", ".join(map(self._defused, names, parts))
        kept = self._best(parts, chars_max, 2)
        missing = len(parts) - len(kept)
        shown = (self._defused(names[at], parts[at]) for at in kept)
        return ", ".join(shown) + (f", …{missing} more" * bool(missing))

    def _defused(self, name: str, part: str) -> str:
        """Return a cell with its column name. Both are defused unless the cell was requested."""
        return part if self._matched(name) else defuse(name).text + part[len(name) :]

    def _cells(self, node: RecordNode) -> list[str]:
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


_SHORT_CHARS = 60
_ID_CHARS = 24
_LEAF_CHARS = 240
_DEPTH_MAX = 6
# If there are more members than this, use the matching ones and this many neighbours of each.
_MEMBERS_MAX = 300
_BEST_MEMBERS = 10
_NEXT_MEMBERS = 15
# After this many leaves, only matching members are split; later, none are.
_LEAVES_MANY, _LEAVES_MAX = 2_000, 20_000
_TRIES = 4
# Maximum number of leaves that are tried while there is room left.
_TRIED_MAX = 12
# Extra distance that is added to leaves with little information.
_EMPTY = ('""', "null", "[]", "{}", "false", "0")
_EMPTY_FURTHER = 4

Fits = Callable[[str], bool]  # A function that returns True if a text is short enough.


class _Part(Struct):
    """A member of an object or array: a leaf with its text, or a container with its parts."""

    key: str
    index: int = -1  # For a leaf, its index among the leaves.
    text: str = ""
    parts: list[_Part] = []
    is_list: bool = False
    left_out: int = 0  # The number of members that were not examined.


class _Leaf(Struct):
    """A leaf: how well it matches each pattern (0 for no match), and its full text."""

    part: _Part
    owner: int  # The index of the object or array that contains it.
    matched: list[int]
    full: str
    is_empty: bool


def shown_object(
    value: Any, searches: Sequence[Search], fits: Fits, without: str | None = None
) -> str:
    """Return as much of an object or array as fits, in document order.

    If `without` names a member of an object, show only what is around that member. Return "" if
    nothing fits.
    """
    taken = _SplitValue(searches, without)
    whole = taken.part("", value, 0)
    order, least = taken.order()
    low, high = least, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_render(whole, set(order[:middle]))):
            low = middle
        else:
            high = middle - 1
    chosen = set(order[:low])
    # A shorter leaf may come after a leaf that is too long.
    for index in order[low + 1 : low + _TRIED_MAX]:
        if fits(_render(whole, {*chosen, index})):
            chosen.add(index)
    for index in order[: min(low, _TRIED_MAX)]:
        leaf = taken.leaves[index]
        text, leaf.part.text = leaf.part.text, leaf.full
        if leaf.full != text and not fits(_render(whole, chosen)):
            leaf.part.text = text
    return _render(whole, chosen)


class _SplitValue:
    """A value split into leaves."""

    def __init__(self, searches: Sequence[Search], without: str | None) -> None:
        self._searches = searches
        self._without = without
        self._gap: int | None = None  # The index of the leaf after the excluded member.
        self._owner = self._owners = 0
        self.leaves: list[_Leaf] = []

    def part(self, key: str, value: Any, depth: int) -> _Part:
        """Split a member into a part, adding its leaves in order."""
        text = compact(value)
        is_holding = isinstance(value, dict | list) and bool(cast("Any", value))
        count = len(self.leaves)
        if is_holding and depth < _DEPTH_MAX and count < _LEAVES_MAX:
            is_matched = any(self._matched(text))
            if is_matched or count < _LEAVES_MANY:
                return self._members(key, value, depth, is_matched)
        matched = self._matched(key + text)
        brief = short(value)
        full = brief if is_holding else cut_around(text, self._searches, _LEAF_CHARS)
        part = _Part(key, count, full if any(matched) else brief)
        self.leaves.append(_Leaf(part, self._owner, matched, full, text in _EMPTY))
        return part

    def _members(self, key: str, value: Any, depth: int, is_matched: bool) -> _Part:
        is_list = isinstance(value, list)
        if is_list:
            members = [("", each) for each in cast("list[Any]", value)]
        else:
            members = [(f"{compact(name)}:", each) for name, each in value.items()]
        kept: Sequence[int] = range(len(members))
        if len(members) > _NEXT_MEMBERS and not is_matched:
            kept = range(_NEXT_MEMBERS)
        elif len(members) > _MEMBERS_MAX:
            kept = self._near(members)
        first, owner = len(self.leaves), self._owner
        self._owners += 1
        self._owner = mine = self._owners
        parts: list[_Part] = []
        for at in kept:
            name, each = members[at]
            if depth == 0 and self._without is not None and name == f"{compact(self._without)}:":
                self._gap = len(self.leaves)
            else:
                parts.append(self.part(name, each, depth + 1))
                self._owner = mine
        self._owner = owner
        # A match in a key counts for the first leaf below it.
        if len(self.leaves) > first:
            had = self.leaves[first].matched
            had[:] = map(max, had, self._matched(key))
        return _Part(key, -1, "", parts, is_list, len(members) - len(parts))

    def _near(self, members: Sequence[tuple[str, Any]]) -> list[int]:
        """From very many members, return the indexes of the matching ones and some neighbours."""
        scores: dict[int, list[int]] = {}
        for at, (name, each) in enumerate(members):
            matched = self._matched(name + compact(each))
            if any(matched):
                scores[at] = matched
        best = sorted(scores, key=lambda at: -sum(scores[at]))[:_BEST_MEMBERS]
        for pattern in range(len(self._searches)):
            best += sorted(scores, key=lambda at: -scores[at][pattern])[:1]
        near = {at + by for at in best or [0] for by in range(-_NEXT_MEMBERS, _NEXT_MEMBERS + 1)}
        return sorted(at for at in near if 0 <= at < len(members))

    def _matched(self, text: str) -> list[int]:
        raw = text.encode("utf-8", "replace")
        return [_match_level(raw, search) for search in self._searches]

    def order(self) -> tuple[list[int], int]:
        """Return the indexes of leaves by importance, and how many of these are always shown."""
        leaves = self.leaves
        anchors = self._anchors() if self._gap is None else [self._gap]
        first = list(dict.fromkeys(anchors)) if self._gap is None else []

        def far(index: int) -> float:
            distance = min((abs(index - at) for at in anchors), default=index)
            if leaves[index].is_empty:
                distance += _EMPTY_FURTHER
            return distance / 2 if any(leaves[index].matched) else distance

        others = sorted((at for at in range(len(leaves)) if at not in first), key=far)
        return [*first, *others], len(first)

    def _anchors(self) -> list[int]:
        """Return the index of the best leaf for each pattern, near those of other patterns."""
        found: list[list[int]] = []
        for pattern in range(len(self._searches)):
            best = max((leaf.matched[pattern] for leaf in self.leaves), default=0)
            if best:
                there = range(len(self.leaves))
                found.append([at for at in there if self.leaves[at].matched[pattern] == best])
        anchors: list[int] = []

        def far(at: int, to: int) -> tuple[bool, int]:
            return self.leaves[at].owner != self.leaves[to].owner, abs(at - to)

        for places in sorted(found, key=len):
            near = {at: min((far(at, to) for to in anchors), default=(False, 0)) for at in places}
            anchors.append(min(near, key=near.__getitem__))
        return anchors


def _match_level(raw: bytes, search: Search) -> int:
    """Return 0 for no match; higher numbers for a match, a whole word and a whole value."""
    best = place = 0
    for _ in range(_TRIES):
        if place > len(raw) or (found := search(raw, place)) is None:
            break
        start, stop = found.span()
        best = max(best, 1 + match_level(raw, start, stop))
        place = max(stop, start + 1)
    return best


def _render(part: _Part, chosen: set[int]) -> str:
    """Render a part with the chosen leaves; return "" if it contains none."""
    if part.index >= 0:
        return part.key + part.text if part.index in chosen else ""
    shown = list(filter(None, (_render(each, chosen) for each in part.parts)))
    if not shown:
        return ""
    missing = part.left_out + len(part.parts) - len(shown)
    if missing:
        shown.append(f"…{missing}")
    opening, closing = "[]" if part.is_list else "{}"
    return f"{part.key}{opening}{','.join(shown)}{closing}"


def compact(value: Any) -> str:
    """Encode a value as JSON without whitespace."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def short(value: Any, chars_max: int = _SHORT_CHARS) -> str:
    """Format a value on one line: containers as their size, long strings truncated."""
    if isinstance(value, dict) and value:
        return f"{{…{len(cast('dict[str, Any]', value))}}}"
    if isinstance(value, list) and value:
        return f"[…{len(cast('list[Any]', value))}]"
    text = compact(value)
    if len(text) > _ID_CHARS and " " not in text and any(map(str.isdigit, text)):
        chars_max = min(chars_max, _ID_CHARS)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"
