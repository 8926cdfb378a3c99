"""Patches: all or nothing, in place, bounded after each operation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.patch import KNOWN, Operation, apply, read_operations, undo
from contextrelay.documents.pointer import spell
from contextrelay.errors import Conflict, Invalid, Refused, RelayError, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, PATCH_OPERATIONS_MAX
from tests.documents.values import (
    ALIKE,
    DOCUMENTS,
    NAMES,
    applied_to,
    copied,
    documents,
    encoded,
)

PATHS = st.lists(NAMES, max_size=3).map(spell)
OPERATIONS = st.builds(Operation, st.sampled_from(KNOWN), PATHS, DOCUMENTS, PATHS) | st.builds(
    Operation, st.just("add"), PATHS, DOCUMENTS, st.just(msgspec.UNSET)
)


def add(path: str, value: Any) -> Operation:
    return Operation("add", path, value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(documents(ALIKE), st.lists(OPERATIONS, max_size=6))
def test_a_patch_is_applied_as_a_whole_or_not_at_all_and_can_be_taken_back(
    document: Any, operations: list[Operation]
) -> None:
    """Promise T3."""
    before, given_before = encoded(document), encoded(operations)
    holder = [copied(document)]

    try:
        applied = applied_to(holder, *operations)
    except RelayError:
        assert encoded(holder[0]) == before
    else:
        assert applied.size_bytes == len(encoded(holder[0]))
        undo(applied.steps)
        assert encoded(holder[0]) == before
    assert encoded(operations) == given_before


def test_nothing_is_shared_with_the_operations_or_within_the_document() -> None:
    """Promise T3."""
    value: dict[str, Any] = {"x": [1]}
    operations = [add("/a", value), add("/b", value), Operation("copy", "/c", from_="/a")]
    holder: list[Any] = [{}]

    applied_to(holder, *operations, add("/a/x/-", 2))
    value["x"].append(3)

    assert holder[0] == {"a": {"x": [1, 2]}, "b": {"x": [1]}, "c": {"x": [1]}}


def test_an_operation_says_after_the_patch_what_it_said_before() -> None:
    """Promise T3."""
    operations = [add("/facts/-", {"id": "f1", "value": []}), add("/facts/0/value/-", 1)]
    before = msgspec.json.encode(operations)
    holder: list[Any] = [{"facts": []}]

    applied_to(holder, *operations)

    assert holder[0]["facts"][0]["value"] == [1]
    assert msgspec.json.encode(operations) == before


def test_a_failing_operation_is_named_by_its_index_and_path() -> None:
    """Promise T3."""
    with pytest.raises(Refused) as caught:
        applied_to([{"a": 1}], add("/b", 1), Operation("remove", "/missing"))

    assert caught.value.message.startswith("operation 1, remove '/missing': '/missing' not found")
    assert caught.value.details == {"operation": 1, "missing": "'/missing'"}


def test_a_failing_test_is_a_conflict_that_says_what_is_there() -> None:
    """Promises T3 and T4."""
    with pytest.raises(Conflict) as caught:
        applied_to([{"a": "new"}], Operation("test", "/a", "old"))

    assert "expected 'old', found 'new'" in caught.value.message
    assert caught.value.hint


def test_a_copy_bomb_is_refused_and_nothing_stays_of_it() -> None:
    """Promise T3."""
    document: dict[str, Any] = {"a": ["x" * 1_000]}
    before = encoded(document)
    doubling = [Operation("copy", "/a/-", from_="/a")] * 40

    with pytest.raises(TooLarge) as caught:
        apply([document], doubling, len(before), 100_000)

    assert encoded(document) == before
    assert caught.value.message.startswith("operation 6, copy ")
    assert "100000 bytes" in caught.value.hint


def test_copying_and_removing_in_turn_is_bounded_too() -> None:
    """Promise T3."""
    document: dict[str, Any] = {"a": "x" * 1_000}
    turn = [Operation("copy", "/b", from_="/a"), Operation("remove", "/b")]

    with pytest.raises(TooLarge, match="copies and moves too much"):
        apply([document], turn * 20, len(encoded(document)), 10_000)

    assert list(document) == ["a"]


def test_the_size_is_bounded_after_each_operation_not_only_at_the_end() -> None:
    """Promise T3."""
    operations = [add("/a", "x" * 200), Operation("remove", "/a")]

    with pytest.raises(TooLarge):
        apply([{}], operations, 2, 100)


def test_a_document_over_the_limit_can_still_be_made_smaller() -> None:
    """Promise T3."""
    document = {"a": "x" * 200, "b": "y" * 200}

    applied = apply([document], [Operation("replace", "/a", "z")], len(encoded(document)), 100)

    assert applied.size_bytes == len(encoded(document))


@pytest.mark.parametrize(
    "value",
    [float("nan"), -(2**63) - 1, {1: 2}, object()],
)
@pytest.mark.parametrize("op", ["add", "replace", "test"])
def test_a_value_that_is_no_json_is_invalid_and_changes_nothing(op: str, value: Any) -> None:
    """Promise T3."""
    document: dict[str, Any] = {"a": 1}

    with pytest.raises(Invalid):
        applied_to([document], add("/b", 1), Operation(op, "/a", value))

    assert document == {"a": 1}


def test_nesting_is_bounded_wherever_it_comes_from() -> None:
    """Promise T3."""
    holder: list[Any] = [{"deep": nested(JSON_DEPTH_MAX - 1), "a": {}}]
    before = encoded(holder[0])
    too_deep = [
        add("/a/b", nested(JSON_DEPTH_MAX - 1)),
        Operation("copy", "/a/b", from_="/deep"),
        Operation("move", "/a/b", from_="/deep"),
        add("/a" * (JSON_DEPTH_MAX + 1), 1),
    ]

    for operation in too_deep:
        with pytest.raises(Invalid, match="deep"):
            applied_to(holder, operation)
        assert encoded(holder[0]) == before
    applied_to(holder, Operation("copy", "/b", from_="/deep"))


def test_a_patch_of_too_many_operations_is_not_read() -> None:
    """Promise T3."""
    one = {"op": "add", "path": "/a", "value": 1}

    assert len(read_operations([one] * PATCH_OPERATIONS_MAX)) == PATCH_OPERATIONS_MAX
    with pytest.raises(TooLarge, match="1001 operations"):
        read_operations([one] * (PATCH_OPERATIONS_MAX + 1))


def test_a_malformed_operation_is_named_by_its_index() -> None:
    """Promise T3."""
    good = {"op": "add", "path": "/a", "value": None}

    with pytest.raises(Invalid) as caught:
        read_operations([good, good, {"op": "add", "path": "/a"}])

    assert caught.value.message == "operation 2: add '/a': `value` is missing"
    assert caught.value.details == {"operation": 2}
