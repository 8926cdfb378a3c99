"""Bounds: names, labels and JSON values from outside, refused with a next step."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.bounds import check_json, check_label, check_name
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, LABEL_CHARS_MAX, METADATA_BYTES_MAX


def checked(value: object, bytes_max: int = METADATA_BYTES_MAX) -> Any:
    return json.loads(check_json(value, "metadata", bytes_max))


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_a_json_value_is_read_back_exactly(value: object) -> None:
    """Promise A1."""
    assert checked(value) == value


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        {1: "key"},
        [float("nan")],
        ["\ud800"],
        [2**64],
        [10**5_000],
        [{1, 2}],
        [Colour.RED],
        {10**5_000: "key"},
    ],
)
def test_what_is_not_json_is_refused_with_a_next_step(value: object) -> None:
    """Promise A1."""
    with pytest.raises(Invalid) as caught:
        checked(value)

    assert caught.value.message.startswith("metadata ")
    assert caught.value.hint


def test_nesting_is_allowed_up_to_the_limit() -> None:
    """Promise A1."""
    assert checked(nested(JSON_DEPTH_MAX)) == nested(JSON_DEPTH_MAX)

    with pytest.raises(Invalid, match="deeper than 64"):
        checked(nested(JSON_DEPTH_MAX + 1))


def test_a_list_a_hundred_thousand_deep_is_invalid_and_no_crash() -> None:
    """Promise A1."""
    value = nested(100_000)

    with pytest.raises(Invalid, match="deeper than 64"):
        checked(value)

    # Freed from the outside in, because freeing it at once would recurse as deep.
    while value:
        value = value[0]


def test_a_cycle_is_invalid() -> None:
    """Promise A1."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle

    with pytest.raises(Invalid, match="deeper than 64"):
        checked(cycle)


def test_a_small_value_that_unfolds_to_an_enormous_one_is_too_large_at_once() -> None:
    """Promise A1."""
    value: list[Any] = ["x"]
    for _ in range(50):
        value = [value] * 10

    with pytest.raises(TooLarge):
        checked(value)


def test_the_limit_is_exact_and_named() -> None:
    """Promise A1."""
    assert checked("x" * 98, bytes_max=100) == "x" * 98

    with pytest.raises(TooLarge, match="limit is 100 bytes"):
        checked("x" * 99, bytes_max=100)
    with pytest.raises(TooLarge, match="limit is 100 bytes"):
        checked("é" * 50, bytes_max=100)


@pytest.mark.parametrize("name", ["a", "a..b"])
def test_a_good_name_passes_unchanged(name: str) -> None:
    """Promise A1."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "  ", ".", "..", "a/b", "/etc/passwd", "..\\x", "a\0b", "a\nb", "a\x1b[0m"),
        *("a\x9bb", "caf\udce9.txt", "gpj\u202eexe", "a\u2028b"),
    ],
    ids=ascii,
)
def test_a_name_that_cannot_be_a_file_is_refused_with_a_next_step(name: str) -> None:
    """Promise A1."""
    with pytest.raises(Invalid) as caught:
        check_name(name)

    assert caught.value.hint
    assert str(caught.value).isprintable()


def test_a_label_may_hold_slashes_and_has_its_own_limit() -> None:
    """Promise A1."""
    assert check_label("team/agent-1", "created_by") == "team/agent-1"
    assert check_label("x" * 300, "channel", 512) == "x" * 300

    with pytest.raises(TooLarge, match="created_by has 129"):
        check_label("x" * (LABEL_CHARS_MAX + 1), "created_by")
    with pytest.raises(Invalid, match=r"channel .* U\+0007"):
        check_label("bell\x07", "channel")
