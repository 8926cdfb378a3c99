"""YAML: keys with their lines, each path once.

No parser: a few lines of YAML can expand to gigabytes, and a reader needs only keys with their
lines. Keys at one path are merged: over all documents, the entries of a list, and the similar
values of a mapping.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from msgspec import Struct

from contextrelay.content.outline.layout import (
    JOINED,
    OutlineDraft,
    OutlinePiece,
    families,
    shorten,
)
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")
_KEY = re.compile(
    r"( *+(?:- ++)*+)(\"[^\"]{1,80}\"|'[^']{1,80}'"
    r"|(?:[\w./$@]|-(?=\S))[\w ./$@\"'{}<>*+~()=-]{0,80}?):(?: (.*))?"
)
# After a key: its value is the block below, whatever that looks like.
_TEXT = re.compile(r"(?:[!&]\S*+ ++)*+[|>][+\-\d]*+\s*+(?:#.*)?")
_TEXT_STARTS = frozenset("|>!&")
_ENTRIES_MAX = 12
_DEPTH_MAX = 40
# Levels whose keys have lines of their own.
_LINED_DEPTHS = 2
# How many keys are listed if there is no room for all.
_NAMED_DEPTHS = 4
_VALUES_SHOWN = 3
# A mapping with this many similar values is a map; during reading, tested at these larger sizes.
_MAP_MIN, _MAP_TRIED_AT = 12, frozenset(48 << power for power in range(12))
_MAP_SHARE = 0.6
_PLAIN_MIN = 1_000
_MAP_NAMES_FIRST, _MAP_NAMES_SHOWN = 3, 10
_MAP_NAMES_TRIED = 2_000
_ANY = "*"
_HEADS_MAX, _NAME_CHARS_MAX = 50_000, 80


class _Node(Struct):
    """A path: first line, number of occurrences, the value after its key, and its children."""

    line: int = 0
    count: int = 0
    values: dict[str, None] = {}
    entries: list[str] = []
    below: dict[str, _Node] = {}
    names: dict[str, int] = {}
    """For a map: the keys whose values are the node `*`, with their lines."""

    def value(self, chars_max: int) -> str:
        """Return part of the value, or of the words listed below the key."""
        if self.entries and not self.values:
            return shorten(f"[{', '.join(self.entries)}]", chars_max)
        shown = [shorten(each, chars_max) for each in islice(self.values, _VALUES_SHOWN)]
        return " | ".join(shown) + " …" * (len(self.values) > _VALUES_SHOWN)


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a YAML file, or None for other text."""
    if source.media_type not in _TYPES:
        return None
    reader = _Reader()
    reader.read(source.short_lines)
    root = reader.root
    if not root.below:
        return None
    levels = [[root]]
    while levels[-1]:
        for node in levels[-1]:
            members = _alike(node) if not node.names and len(node.below) >= _MAP_MIN else []
            if members:
                _make_map(node, members)
        levels.append([below for node in levels[-1] for below in node.below.values()])
    several = f", {reader.documents} documents" if reader.documents > 1 else ""
    pieces = [OutlinePiece(0, (f"YAML, {source.measure()}{several}",))]
    if root.names:
        pieces += [OutlinePiece(1, (f"map of {len(root.names)}:",)), *_map_names(root, 1)]
    pieces += _lined(root, 1)
    first = next(iter(root.below.values())).line
    # The common structure of a map's values comes before its names.
    maps = (depth + 2 for depth, nodes in enumerate(levels) if any(each.names for each in nodes))
    kept_rank = next(maps, 0)
    # Names to mention: fields, outer ones first, then those in maps. Names that differ only in a
    # number carry no information.
    nodes = list(chain.from_iterable(levels[:_NAMED_DEPTHS]))
    names = dict.fromkeys(chain.from_iterable(each.below for each in nodes))
    some = list(islice(chain.from_iterable(each.names for each in nodes), _MAP_NAMES_TRIED))
    names.update((some[at[0]], None) for _, at in families(some) if len(at) == 1)
    names.pop(_ANY, None)
    step = f"--lines {first}:{first + 40}"
    return OutlineDraft("yaml", pieces, step, reader.left_out, names, kept_rank)


class _Reader:
    """Reads the keys of lines into a tree."""

    def __init__(self) -> None:
        self.root = _Node()
        self.documents = 0
        self.left_out = 0
        self._nodes = 0
        self._nowhere = _Node()
        self._heads: dict[str, tuple[int, str] | None] = {}
        """Cache for repeated texts before a colon: column and key."""

    def read(self, lines: Sequence[str]) -> None:
        columns, path = [-1], [self.root]
        is_begun = False
        text_column: int | None = None
        heads = self._heads
        for number, line in enumerate(lines, 1):
            if text_column is not None:
                if not line or line.isspace() or _column(line) > text_column:
                    continue
                text_column = None
            head, colon, value = line.partition(":")
            if colon and (not value or value[0] == " "):
                if head.isidentifier() and len(head) <= _NAME_CHARS_MAX:
                    found = 0, head  # Faster than a lookup.
                else:
                    found = heads[head] if head in heads else self._head(head)
            else:
                # An unusual line.
                is_key = colon and head[:3] != "---"
                match = _KEY.fullmatch(line.rstrip()) if is_key else None
                found = (len(match[1]), match[2]) if match else None
                value = (match[3] or "") if match else ""
            if found is None:
                if line[:3] in ("---", "..."):
                    is_begun = False
                    del columns[1:], path[1:]
                    continue
                node, text = path[-1], line.strip()
                # A list entry that is not a mapping.
                if node.count == 1 and not node.values and len(node.entries) < _ENTRIES_MAX:
                    node.entries += [text[1:].strip()] if text[:1] == "-" else []
                if not is_begun and text[:1] not in ("", "#", "%"):
                    is_begun = True
                    self.documents += 1
                elif line.rstrip()[-3:] in ("- |", "- >"):
                    text_column = _column(line)
                continue
            if not is_begun:
                is_begun = True
                self.documents += 1
            column, name = found
            while columns[-1] >= column:
                columns.pop()
                path.pop()
            above = path[-1]
            node = above.below.get(name) or self._place(above, name, number, len(path))
            node.count += 1
            columns.append(column)
            path.append(node)
            value = value.strip()
            if not value:
                continue
            if value[0] in _TEXT_STARTS and _TEXT.fullmatch(value):
                text_column = column
            elif len(node.values) <= _VALUES_SHOWN:
                node.values[value] = None

    def _head(self, head: str) -> tuple[int, str] | None:
        name = head.lstrip(" ")
        found = None
        # The common case, which is faster.
        if name.isidentifier() and len(name) <= _NAME_CHARS_MAX:
            found = len(head) - len(name), name
        elif head[:3] != "---" and (match := _KEY.fullmatch(head + ":")):
            found = len(match[1]), match[2]
        if len(self._heads) < _HEADS_MAX:
            self._heads[head] = found
        return found

    def _place(self, above: _Node, name: str, number: int, depth: int) -> _Node:
        if above.names:
            above.names.setdefault(name, number)
            return above.below[_ANY]
        count = len(above.below)
        if count in _MAP_TRIED_AT:
            # Similar values, or very many without children.
            plain = [key for key, each in above.below.items() if not each.below]
            is_plain = len(plain) >= max(_PLAIN_MIN, _MAP_SHARE * count)
            if members := _alike(above) or (plain if is_plain else []):
                self._nodes -= _make_map(above, members)
                return self._place(above, name, number, depth)
        if self._nodes >= OUTLINE_PIECES_MAX or depth > _DEPTH_MAX or above is self._nowhere:
            self.left_out += 1
            return self._nowhere
        self._nodes += 1
        node = above.below[name] = _Node(number)
        return node


def _column(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _alike(node: _Node) -> list[str]:
    """Return the keys whose values are mappings with mostly the same keys, if most values are."""
    held = [each.below for each in node.below.values() if each.below]
    counts = Counter(chain.from_iterable(held))
    common = {name for name, count in counts.items() if 2 * count >= len(held)}
    members = [
        name
        for name, each in node.below.items()
        if each.below and 2 * len(common & each.below.keys()) >= len(each.below)
    ]
    return members if len(members) >= max(_MAP_MIN, _MAP_SHARE * len(node.below)) else []


def _make_map(node: _Node, members: Sequence[str]) -> int:
    """Merge these members into a map; return the number of nodes removed."""
    any_of = _Node(node.below[members[0]].line) if members else _Node()
    less = -1
    for name in members:
        each = node.below.pop(name)
        node.names[name] = each.line
        less += _merge(any_of, each)
    node.below[_ANY] = any_of
    return less


def _merge(node: _Node, other: _Node) -> int:
    """Merge a node into another; return the number of nodes removed."""
    node.count += other.count
    node.values = dict.fromkeys(islice((node.values | other.values), _VALUES_SHOWN + 1))
    node.entries = node.entries or other.entries
    less = 1
    for one, two in ((node, other), (other, node)):
        if one.names and not two.names:
            less += _make_map(two, list(two.below))
    node.names.update((name, line) for name, line in other.names.items() if name not in node.names)
    for name, each in other.below.items():
        if name in node.below:
            less += _merge(node.below[name], each)
        else:
            node.below[name] = each
    return less


def _lined(node: _Node, depth: int) -> Iterator[OutlinePiece]:
    """Yield keys of the first two levels with their lines, and those below once each."""
    for name, each in node.below.items():
        if name == _ANY:
            yield OutlinePiece(depth, (f"{' ' * (depth - 1)}each:",))
            yield from _below(each, depth)
            continue
        label = f"{' ' * (depth - 1)}{shorten(name, 60)}"
        short = f"{label}:{each.line}"
        value = each.value(40)
        if each.names:
            yield OutlinePiece(depth, (f"{short} map of {len(each.names)}:",))
            yield from _map_names(each, depth)
        else:
            yield OutlinePiece(
                depth, (label, short, *((f"{label}: {value}:{each.line}",) * bool(value)))
            )
        yield from _below(each, depth)


def _below(node: _Node, depth: int) -> Iterator[OutlinePiece]:
    """Yield what is below a node that has a line of its own."""
    if depth < _LINED_DEPTHS:
        yield from _lined(node, depth + 1)
        return
    yield from _joined([each for each in node.below.items() if each[0] != _ANY], depth + 1)
    if node.names:
        yield OutlinePiece(depth, (f"{' ' * depth}each:",))
        yield from _joined(node.below[_ANY].below.items(), depth + 1)


def _map_names(node: _Node, depth: int) -> Iterator[OutlinePiece]:
    """Yield some names of a map before the common fields, and more if there is room."""
    labels = list(islice(node.names, _MAP_NAMES_SHOWN))
    if len(node.names) <= _MAP_NAMES_TRIED:
        # Of names that differ only in a number, the first and the last.
        labels = [label for label, _ in families(list(node.names))]
    for index, label in enumerate(labels):
        name, line = shorten(label, 60), node.names.get(label)
        rank = depth if index < _MAP_NAMES_FIRST else _DEPTH_MAX + 1
        yield OutlinePiece(rank, (name, f"{name}:{line}") if line else (name,), JOINED)


def _joined(nodes: Iterable[tuple[str, _Node]], depth: int) -> Iterator[OutlinePiece]:
    found: dict[str, list[tuple[int, _Node]]] = {}
    _gather(nodes, depth, found)
    for name, places in found.items():
        rank, node = places[0]
        shown = shorten(name, 60)
        is_one = len(places) == 1
        forms = [shown]
        if is_one and node.names:
            head = f"{shown}: map of {len(node.names)}"
            some = [shorten(each, 60) for each in islice(node.names, _MAP_NAMES_FIRST)]
            forms += [head, f"{head} ({', '.join(some)} …)"]
        if is_one and (value := node.value(30)):
            forms.append(f"{shown}: {value}")
        yield OutlinePiece(rank, tuple(forms), JOINED)


def _gather(
    nodes: Iterable[tuple[str, _Node]], depth: int, found: dict[str, list[tuple[int, _Node]]]
) -> None:
    for name, each in nodes:
        if name != _ANY:
            found.setdefault(name, []).append((depth, each))
        _gather(each.below.items(), depth + 1, found)
