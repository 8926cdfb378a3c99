"""Families: names that differ in a number alone are told as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\d+")
_FAMILY_MIN = 5


def families(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Labels for names, in order, each with the indexes of the names that it stands for."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(_NUMBER.sub("#", name[:200], count=2), []).append(index)
    told: list[tuple[int, str, list[int]]] = []
    for mask, indexes in groups.items():
        if "#" in mask and len(indexes) >= _FAMILY_MIN:
            first, last = names[indexes[0]], names[indexes[-1]]
            told.append((indexes[0], f"{first} .. {last} ({len(indexes)})", indexes))
        else:
            told += [(index, names[index], [index]) for index in indexes]
    return [(label, indexes) for _, label, indexes in sorted(told, key=lambda each: each[0])]
