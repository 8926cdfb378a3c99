"""Grep: every line that matches is found once, whatever the blocks, and nothing blows up."""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.grep.match import LineMatch, LineSearcher, blocks_of, compile_any
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.errors import Invalid
from contextrelay.model.inspect import Found
from tests.content.slicing.sources import REF, Counted

PATTERNS = ("a", "b$", "^a", "ab*", "a[^b]*b", "", "^$", "b|^a", r"\s", r"a\b", "(?i)A")


def hits(body: bytes, pattern: str, chunk_bytes: int = 1 << 18) -> list[LineMatch]:
    searcher = LineSearcher(compile_any([pattern]), lambda: False)
    return list(searcher.hits(blocks_of(_chunks(body, chunk_bytes))))


def counted(body: bytes, pattern: str, reply: int) -> int:
    """How many matches there are, when only the first ones are told."""
    searcher = LineSearcher(compile_any([pattern]), lambda: False)
    searcher.is_enough = not reply
    for number, _ in enumerate(searcher.hits(blocks_of(_chunks(body, 1 << 18))), 1):
        searcher.is_enough = number >= reply
    return searcher.count


def _chunks(body: bytes, chunk_bytes: int) -> Iterator[bytes]:
    return (body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes))


def found(body: bytes, pattern: str, *, tokens_max: int = 2_000, **options: object) -> Found:
    wanted = GrepQuery(pattern=pattern, matches_max=200, tokens_max=tokens_max, **options)  # pyright: ignore[reportArgumentType]
    return grep_bodies([Counted(body).source], wanted, lambda: False, is_one=True)


@given(
    st.binary().map(lambda raw: bytes(b"ab \n"[each % 4] for each in raw)),
    st.sampled_from(PATTERNS),
    st.integers(1, 20),
)
def test_the_lines_that_match_are_those_that_python_finds(
    body: bytes, pattern: str, chunk_bytes: int
) -> None:
    """Promise L3."""
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    expected = [number for number, line in enumerate(lines, 1) if re.search(pattern.encode(), line)]

    assert [hit.line for hit in hits(body, pattern, chunk_bytes)] == expected


@given(
    st.lists(st.sampled_from([b"x" * 300, b"needle", b"\n", b"y" * 900, b"z"]), max_size=60),
    st.integers(0, 3),
)
def test_counting_counts_what_listing_lists(parts: list[bytes], reply: int) -> None:
    """Promise L3: how many more there were."""
    body = b"".join(parts)

    assert counted(body, "needle", reply) == len(hits(body, "needle"))


@given(
    st.lists(st.sampled_from([b"ab", b"a", b"c", b" ", b"\n", b"-" * 3_000]), max_size=80),
    st.lists(st.sampled_from(["ab", "a c", "c", "b-"]), min_size=1, max_size=3),
)
def test_plain_texts_are_found_where_patterns_would_find_them(
    parts: list[bytes], texts: list[str]
) -> None:
    """Promise L3: several at once, in short and in long blocks."""
    body = b"".join(parts)
    plain, pattern = compile_any(texts), compile_any([f"(?:{each})" for each in texts])

    place = 0
    while (found := plain.search(body, place)) is not None:
        assert found.span()[0] == pattern.search(body, place).span()[0]
        place = found.span()[1]
    assert pattern.search(body, place) is None


def test_a_match_never_goes_over_a_line_end() -> None:
    assert hits(b"a\nb\n", "a[^c]b") == []
    assert hits(b"a\nb\n", r"a\s+b") == []


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "(", "a{1001}", "\udc80"])
def test_what_re2_does_not_take_is_refused_with_a_reason(pattern: str) -> None:
    """Promise L3."""
    with pytest.raises(Invalid, match="invalid pattern") as refused:
        compile_any([pattern])

    assert "backreferences" in refused.value.hint


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a?){500}a{500}", "(.*)*x", "(x+x+)+y"])
def test_a_pattern_that_would_take_others_for_ever_takes_no_longer_than_any(pattern: str) -> None:
    """Promise L3: no blow-up."""
    body = b"a" * 20_000 + b"!\n" + b"x" * 20_000

    started = time.monotonic()
    hits(body, pattern)

    assert time.monotonic() - started < 10


def test_plain_text_is_looked_for_as_it_is() -> None:
    assert found(b"a.b\naxb\n", "a.b", is_fixed=True).count == 1
    assert found(b"A.B\n", "a.b", is_fixed=True, ignore_case=True).count == 1


def test_a_line_of_many_megabytes_is_folded_around_each_match() -> None:
    """Promise L3: memory does not grow with a line."""
    body = Counted(b"x" * 25_000_000 + b"needle" + b"y" * 25_000_000 + b"needle\nneedle")
    wanted = GrepQuery(pattern="needle", matches_max=200, tokens_max=2_000)

    tracemalloc.start()
    answer = grep_bodies([body.source], wanted, lambda: False, is_one=True)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [(match.line, match.offset) for match in answer.matches] == [
        (1, 25_000_000),
        (1, 50_000_006),
        (2, 50_000_013),
    ]
    assert all(len(match.text) < 500 for match in answer.matches)
    assert answer.matches[0].text.count("needle") == 1
    assert peak_bytes < 12_000_000


def test_where_a_long_line_is_folded_no_line_begins_or_ends() -> None:
    """Promise L3: RE2's ^ and $ are those of lines."""
    body = b"x" * 3_000_000

    assert [hit.offset > 2_900_000 for hit in hits(body, "(x+)+$")] == [True]
    assert [hit.offset for hit in hits(body, "^x")] == [0]
    assert hits(body + b"y", "x$") == []


def test_lines_around_a_match_are_shown_once() -> None:
    """Promise L3: context lines."""
    body = b"".join(b"%d\n" % number for number in range(1, 30))

    answer = found(body, "^(10|12|20)$", context=2)

    assert answer.text == (
        "8- 8\n9- 9\n10: 10\n11- 11\n12: 12\n13- 13\n14- 14\n--\n"
        "18- 18\n19- 19\n20: 20\n21- 21\n22- 22\n"
    )
    assert answer.matches[0].before == ("8", "9")
    assert answer.matches[2].after == ("21", "22")


def test_what_did_not_fit_is_counted_and_can_be_asked_for() -> None:
    """Promise L3."""
    body = b"".join(b"error number %d of many\n" % number for number in range(1, 1_001))

    answer = found(body, "error", tokens_max=100, ignore_case=True)
    rest = found(body, "error", after_line=answer.next_args["after_line"])

    shown = len(answer.matches)
    assert 0 < shown < 20
    assert answer.spent.tokens <= 100
    assert answer.count == 1_000
    assert answer.left_out == f"{1_000 - shown:,} more matches"
    assert answer.next == (f"relay get a88de970 --grep error --after-line {shown} --ignore-case")
    assert rest.matches[0].line == shown + 1


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=30),
    st.integers(10, 80),
    st.integers(0, 3),
)
def test_an_answer_is_never_over_its_tokens(
    lines: list[str], tokens_max: int, context: int
) -> None:
    answer = found("\n".join(lines).encode(), "", tokens_max=tokens_max, context=context)

    assert answer.spent.tokens <= tokens_max


def test_binary_is_skipped_and_reported() -> None:
    """Promise L3."""
    answer = found(b"PK\x03\x04\0\0needle\0", "needle")

    assert (answer.count, answer.looked_at) == (0, 0)
    assert answer.skipped[0].ref == REF
    assert "binary" in answer.skipped[0].why


def test_other_encodings_are_read_and_reported() -> None:
    wide = found("eins\nzwei süß\n".encode("utf-16"), "süß")
    old = found("eins\nzwei süß drei\n".encode("latin-1"), "zwei")

    assert wide.text == "2: zwei süß\n"
    assert "UTF-16" in wide.notes[0]
    assert old.text == "2: zwei s\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} drei\n"
    assert "invalid UTF-8" in old.notes[0]


def test_when_the_time_is_over_the_answer_says_so() -> None:
    """Promise L3: bounded time."""
    body = Counted(b"needle\n" * 1_000_000)
    looks = count()
    wanted = GrepQuery(pattern="needle", matches_max=5, tokens_max=2_000)

    answer = grep_bodies([body.source], wanted, lambda: next(looks) > 100, is_one=True)

    assert not answer.is_complete
    assert 5 <= answer.count < 1_000_000
    assert answer.left_out.startswith("at least ")


@pytest.mark.parametrize("size", [30_000, 40_000, 200_000])
def test_a_pattern_of_a_whole_long_line_is_found(size: int) -> None:
    """Promise L3: also where the line is longer than what is looked at once."""
    body = b"first\n" + b"x" * size + b"\nx1\n" + b"x" * size + b"y\nxx\n"

    found = hits(body, "^x+$")

    assert [hit.line for hit in found] == [2, 5]
    assert [hit.offset for hit in found] == [6, len(body) - 3]
    assert [hit.line for hit in hits(body, "^x+y$")] == [4]


def test_lines_of_a_large_body_are_numbered_by_what_is_shown() -> None:
    """Promise L3: nothing is counted for what is not shown, and the numbers are right."""
    body = b"".join(b"%d plain line\n" % n for n in range(1, 120_000))
    source = Counted(body).source

    for asked in ("^77777 ", ("77777", "line"), "(?i)^77777 PLAIN"):
        wanted = GrepQuery(pattern=asked, matches_max=5, tokens_max=150)
        assert grep_bodies([source], wanted, lambda: False, is_one=True).matches[0].line == 77_777
    after = GrepQuery(pattern="0 plain", matches_max=2, tokens_max=150, after_line=100_001)
    assert [m.line for m in grep_bodies([source], after, lambda: False, is_one=True).matches] == [
        100_010,
        100_020,
    ]
