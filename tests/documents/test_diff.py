"""Differences: right for any two documents, small for two that are alike."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.diff import diff_values
from contextrelay.documents.patch import Operation
from contextrelay.documents.values import is_equal
from contextrelay.limits import POINTER_CHARS_MAX
from tests.documents.values import ALIKE, DOCUMENTS, documents, encoded, patched


def facts(count: int) -> list[dict[str, Any]]:
    return [{"id": f"f{n}", "key": f"key {n}", "value": n} for n in range(count)]


@given(documents(ALIKE), documents(ALIKE))
def test_the_difference_leads_from_one_document_to_the_other(old: Any, new: Any) -> None:
    """Promise T5."""
    assert is_equal(patched(old, diff_values(old, new)), new)


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_is_right_for_wild_documents(old: Any, new: Any) -> None:
    """Promise T5."""
    assert is_equal(patched(old, diff_values(old, new)), new)


@given(st.permutations("abcdefg"), st.permutations("abcdefg"), st.integers(0, 7))
def test_lists_of_items_with_ids_are_led_to_any_order(
    old: list[str], new: list[str], count: int
) -> None:
    """Promise T5."""
    one = [{"id": id, "n": 1} for id in old[:count]]
    other = [{"id": id, "n": int(id > "c")} for id in new]

    assert patched(one, diff_values(one, other)) == other


def test_only_what_changed_is_reported() -> None:
    """Promise T5."""
    old = {"a": {"b": [1, 2, 3], "c": 1}, "x/y": "~"}
    new = {"a": {"b": [1, 2, 3], "d": 2}, "x/y": "!"}

    assert diff_values(old, new) == [
        Operation("remove", "/a/c"),
        Operation("add", "/a/d", 2),
        Operation("replace", "/x~1y", "!"),
    ]


def test_an_item_that_changed_between_others_that_went_is_found_by_its_id() -> None:
    """Promise T5."""
    old = facts(5)
    new = [old[0], {**old[2], "value": "new"}, old[4]]

    assert diff_values(old, new) == [
        Operation("remove", "/3"),
        Operation("remove", "/1"),
        Operation("replace", "/1/value", "new"),
    ]


def test_a_name_too_long_for_a_pointer_is_changed_with_what_holds_it() -> None:
    """Promise T5."""
    name = "/" * POINTER_CHARS_MAX
    old, new = {"a": {name: 1, "b": 1}}, {"a": {name: 2, "b": 1}}

    assert diff_values(old, new) == [Operation("replace", "/a", new["a"])]
    assert patched(old, diff_values(old, new)) == new


def test_a_small_change_of_a_long_list_is_found_quickly() -> None:
    """Promise T5."""
    old = {"facts": facts(100_000)}
    new = {"facts": [*old["facts"][:50_000], {"id": "new"}, *old["facts"][50_001:-1]]}

    started = time.perf_counter()
    found = diff_values(old, new)
    took_s = time.perf_counter() - started

    assert len(found) == 3
    assert encoded(patched(old, found)) == encoded(new)
    # Measured 0.1 s; the bound only separates a line from a square.
    assert took_s < 5
