"""Touched: the places of a document that a patch changed, as they are called when it is done.

Rule: a place is followed. What was put at index 0, and pushed on by what came after, is told at
the index that it has in the end; what was taken away again is not told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from contextrelay.logic.document.patch import Step
from contextrelay.logic.document.values import is_list

# What is below each place; None where all of it is new.
Tree: TypeAlias = "dict[str | int, Tree | None]"


def touched(steps: Iterable[Step], depth_max: int) -> Tree | None:
    """The places that steps changed, told to a depth; None if the whole document is new."""
    tree: Tree = {}
    for step in steps:
        if not step.place:
            return None
        _add(tree, step, depth_max)
    return tree


def _add(tree: Tree, step: Step, depth_max: int) -> None:
    *above, last = step.place[:depth_max]
    node = tree
    for key in above:
        below = node.setdefault(key, {})
        if below is None:
            return
        node = below
    if len(step.place) > depth_max or not is_list(step.container):
        node[last] = None
        return
    if step.kind == "remove":
        node.pop(last, None)
    if step.is_shift:
        _shift(node, step.key, 1 if step.kind == "insert" else -1)
    if step.kind != "remove":
        node[last] = None


def _shift(node: Tree, start: int, by: int) -> None:
    """Give the items of a list from an index on the index that they have now."""
    indexed = cast("dict[int, Tree | None]", node)
    moved = {index + by if index >= start else index: below for index, below in indexed.items()}
    indexed.clear()
    indexed.update(moved)
