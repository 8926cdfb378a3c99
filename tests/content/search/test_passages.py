"""Passages: together they are the text, each knows where it stands."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.search.passages import (
    PASSAGE_LINES_MAX,
    SEARCHED_WORDS_MAX,
    IndexRequest,
    Passage,
    index_body,
    passages,
)
from contextrelay.documents.pointer import find, parse
from contextrelay.limits import PASSAGE_CHARS
from contextrelay.model.artifact import ArtifactType

KINDS: tuple[ArtifactType, ...] = ("text", "markdown", "code", "json", "log", "diff")


def check(text: str, kind: ArtifactType) -> list[Passage]:
    """Cut a text, and hold every passage against it."""
    found = list(passages(text, kind))
    body, lines = text.encode(), text.split("\n")
    assert "".join(each.text for each in found) == text
    for each in found:
        assert body[each.start_byte : each.stop_byte].decode() == each.text
        assert each.text in "\n".join(lines[each.start_line : each.stop_line]) + "\n"
        assert len(each.text) <= PASSAGE_CHARS
        assert each.stop_line - each.start_line <= PASSAGE_LINES_MAX
    return found


@given(
    st.text(
        alphabet=st.sampled_from('ab #\n\r\x0b\x85 é更{}[],:"\\')
        | st.characters(exclude_categories=("Cs",)),
        max_size=400,
    ),
    st.sampled_from(KINDS),
    st.integers(1, 8),
)
def test_passages_are_the_text_and_know_where_they_stand(
    text: str, kind: ArtifactType, times: int
) -> None:
    """Promise L3: a hit says what to slice next."""
    check(text * times, kind)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 20_000,
        "\n" * 10_000,
        "[" * 20_000,
        '"' + '\\"' * 8_000,
        json.dumps(list(range(5_000))),
        json.dumps({"a": "b " * 8_000}),
        "word " * 5_000,
    ],
    ids=["one word", "no words", "open", "quotes", "numbers", "one value", "one line"],
)
def test_a_hostile_text_is_cut_all_the_same(text: str) -> None:
    """Promise L3."""
    for kind in ("json", "text"):
        check(text, kind)


def test_prose_is_cut_at_headings_and_paragraphs() -> None:
    text = "# One\n\n" + "first " * 60 + "\n\n" + "second " * 60 + "\n## Two\nthird\n"

    starts = [each.text[:8] for each in check(text, "markdown")]

    assert starts == ["# One\n\nf", "second s", "## Two\nt"]


def test_code_is_cut_before_definitions_with_what_decorates_them() -> None:
    text = (
        '"""Job."""\n\nimport os\n\n@cached\ndef one():\n    return 1\n\n\nclass Two:\n    pass\n'
    )

    starts = [each.text.split("\n")[0] for each in check(text, "code")]

    assert starts == ['"""Job."""', "@cached", "class Two:"]


def test_the_entries_of_json_on_one_line_have_pointers() -> None:
    records = [{"id": index, "text": "lorem ipsum " * 30} for index in range(20)]
    document = {"ok": True, "result": {"a/b~c": records}}

    found = check(json.dumps(document), "json")

    pointed = [each for each in found if (each.pointer or "").startswith("/result")]
    assert [each.pointer for each in pointed][:2] == [
        "/result/a~1b~0c/0",
        "/result/a~1b~0c/1",
    ]
    for each in pointed:
        record = find(document, parse(each.pointer or ""))
        assert f'"id": {record["id"]}' in each.text


def test_no_more_passages_are_cut_than_are_indexed() -> None:
    """What indexing takes is bounded by what is searched, not by the text."""
    body = b"a word\n\n" * 500_000
    started = time.process_time()

    indexed = index_body(IndexRequest("text", 3), body)

    assert len(indexed.passages) == 3
    assert indexed.is_cut
    # To cut all of it takes 2 s.
    assert time.process_time() - started < 1


def test_of_too_many_different_words_the_first_are_taken_in() -> None:
    """Promise L3."""
    words = [f"w{number:x}" for number in range(SEARCHED_WORDS_MAX + 5_000)]

    indexed = index_body(IndexRequest("text", 20_000), " ".join(words).encode())

    assert indexed.is_cut
    found = {stem for each in indexed.passages for stem in each.stems}
    assert SEARCHED_WORDS_MAX < len(found) < len(words)
