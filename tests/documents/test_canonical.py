"""Canonical JSON: one spelling for every value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode, encode

from contextrelay.documents.canonical import canonical
from contextrelay.errors import Invalid

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("number", "spelled"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (1e20, "100000000000000000000"),
        (1.5e300, "1.5e+300"),
        (0.0000001, "1e-7"),
        (333333333.33333329, "333333333.3333333"),
        (True, "true"),
    ],
)
def test_numbers_are_spelled_as_ecmascript_does(number: float, spelled: str) -> None:
    assert canonical(number).decode() == spelled


def test_keys_stand_in_the_order_of_their_utf_16_units() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\xf6"]

    spelled = canonical(dict.fromkeys(keys, 0))

    assert list(decode(spelled)) == ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]


@given(VALUES)
def test_what_is_stored_and_read_again_is_spelled_the_same(value: object) -> None:
    """Promise E4: a store that keeps metadata as they are does not change their hash."""
    assert canonical(decode(encode(value))) == canonical(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_spelling_of_a_number_leads_back_to_it(number: float) -> None:
    assert float(canonical(number)) == number


def test_what_is_nested_without_end_is_refused() -> None:
    value: list[object] = []
    for _ in range(5_000):
        value = [value]

    with pytest.raises(Invalid):
        canonical(value)
