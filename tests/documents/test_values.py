"""Documents: strict reading, and equality as JSON has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from contextrelay.documents.values import check_depth, is_equal, read_json
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX
from tests.documents.values import DOCUMENTS, encoded


@given(DOCUMENTS)
def test_what_was_written_is_read(value: object) -> None:
    """Promise T3."""
    assert encoded(read_json(encoded(value), "the patch")) == encoded(value)
    assert encoded(read_json(encoded(value).decode(), "the patch")) == encoded(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not JSON"),
        (b"[1,\n 2,]", "line 2, column 4"),
        (b'{"op": "add", "path": "/a", "op": "remove"}', "duplicate member 'op'"),
        (b"[NaN]", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"[18446744073709551616]", "more than 64 bits"),
        (b"[" + b"9" * 100_000 + b"]", "more than 64 bits"),
        (b'{"\\uDFFF": 1}', "half a character"),
        ("[" * 65 + "]" * 65, "deeper than 64"),
        ("[" * 200_000, "deeper than 64"),
    ],
)
def test_what_readers_could_understand_differently_is_refused(text: bytes | str, says: str) -> None:
    """Promise T3."""
    with pytest.raises(Invalid) as caught:
        read_json(text, "the patch")

    assert caught.value.message.startswith("the patch ")
    assert says in caught.value.message
    assert caught.value.hint


def test_the_largest_numbers_and_the_deepest_nesting_pass() -> None:
    """Promise T3."""
    for text in ("18446744073709551615", "-9223372036854775808", "1e308", '"\\ud834\\udd1e"'):
        read_json(text, "it")

    read_json("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX, "it")


def test_a_text_over_the_limit_is_not_read() -> None:
    """Promise T3."""
    with pytest.raises(TooLarge):
        read_json(b"[1,2,3]", "the patch", bytes_max=6)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (1, 1.0, True),
        (2**53 + 1, float(2**53), False),
        (0, False, False),
        (True, True, True),
        ("1", 1, False),
        ([1, [2]], [1.0, [2]], True),
        ([1], [1, 1], False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": None}, {}, False),
    ],
)
def test_values_are_compared_as_json(one: object, other: object, is_same: bool) -> None:
    """Promise T3."""
    assert is_equal(one, other) is is_same
    assert is_equal(other, one) is is_same


def test_depth_is_checked_without_recursion() -> None:
    """Promise T3."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(Invalid, match="deeper than 64"):
        check_depth(deep, "it")
    check_depth("scalar", "it", depth_max=0)
    with pytest.raises(Invalid):
        check_depth([], "it", depth_max=0)
