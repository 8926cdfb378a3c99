"""Types by content: each cheap test lets through whatever the patterns behind it match."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content import sniff
from contextrelay.content.language import TYPICAL_LINES, possible_languages
from contextrelay.content.sniff import sniff_text

LINES = [(name, re.compile(line)) for name, lines in TYPICAL_LINES.items() for line in lines]
# A pattern, and the cheap test without which it is not tried.
TESTED: dict[str, tuple[re.Pattern[str], Callable[[str], object]]] = {
    "times": (sniff.TIMED, lambda row: "time" in sniff.possible_signs(row)),
    "test runs": (sniff.RUN_LINE, lambda row: "test run" in sniff.possible_signs(row)),
    "starts of test runs": (sniff.RUN_LINE, lambda row: row.startswith(sniff.RUN_STARTS)),
    "log lines": (sniff.LOG_LINE, lambda row: "log" in sniff.possible_signs(row)),
    "Markdown": (sniff.MARKDOWN_START, lambda row: "markdown" in sniff.possible_signs(row)),
    "links": (sniff.MARKDOWN_WITHIN[0][2], lambda row: sniff.MARKDOWN_WITHIN[0][1] in row),
    "bold": (sniff.MARKDOWN_WITHIN[1][2], lambda row: sniff.MARKDOWN_WITHIN[1][1] in row),
}


def rows(pattern: re.Pattern[str]) -> st.SearchStrategy[str]:
    """Single lines that begin with what a pattern matches."""
    return st.from_regex(pattern).map(lambda text: text.replace("\n", " ")).filter(pattern.match)


@given(st.lists(st.text()), st.sampled_from(LINES), st.data(), st.lists(st.text()))
def test_a_language_is_possible_where_one_of_its_typical_lines_is(
    before: list[str], line: tuple[str, re.Pattern[str]], data: st.DataObject, after: list[str]
) -> None:
    """Promise A1."""
    media_type, pattern = line
    text = "\n".join([*before, data.draw(rows(pattern)), *after])

    assert media_type in possible_languages(text)


@pytest.mark.parametrize("name", TESTED)
@given(data=st.data())
def test_what_a_pattern_matches_passes_its_cheap_test(name: str, data: st.DataObject) -> None:
    """Promise A1."""
    pattern, is_possible = TESTED[name]
    row = data.draw(st.from_regex(pattern).filter(pattern.match))

    assert is_possible(row)


def test_a_separator_of_python_is_a_space_for_the_cheap_test_too() -> None:
    """Promise A1: within a class of characters, where RE2 knows fewer of them."""
    assert TESTED["log lines"][1]("TRACE\x1f0")


@pytest.mark.parametrize("text", ['"a\nb\nc', '"\n\n1\n2\n', "'a\n\"b\nc,d\ne,f\n"])
def test_a_quote_that_is_never_closed_is_text(text: str) -> None:
    """Promise A1."""
    assert sniff_text(text.encode()) == ("text", "text/plain")
