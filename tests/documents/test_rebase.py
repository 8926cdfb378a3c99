"""Merging: a patch follows another one only if both mean the same in either order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.patch import Operation, is_independent
from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import RelayError
from contextrelay.state.schema import action, fact
from tests.documents.values import encoded, patched

DOCUMENT: dict[str, Any] = {
    "l": [{"x": 1, "y": [1, 2]}, {"x": 2}, {"x": 3}],
    "m": [1, 2],
    "o": {"a": 1, "b": {"c": 2}, "-": 0, "0": 0},
}


def add(path: str, value: Any = "new") -> Operation:
    return Operation("add", path, value)


def replace(path: str, value: Any = "new") -> Operation:
    return Operation("replace", path, value)


def remove(path: str) -> Operation:
    return Operation("remove", path)


def move(source: str, path: str) -> Operation:
    return Operation("move", path, from_=source)


def copy(source: str, path: str) -> Operation:
    return Operation("copy", path, from_=source)


def check(path: str, value: Any) -> Operation:
    return Operation("test", path, value)


def merges(mine: list[Operation], theirs: list[Operation]) -> bool:
    return is_independent(mine, theirs, patched(DOCUMENT, theirs))


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([add("/l/-")], [add("/l/-")]),
        ([add("/l/-"), add("/l/-")], [add("/l/-"), replace("/o/a")]),
        ([replace("/l/0/x")], [replace("/l/1/x")]),
        ([replace("/l/0/x")], [add("/l/-")]),
        ([add("/l/-")], [remove("/l/0")]),
        ([add("/l/-")], [add("/l/-"), remove("/l/0")]),
        ([check("/o/a", 1)], [check("/o/a", 1)]),
        ([add("/o/1")], [add("/o/2")]),
        ([replace("/o/a")], []),
    ],
)
def test_patches_of_other_places_merge(mine: list[Operation], theirs: list[Operation]) -> None:
    """Promise T4."""
    assert merges(mine, theirs)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([replace("/o/a")], [replace("/o/a")]),
        ([replace("/o")], [replace("/o/a")]),
        ([add("/o/new")], [add("/o/new")]),
        ([replace("/l", [])], [add("/l/-")]),
        ([add("/l/2/y", [])], [add("/l/0")]),
        ([add("/l/0")], [add("/l/1")]),
        ([add("/l/-"), replace("/l/3", 0)], [add("/l/-")]),
        ([move("/o/a", "/n")], [replace("/o/a")]),
        ([replace("/o/a")], [copy("/o/a", "/n")]),
        ([check("/l", DOCUMENT["l"])], [add("/l/-")]),
        ([add("/o/-")], [add("/o/-")]),
        ([add("/m/-")], [replace("", DOCUMENT)]),
    ],
)
def test_patches_that_meet_do_not_merge(mine: list[Operation], theirs: list[Operation]) -> None:
    """Promise T4."""
    assert not merges(mine, theirs)


def test_two_agents_that_append_merge_also_when_compaction_took_something_out() -> None:
    """Promise T4."""
    state: dict[str, Any] = {"facts": [], "last_actions": [{}, {}], "session_summary": ""}
    theirs = [
        action("theirs", "now"),
        remove("/last_actions/0"),
        add("/session_summary", "compacted: 1 action"),
    ]

    assert is_independent([action("mine", "now"), fact("k", "v", "f1")], theirs, state)


PATHS = st.sampled_from(
    [
        *("/l", "/l/0", "/l/1", "/l/2", "/l/3", "/l/-", "/l/0/x", "/l/1/x", "/l/3/x"),
        *("/l/0/y", "/l/0/y/0", "/l/0/y/-", "/m", "/m/0", "/m/1", "/m/-"),
        *("/o", "/o/a", "/o/b", "/o/b/c", "/o/new", "/o/-", "/o/0", "/new"),
    ]
)
VALUES = st.sampled_from([0, 1, "new", [], {"x": 9}, [7]])
OPERATIONS = (
    st.builds(Operation, st.sampled_from(["add", "replace", "add"]), PATHS, VALUES)
    | st.builds(remove, PATHS)
    | st.builds(move, PATHS, PATHS)
    | st.builds(copy, PATHS, PATHS)
)


@given(st.lists(OPERATIONS, min_size=1, max_size=3), st.lists(OPERATIONS, min_size=1, max_size=3))
def test_what_merges_is_the_same_in_either_order(
    mine: list[Operation], theirs: list[Operation]
) -> None:
    """Promise T4."""
    try:
        after_mine, after_theirs = patched(DOCUMENT, mine), patched(DOCUMENT, theirs)
    except RelayError:
        return
    if not is_independent(mine, theirs, after_theirs):
        return

    merged = patched(after_theirs, mine)

    # Theirs is never applied after mine; where it could be, the result is the same.
    if is_independent(theirs, mine, after_mine):
        assert unordered(merged) == unordered(patched(after_mine, theirs))


def unordered(value: Any) -> Any:
    """A value in which the order of items, as of members, counts for nothing."""
    if is_object(value):
        return {name: unordered(value[name]) for name in sorted(value)}
    if is_list(value):
        return sorted((unordered(item) for item in value), key=encoded)
    return value
