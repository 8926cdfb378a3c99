"""Touched: places as they are called in the end."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.documents.patch import Operation, changed_positions
from tests.documents.values import applied_to


def add(path: str, value: Any = 0) -> Operation:
    return Operation("add", path, value)


def remove(path: str) -> Operation:
    return Operation("remove", path)


def move(source: str, path: str) -> Operation:
    return Operation("move", path, from_=source)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([add("/l/-")], {"l": {3: None}}),
        ([add("/l/0"), add("/l/0")], {"l": {0: None, 1: None}}),
        ([add("/l/1"), remove("/l/1")], {"l": {}}),
        ([move("/l/0", "/l/2")], {"l": {2: None}}),
        ([add("/l/1/x"), add("/l/0")], {"l": {0: None, 2: {"x": None}}}),
        ([add("/l", []), add("/l/-")], {"l": None}),
        ([remove("/o/a")], {"o": {"a": None}}),
        ([add("/o/b", {}), add("/o/b/c")], {"o": {"b": None}}),
        ([add("", {})], None),
    ],
)
def test_a_place_is_followed_to_where_it_is_in_the_end(
    operations: list[Operation], expected: object
) -> None:
    """Promise T2."""
    holder: list[Any] = [{"l": [{}, {}, {}], "o": {"a": 1}}]

    assert changed_positions(applied_to(holder, *operations).steps, depth_max=4) == expected


def test_what_is_deeper_than_asked_is_reported_at_that_depth() -> None:
    """Promise T2."""
    holder: list[Any] = [{"a": [[{"b": [1, 2]}]]}]

    steps = applied_to(holder, remove("/a/0/0/b/0"), remove("/a/0/0/b/0")).steps

    assert changed_positions(steps, depth_max=2) == {"a": {0: None}}
    assert changed_positions(steps, depth_max=5) == {"a": {0: {0: {"b": {}}}}}
