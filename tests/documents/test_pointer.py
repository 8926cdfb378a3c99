"""Pointers: RFC 6901, to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.pointer import find, parse, spell
from contextrelay.errors import Invalid, Refused, TooLarge
from contextrelay.limits import JSON_DEPTH_MAX, POINTER_CHARS_MAX

# The document and the table of RFC 6901, section 5.
DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_a_pointer_finds_what_the_rfc_says(text: str, value: object) -> None:
    """Promise T3."""
    assert find(DOCUMENT, parse(text)) == value


@given(st.lists(st.text(max_size=8), max_size=JSON_DEPTH_MAX).map(tuple))
def test_tokens_are_read_back(tokens: tuple[str, ...]) -> None:
    """Promise T3."""
    assert parse(spell(tokens)) == tokens


@pytest.mark.parametrize("text", ["foo", "#/foo", "/~2", "/\ud800"])
def test_a_bad_pointer_is_invalid(text: str) -> None:
    """Promise T3."""
    with pytest.raises(Invalid) as caught:
        parse(text)

    assert caught.value.status == 400
    assert caught.value.hint


def test_a_pointer_is_bounded_in_length_and_depth() -> None:
    """Promise T3."""
    assert len(parse("/a" * JSON_DEPTH_MAX)) == JSON_DEPTH_MAX

    with pytest.raises(Invalid, match="levels deep"):
        parse("/a" * (JSON_DEPTH_MAX + 1))
    with pytest.raises(TooLarge):
        parse("/" + "a" * POINTER_CHARS_MAX)


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (("foo", "7"), "'/foo/7' not found: '/foo' is a list of 2", "its items are 0 to 1"),
        (("none", "of", "it"), "'/none' not found: the document has no such member", "'foo'"),
        (("", "x"), "'//x' not found: '/' is not an object or list", "replace '/'"),
    ],
)
def test_what_is_missing_is_named_with_what_is_there(
    tokens: tuple[str, ...], message: str, hint: str
) -> None:
    """Promise T3."""
    with pytest.raises(Refused) as caught:
        find(DOCUMENT, tokens)

    assert caught.value.message == message
    assert hint in caught.value.hint
