"""Shorten a JSON object that is too long: show the values that match, and their neighbours.

Values are split into leaves, in document order. For each pattern the best matching leaf is shown,
with as many leaves around it as fit, nearest first. Omitted leaves are counted in place.

Rule: at most a few hundred members of one object or array are examined closely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct

from contextrelay.content.grep.gathered import Search, cut_around
from contextrelay.content.grep.match import wholeness

_VALUE_CHARS = 60
_ID_CHARS = 24
_MATCHED_CHARS = 240
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
        full = brief if is_holding else cut_around(text, self._searches, _MATCHED_CHARS)
        part = _Part(key, count, full if any(matched) else brief)
        self.leaves.append(_Leaf(part, self._owner, matched, full, text in _EMPTY))
        return part

    def _members(self, key: str, value: Any, depth: int, is_matched: bool) -> _Part:
        is_list = isinstance(value, list)
        members = (
            [("", each) for each in cast("list[Any]", value)]
            if is_list
            else [(f"{compact(name)}:", each) for name, each in value.items()]
        )
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
        """Return the index of the best leaf for each pattern; of equal ones, one near those of
        other patterns.
        """
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
        best = max(best, 1 + wholeness(raw, start, stop))
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


def short(value: Any, chars_max: int = _VALUE_CHARS) -> str:
    """Format a value on one line: containers as their size, long strings truncated."""
    if isinstance(value, dict) and value:
        return f"{{…{len(cast('dict[str, Any]', value))}}}"
    if isinstance(value, list) and value:
        return f"[…{len(cast('list[Any]', value))}]"
    text = compact(value)
    if len(text) > _ID_CHARS and " " not in text and any(map(str.isdigit, text)):
        chars_max = min(chars_max, _ID_CHARS)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"
