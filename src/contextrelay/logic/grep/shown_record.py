"""How a record that matches is shown: its pointer, what identifies its parents, and its members."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from contextrelay.limits import GREP_RECORD_BYTES_MAX
from contextrelay.logic.document.pointer import escape
from contextrelay.logic.grep.gathered import Search, score_of
from contextrelay.logic.grep.tree import Format, Node, delimiter_of

_IDENTIFIES = re.compile(
    r"(?:^|[_.-])(?:id|ids|uuid|guid|key|name|title|email|sku|code|number|ref|slug)$"
    r"|[a-z](?:Id|ID|Name|Key|Number)$",
    re.IGNORECASE,
)
_PARENTS_MAX = 3
_VALUE_CHARS = 60
_MATCHED_CHARS = 240
_DEPTH_MAX = 3
_WHOLE_TRIES = 4


class Showing:
    """How records are shown."""

    def __init__(
        self,
        searches: Sequence[Search],
        body: bytes,
        nodes: list[Node],
        format: Format,
    ) -> None:
        self._searches = searches
        self._body, self._nodes, self._format = body, nodes, format
        self._delimiter = delimiter_of(body[:4_000].decode("latin-1"))
        self._header = self._cells(nodes[1]) if format == "table" and len(nodes) > 1 else []

    def pointer(self, index: int) -> str:
        """Where a record is: of JSON by RFC 6901, of others alike."""
        parts: list[str] = []
        node = self._nodes[index]
        while node.parent >= 0:
            # A line of JSON lines is a document of its own.
            if self._format == "json lines" and node.parent == 0:
                break
            label = _decoded(node.label)
            parts.append(label if self._format == "xml" else escape(label))
            node = self._nodes[node.parent]
        return "".join(f"/{part}" for part in reversed(parts))

    def text(self, index: int, chars_max: int) -> str:
        """A record with its pointer and what identifies those that it is in."""
        node = self._nodes[index]
        if self._format == "table":
            return f"row {node.label}: {self._row(node, chars_max)}"
        pointer = self.pointer(index)
        above = self._parents(index)
        head = f"{pointer}{above}: " if pointer or above else ""
        raw = self._body[node.body : node.stop]
        if self._format in ("json", "json lines"):
            return head + self._object(raw, chars_max)
        return head + self._block(node, chars_max)

    def _matched(self, text: str) -> int:
        """How well a text matches: by how many of the patterns, then by whole words."""
        return score_of(text.encode("utf-8", "replace"), self._searches, _WHOLE_TRIES)

    def _object(self, raw: bytes, chars_max: int) -> str:
        try:
            value = msgspec.json.decode(raw)
            whole = _compact(value)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return raw.decode("utf-8", "replace")[:chars_max]
        return whole if len(whole) <= chars_max else self._members(value, chars_max)

    def _members(self, value: Any, chars_max: int, depth: int = 0) -> str:
        """The members that match first, then those that identify it, then the others."""
        if isinstance(value, dict):
            members = list(cast("dict[str, Any]", value).items())
        elif isinstance(value, list):
            members = [("", each) for each in cast("list[Any]", value)]
        else:
            return _value(value, _MATCHED_CHARS)
        ranked: list[tuple[int, int, str]] = []
        for at, (key, each) in enumerate(members):
            name = f"{_compact(key)}:" if isinstance(value, dict) else ""
            matched = self._matched(f"{name}{_compact(each)}")
            if matched and isinstance(each, dict | list) and depth < _DEPTH_MAX:
                part = name + self._members(each, chars_max * 3 // 4, depth + 1)
                ranked.append((-matched, at, part))
            elif matched:
                ranked.append((-matched, at, name + _value(each, _MATCHED_CHARS)))
            else:
                rank = 1 if _IDENTIFIES.search(key) else 3 if isinstance(each, dict | list) else 2
                ranked.append((rank, at, name + _value(each, _VALUE_CHARS)))
        parts: list[str] = []
        left = chars_max
        # A long text that happens to match comes behind short ones.
        for rank, _, part in sorted(
            ranked, key=lambda each: (each[0], len(each[2]) > 120, each[1])
        ):
            if len(part) < left or (rank < 0 and not parts):
                parts.append(part)
                left -= len(part) + 1
        missing = f",…{len(members) - len(parts)} more" if len(parts) < len(members) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{','.join(parts)}{missing}{closing}"

    def _parents(self, index: int) -> str:
        """What identifies the records that this one is in."""
        said: list[str] = []
        at = self._nodes[index].parent
        while at >= 0 and len(said) < _PARENTS_MAX:
            node = self._nodes[at]
            if node.is_record and at and self._format in ("json", "json lines"):
                said += self._identity(node)
            at = node.parent
        return f" ({', '.join(said[:_PARENTS_MAX])})" if said else ""

    def _identity(self, node: Node) -> list[str]:
        raw = self._body[node.body : node.stop]
        if len(raw) > 4 * GREP_RECORD_BYTES_MAX:
            return []
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return []
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        plain = {
            key: each
            for key, each in members.items()
            if isinstance(each, str | int) and _IDENTIFIES.search(key)
        }
        return [f"{key} {_value(each, _VALUE_CHARS)}" for key, each in list(plain.items())[:2]]

    def _block(self, node: Node, chars_max: int) -> str:
        """A part of YAML or XML: its lines, those that match first where it is long."""
        raw = self._body[node.start : node.stop].decode("utf-8", "replace")
        lines = [line.rstrip() for line in raw.split("\n") if line.strip()]
        if len("\n".join(lines)) > chars_max:
            left = chars_max
            kept: set[int] = set()
            order = sorted(range(len(lines)), key=lambda at: (-self._matched(lines[at]), at))
            for at in order:
                if len(lines[at]) < left or not kept:
                    kept.add(at)
                    left -= len(lines[at]) + 1
            lines = [line[:chars_max] for at, line in enumerate(lines) if at in kept]
            lines.append("…")
        return " ".join(line.strip() for line in lines)

    def _row(self, node: Node, chars_max: int) -> str:
        """The cells of a row under the names of their columns, those that match first."""
        cells = self._cells(node)
        names = [*self._header, *(f"column {at}" for at in range(len(self._header), len(cells)))]
        parts = [
            f"{name}={cell[:_MATCHED_CHARS]}" for name, cell in zip(names, cells, strict=False)
        ]
        if sum(map(len, parts)) + 2 * len(parts) <= chars_max:
            return ", ".join(parts)
        order = sorted(range(len(parts)), key=lambda at: (-self._matched(parts[at]), at))
        left = chars_max
        kept: list[int] = []
        for at in order:
            if len(parts[at]) < left or not kept:
                kept.append(at)
                left -= len(parts[at]) + 2
        missing = len(parts) - len(kept)
        return ", ".join(parts[at] for at in sorted(kept)) + (f", …{missing} more" * bool(missing))

    def _cells(self, node: Node) -> list[str]:
        lines = self._body[node.start : node.stop].decode("utf-8", "replace").split("\n")
        try:
            return next(csv.reader(lines, delimiter=self._delimiter), lines)
        except csv.Error:
            return lines


def _decoded(label: str) -> str:
    """A key as it reads; places were found in Latin-1."""
    try:
        text = label.encode("latin-1").decode()
        return json.loads(f'"{text}"') if "\\" in text else text
    except ValueError:
        return label


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _value(value: Any, chars_max: int) -> str:
    """A value on one line: what it holds is counted, a long text is cut."""
    if isinstance(value, dict):
        return f"{{…{len(cast('dict[str, Any]', value))}}}"
    if isinstance(value, list):
        return f"[…{len(cast('list[Any]', value))}]"
    text = _compact(value)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"
