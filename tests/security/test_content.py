"""Hostile content: some of what the fuzzer makes, and what it found, each within its bounds."""

from __future__ import annotations

import csv
import time
from itertools import chain, pairwise, repeat
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.bounded import parser_pool
from contextrelay.content.diff import find_edits
from contextrelay.content.grep.match import compile_pattern
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.content.outline import outline
from contextrelay.content.search.passages import passages
from contextrelay.content.source import Source
from contextrelay.documents.diff import diff_values
from contextrelay.errors import Invalid, TooLarge, Unavailable
from contextrelay.limits import GREP_COUNTED_MAX, OUTLINE_LINES_MAX
from contextrelay.model.artifact import ArtifactType
from tests.content.slicing.sources import Counted
from tests.fuzz.measured import MIB
from tests.rigs import length, rig
from tests.security.content_fuzz import CPU_S_MAX, MEMORY_BYTES_MAX, Asked, Done, run

LARGE = 8 * MIB
SLOW_MACHINE = 2
"""A processor that is shared does less in its second."""

measurable = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system tells no memory of a process"
)


@rig
@measurable
@pytest.mark.parametrize(
    "asked",
    [
        Asked(cases=length(50, 250, 5_000), seed=2),
        Asked(cases=length(10, 40, 500), seed=3, is_sdk=True),
        Asked(cases=length(1, 5, 50), seed=4, calls=4, size_bytes_min=LARGE, size_bytes_max=LARGE),
        Asked(
            cases=length(1, 2, 20),
            seed=5,
            calls=4,
            size_bytes_min=LARGE,
            size_bytes_max=LARGE,
            is_sdk=True,
        ),
    ],
    ids=["logic", "sdk", "logic, 8 MiB", "sdk, 8 MiB"],
)
def test_hostile_bodies_are_looked_into_within_bounds(asked: Asked) -> None:
    """Promises L1, L2, L3: bounded in time and memory, and an answer or one of our errors."""
    done = list(run(asked))

    assert len(done) >= 3 * asked.cases
    assert [str(each) for each in done if _is_over(each)] == []


def _is_over(done: Done) -> bool:
    is_slow = done.cpu_s > SLOW_MACHINE * CPU_S_MAX
    return is_slow or done.memory_bytes > MEMORY_BYTES_MAX or bool(done.failure)


def outlined(body: bytes, kind: ArtifactType, media_type: str = "", name: str = "") -> str:
    return outline(Source.of(body, media_type, name, len(body)), kind, 200).text


# What the fuzzer, or reading for the same mistake, has found. Each of these took minutes, did not
# end, or took gigabytes; now each is over in a moment, and a test that hangs is one that fails.


def test_assignments_of_nothing_end() -> None:
    """Each was read on as `a = b = c` to the end of the file: 16 KB took 4 s."""
    body = b"import os\n" + b"".join(b"g%05x=\n" % number for number in range(100_000))

    assert "100000" in outlined(body, "code", "text/x-python", "a.py").replace(",", "")


def test_a_chain_of_assignments_ends_with_its_statement() -> None:
    text = outlined(b"A = B = 1\nC =\nD = 2\n", "code", "text/x-python", "a.py")

    assert all(f"{name}:{line}" in text for name, line in (("A", 1), ("B", 1), ("C", 2), ("D", 3)))


def test_headings_of_digits_end() -> None:
    assert outlined(b"\n\n1." + b"1" * 90 + b"x\n\n", "text")


@pytest.mark.parametrize(
    "line", [b"# " + b"#" * 1_990 + b"x", b"# " + b"](" * 990, b"# " + b" " * 1_990]
)
def test_headings_that_do_not_close_end(line: bytes) -> None:
    assert outlined((line + b"\n") * 2_000, "markdown")


def test_a_title_is_what_stands_between_the_signs_of_a_heading() -> None:
    text = outlined(b"# One two ##\n## Three #four#\n### #\n", "markdown")

    assert "# One two:1" in text
    assert "Three #four" in text


def test_attributes_without_an_end_end() -> None:
    page = (b"<a " + b"a" * 1_900 + b">") * 2_000
    document = (b"<" + b"a" * 1_900 + b"\n") * 2_000

    assert outlined(page, "html")
    assert outlined(b"<?xml version='1.0'?><r>" + document, "text", "application/xml")


def test_elements_of_very_many_names_are_counted() -> None:
    names = b"".join(b"<a%d>" % number for number in range(50_000))

    assert "50000 elements of more than 4000 kinds" in outlined(names, "text", "application/xml")


def test_lines_of_a_log_that_are_all_unlike_are_counted() -> None:
    letters = str.maketrans("0123456789", "ghijklmnop")
    lines = [f"{number:x}".translate(letters) + "-" * 9 for number in range(150_000)]
    lines[140_000] = "an Error that is the only one"

    text = outlined("\n".join(lines).encode(), "log")

    assert "lines were not looked at" in text
    assert "140001: an Error that is the only one" in text


def test_a_table_of_one_wide_row_is_outlined_by_its_first_columns() -> None:
    text = outlined(b"\t" * 4_000_000 + b"\n", "csv", "text/tab-separated-values")

    assert "4000001 columns" in text


def test_cells_of_a_table_that_are_too_many_are_not_read() -> None:
    text = outlined(b"ab,cd,ef,gh,ij\n" * 450_000, "csv", "text/csv")

    assert "lines were not read" in text


def test_a_notebook_whose_texts_are_none_is_outlined() -> None:
    deep = b"[" * 500 + b"]" * 500
    cell = (
        b'{"cell_type":'
        + deep
        + b',"source":{"a":1},"outputs":[{"output_type":"error","ename":1}]}'
    )

    assert "(list)" in outlined(b'{"nbformat":4,"cells":[' + cell + b"]}", "json", name="a.ipynb")


def test_lines_that_all_differ_are_compared_in_one_go() -> None:
    old = [f"{number}" for number in range(200_000)]
    new = list(chain.from_iterable(zip(old, repeat("x"), strict=False)))

    assert len(find_edits(old, new)) == 200_000


def test_a_diff_counts_lines_that_it_does_not_show() -> None:
    from contextrelay.content.diff import diff_bodies

    found = diff_bodies(Counted(b"a\n" * 300_000).source, Counted(b"b\n" * 200_000).source, 3, 100)

    shown = found.text.count("\n")
    assert (found.added, found.removed) == (200_000, 300_000)
    assert found.left_out == f"{500_003 - shown:,} lines of the diff"


def test_a_long_key_is_not_repeated_for_every_difference_or_passage() -> None:
    key = "k" * 200_000
    old = {key: {f"{number}": 0 for number in range(20_000)}}
    new = {key: {f"{number}": 1 for number in range(20_000)}}
    line = '{"' + key + '":[' + "0," * 500_000 + "0]}"

    assert [each.path for each in diff_values(old, new)] == [""]
    assert all(each.pointer is None for each in passages(line, "json"))


def test_what_is_nested_deeper_than_a_patch_can_name_is_replaced_as_a_whole() -> None:
    def nested(value: object) -> object:
        for _ in range(90):
            value = [value, 0]
        return value

    (operation,) = diff_values(nested(1), nested(2))

    assert operation.op == "replace"
    assert operation.path == "/0" * 64


@pytest.mark.parametrize("pattern", [".*", "a(.*b)?", "(.*)(.*)x?", ""])
def test_a_long_line_is_not_looked_at_again_for_every_match(pattern: str) -> None:
    wanted = GrepQuery(pattern=pattern, matches_max=10, tokens_max=500)

    found = grep_bodies([Counted(b"a" * (8 * MIB)).source], wanted, lambda: False, is_one=True)

    assert found.is_complete
    assert 0 < found.count < 100_000


def test_matches_that_are_too_many_to_count_are_reported_as_at_least() -> None:
    wanted = GrepQuery(pattern="a", matches_max=10, tokens_max=500)
    lines = Counted(b"a\n" * 2 * GREP_COUNTED_MAX)

    found = grep_bodies([lines.source], wanted, lambda: False, is_one=True)

    assert GREP_COUNTED_MAX <= found.count < GREP_COUNTED_MAX + 100
    assert not found.is_complete
    assert found.left_out.startswith("at least")
    assert "stopped at 250,000 matches: the search is incomplete" in found.notes


def test_headings_of_too_many_lines_are_refused() -> None:
    body = Counted(b"a\n" * (OUTLINE_LINES_MAX + 2), "markdown")

    with pytest.raises(TooLarge, match="too many lines"):
        body.take("heading", "a")


def test_a_body_in_utf_16_is_read_once_for_all_its_places() -> None:
    text = "".join(f"line {number}\n" for number in range(200_000))
    body = Counted(text.encode("utf-16"))

    assert body.take("lines", "199999:200000").text == "line 199998\n"
    assert body.read_bytes < 3 * len(body.body)


ROWS_BYTES = MIB // 2


@pytest.mark.parametrize(
    "row",
    [b"\n", b"1,2\n", b'"",\n', b'"\n', b'"a","b"\n', b"\n" * 9_999 + b"1,2\n", b' "x\n', b'a"b\n'],
)
def test_rows_that_are_not_asked_for_are_skipped_as_csv_reads_them(row: bytes) -> None:
    body = b"a,b\n" + row * (ROWS_BYTES // len(row)) + b'"end\n",1\n2,3\n'
    rows = [
        each for each in csv.reader(body.decode().splitlines(keepends=True)[1:]) if "".join(each)
    ]
    place = rows.index(["end\n", "1"])
    # A line of blanks alone is no row where rows are skipped; `"",` is one.
    place += (ROWS_BYTES // len(row)) * (row == b'"",\n')

    taken = Counted(body, "csv", "text/csv").take("rows", f"{place}:{place + 2}")

    assert taken.text == 'a,b\n"end\n",1\n2,3\n'


# Patterns of a grep: RE2 takes each step of a pattern's program for each byte where it must.


@pytest.mark.parametrize(
    "pattern", [".{0,1000}" * 12 + "z", "(?:a?){1000}" * 80, r"\pL{100}", r"[\pL\pN]{9}" * 90]
)
def test_a_pattern_of_too_many_steps_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="too large"):
        compile_pattern(pattern)


@rig
@pytest.mark.parametrize("is_count", [False, True])
@pytest.mark.parametrize(
    "pattern", [".{0,1000}z", "(?:a?){1000}(?:a?){1000}(?:a?){700}z", "a(?:.?){1000}z|a"]
)
def test_a_grep_looks_at_the_clock_often_enough(pattern: str, is_count: bool) -> None:
    """Up to 5 s of a processor went by between two looks, and so past any time limit."""
    looks = [time.process_time()]

    def is_over() -> bool:
        looks.append(time.process_time())
        return looks[-1] > looks[0] + length(thin=0.5, long=2, full=2)

    wanted = GrepQuery(pattern=pattern, is_count=is_count, matches_max=100, tokens_max=100)
    grep_bodies([Counted(b"a" * 500_000, "text").source], wanted, is_over, is_one=True)

    between = [later - earlier for earlier, later in pairwise(looks)]
    assert max(between) < SLOW_MACHINE * 0.8


def test_a_small_diff_that_takes_long_is_made_by_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,666 bytes of a few lines, again and again, took 1 s of the process that answers."""
    monkeypatch.setattr(parser_pool, "PARSER_WAIT_S_MAX", 0.01)
    lines = [f"{number % 7}" for number in range(250)]
    with Relay("memory:") as relay, parser_pool.held():
        few, fewer = (relay.push("\n".join(each)).ref for each in (lines[:60], lines[1:60]))
        many, turned = (relay.push("\n".join(each)).ref for each in (lines, lines[::-1]))

        assert relay.diff(few, fewer).removed == 1
        with pytest.raises(Unavailable, match="busy"):
            relay.diff(many, turned)
