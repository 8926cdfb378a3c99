"""Pointers: RFC 6901, to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.pointer import find, index_of, parse, spell
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


def test_an_escaped_tilde_is_no_escape_of_what_follows() -> None:
    """Promise T3."""
    assert parse("/~01") == ("~1",)
    assert parse("/~10") == ("/0",)


@given(st.lists(st.text(max_size=8), max_size=JSON_DEPTH_MAX).map(tuple))
def test_tokens_are_read_back(tokens: tuple[str, ...]) -> None:
    """Promise T3."""
    assert parse(spell(tokens)) == tokens


@pytest.mark.parametrize("text", ["foo", " /foo", "#/foo", "/~", "/~2", "/a~/b", "/\ud800"])
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
    "token", ["-", "2", "01", "00", "+1", "-1", "1e0", "1.0", " 1", "", "one", "١", "9" * 5_000]
)
def test_what_is_no_index_of_the_list_is_refused(token: str) -> None:
    """Promise T3."""
    with pytest.raises(Refused) as caught:
        find({"list": [0, 1]}, ("list", token))

    assert "a list of 2" in caught.value.message


def test_only_an_insert_may_name_the_end() -> None:
    """Promise T3."""
    assert index_of([0, 1], ["-"], is_insert=True) == 2
    assert index_of([0, 1], ["2"], is_insert=True) == 2

    with pytest.raises(Refused):
        index_of([0, 1], ["3"], is_insert=True)


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


def test_an_error_quotes_little_of_a_large_document() -> None:
    """Promise T3."""
    with pytest.raises(Refused) as caught:
        find({"x" * 500 + str(n): n for n in range(1_000)}, ("\u202e" * 1_000,))

    assert len(str(caught.value)) < 2_000
    assert "\u202e" not in str(caught.value)
