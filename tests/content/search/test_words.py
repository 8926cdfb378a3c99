"""Words: stems, stop words and names, alike for texts and queries."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.search.words import WORD_CHARS_MAX, query_words, stem, words

STEMS = {
    "caresses": "caress",
    "ponies": "poni",
    "agreed": "agre",
    "plastered": "plaster",
    "motoring": "motor",
    "hopping": "hop",
    "filing": "file",
    "happy": "happi",
    "relational": "relat",
    "digitizer": "digit",
    "triplicate": "triplic",
    "goodness": "good",
    "rate": "rate",
    "cease": "ceas",
}


@pytest.mark.parametrize(("word", "expected"), STEMS.items())
def test_stems_are_those_of_the_paper(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_forms_of_a_word_are_one_word_and_stop_words_are_none() -> None:
    """Promise L3."""
    assert words("The retries were retried, retrying a retry") == ["retri"] * 4


def test_names_are_found_whole_and_by_their_parts() -> None:
    found = set(words("parseRef HTTPServer user_id"))

    assert found == {"parseref", "pars", "ref", "httpserver", "http", "server", "user", "id"}


def test_other_writings_are_folded_and_joined_ones_cut_into_pairs() -> None:
    assert words("Größe naïve") == words("GRÖSSE NAIVE")
    assert words("更大的") == ["更大", "大的"]
    assert set(query_words("大的")) <= set(words("更大的"))


def test_a_query_of_stop_words_alone_is_still_a_query() -> None:
    assert query_words("to be or not") == {"to": "to", "be": "be", "or": "or", "not": "not"}
    assert query_words("the limits of retries") == {"limit": "limits", "retri": "retries"}


@given(st.text(max_size=300))
def test_any_text_has_words_and_each_is_bounded(text: str) -> None:
    """Promise L3: a hostile query is text."""
    assert all(0 < len(word) <= WORD_CHARS_MAX for word in words(text))
    assert all(query_words(text))


@pytest.mark.parametrize("text", ["a", "aB", "A", "ABc", "é", "更", "_a", "1a"])
def test_time_grows_with_the_text_whatever_it_is(text: str) -> None:
    def taken_s(times: int) -> float:
        begun = time.process_time()
        words(text * times)
        return time.process_time() - begun

    taken_s(1_000)
    short_s = min(taken_s(20_000) for _ in range(3))
    long_s = min(taken_s(200_000) for _ in range(2))

    assert long_s < 40 * max(short_s, 0.001)
