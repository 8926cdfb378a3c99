"""Merging by field: two writers began with the same value, and both changes are kept.

Rule: a field that one of them changed takes that change; lists take what each added and lose what
each removed. Only where both gave one field different values is there a clash: what is on disk
stands, and the other value is returned in a clash.
"""

from __future__ import annotations

from typing import Any

from contextrelay.documents.value_types import is_list, is_object, same
from contextrelay.model.project import Clash


class _Missing:
    """No value at all."""


_MISSING = _Missing()


def merged(base: Any, ours: Any, theirs: Any, field: str = "") -> tuple[Any, list[Clash]]:
    """What both wanted, and where that cannot be; `theirs` is what is on disk."""
    if _alike(ours, base) or _alike(ours, theirs):
        return theirs, []
    if _alike(theirs, base):
        return ours, []
    if is_object(ours) and is_object(theirs):
        return _objects(base if is_object(base) else {}, ours, theirs, field)
    if is_list(ours) and is_list(theirs):
        found = _lists(base if is_list(base) else [], ours, theirs, field)
        if found is not None:
            return found
    if theirs is _MISSING:
        # Removed by one and changed by the other: the change says more.
        return ours, []
    if ours is _MISSING:
        return theirs, []
    return theirs, [Clash(field, theirs, ours)]


def _alike(one: Any, other: Any) -> bool:
    if one is _MISSING or other is _MISSING:
        return one is other
    return same(one, other)


def _objects(
    base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], field: str
) -> tuple[dict[str, Any], list[Clash]]:
    result: dict[str, Any] = {}
    clashes: list[Clash] = []
    for name in [*theirs, *(each for each in ours if each not in theirs)]:
        value, found = merged(
            base.get(name, _MISSING),
            ours.get(name, _MISSING),
            theirs.get(name, _MISSING),
            f"{field}.{name}" if field else name,
        )
        clashes += found
        if value is not _MISSING:
            result[name] = value
    return result, clashes


def _lists(
    base: list[Any], ours: list[Any], theirs: list[Any], field: str
) -> tuple[list[Any], list[Clash]] | None:
    if all(_id(each) is not None for each in (*base, *ours, *theirs)):
        return _by_id(base, ours, theirs, field)
    if any(is_object(each) or is_list(each) for each in (*base, *ours, *theirs)):
        return None
    removed = [each for each in base if not _in(each, ours)]
    result = [each for each in theirs if not _in(each, removed)]
    result += [each for each in ours if not _in(each, base) and not _in(each, result)]
    return result, []


def _in(value: Any, values: list[Any]) -> bool:
    return any(same(value, each) for each in values)


def _id(item: Any) -> str | None:
    id = item.get("id") if is_object(item) else None
    return id if isinstance(id, str) else None


def _by_id(
    base: list[Any], ours: list[Any], theirs: list[Any], field: str
) -> tuple[list[Any], list[Clash]] | None:
    sides = [{_id(each): each for each in side} for side in (base, ours, theirs)]
    if [len(side) for side in sides] != [len(base), len(ours), len(theirs)]:
        return None
    before, mine, there = sides
    result: list[Any] = []
    clashes: list[Clash] = []
    for id in [*there, *(each for each in mine if each not in there)]:
        value, found = merged(
            before.get(id, _MISSING),
            mine.get(id, _MISSING),
            there.get(id, _MISSING),
            f"{field}.{id}",
        )
        clashes += found
        if value is not _MISSING:
            result.append(value)
    return result, clashes
