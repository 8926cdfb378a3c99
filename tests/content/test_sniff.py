"""Types by content: each cheap test lets through whatever the patterns behind it match."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content import sniff
from contextrelay.content.language import TYPICAL_LINES, typical_prefilter
from contextrelay.content.sniff import sniff_text

LINES = [re.compile(line) for lines in TYPICAL_LINES.values() for line in lines]
# A pattern, and the cheap test without which it is not tried.
TESTED: dict[str, tuple[re.Pattern[str], Callable[[str], object]]] = {
    "times": (sniff.TIMED, sniff.CLOCK.search),
    "test runs": (sniff.RUN_LINE, lambda row: row.startswith(sniff.RUN_STARTS)),
    "links": (sniff.MARKDOWN_WITHIN[0][2], lambda row: sniff.MARKDOWN_WITHIN[0][1] in row),
    "bold": (sniff.MARKDOWN_WITHIN[1][2], lambda row: sniff.MARKDOWN_WITHIN[1][1] in row),
}


def rows(pattern: re.Pattern[str]) -> st.SearchStrategy[str]:
    """Single lines that begin with what a pattern matches."""
    return st.from_regex(pattern).map(lambda text: text.replace("\n", " ")).filter(pattern.match)


@given(st.lists(st.text()), st.sampled_from(LINES).flatmap(rows), st.lists(st.text()))
def test_a_typical_line_of_a_language_is_held_back_by_the_sieve(
    before: list[str], row: str, after: list[str]
) -> None:
    """Promise A1."""
    text = "\n".join([*before, row, *after])

    assert typical_prefilter().search(text.encode()) is not None


@pytest.mark.parametrize("name", TESTED)
@given(data=st.data())
def test_what_a_pattern_matches_passes_its_cheap_test(name: str, data: st.DataObject) -> None:
    """Promise A1."""
    pattern, is_possible = TESTED[name]
    row = data.draw(st.from_regex(pattern).filter(pattern.match))

    assert is_possible(row)


@pytest.mark.parametrize("text", ['"a\nb\nc', '"\n\n1\n2\n', "'a\n\"b\nc,d\ne,f\n"])
def test_a_quote_that_is_never_closed_is_text(text: str) -> None:
    """Promise A1."""
    assert sniff_text(text.encode()) == ("text", "text/plain")
