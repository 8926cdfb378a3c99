"""Diffs of texts: right for any two, small for two alike, and bounded."""

from __future__ import annotations

import time
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.diff import Edit, diff_bodies, find_edits
from contextrelay.model.inspect import Differing
from tests.content.slicing.sources import Counted

LINES = st.lists(st.sampled_from(["a", "b", "c", "only 1", "only 2", "only 3", ""]), max_size=25)


def patched(old: list[str], new: list[str], edits: list[Edit]) -> list[str]:
    made: list[str] = []
    place = 0
    for edit in edits:
        assert edit.old_start >= place
        made += old[place : edit.old_start] + new[edit.new_start : edit.new_stop]
        place = edit.old_stop
    return made + old[place:]


def diff(old: bytes, new: bytes, tokens_max: int = 2_000, context: int = 1) -> Differing:
    return diff_bodies(Counted(old).source, Counted(new).source, context, tokens_max)


@given(LINES, LINES)
def test_the_changes_lead_from_the_old_to_the_new(old: list[str], new: list[str]) -> None:
    """Promise L3: diff of two refs."""
    assert patched(old, new, find_edits(old, new)) == new


@given(LINES, LINES, st.integers(0, 3))
def test_a_unified_diff_says_what_was_removed_and_added(
    old: list[str], new: list[str], context: int
) -> None:
    """Promise L3."""
    answer = diff("\n".join(old).encode(), "\n".join(new).encode(), context=context)
    body = answer.text.splitlines()[2:]

    assert sum(line.startswith("+") for line in body) == answer.added
    assert sum(line.startswith("-") for line in body) == answer.removed


def test_the_hunks_are_those_that_diff_would_print() -> None:
    """Promise L3."""
    old = b"".join(b"%d\n" % number for number in range(1, 11))
    new = old.replace(b"\n5\n", b"\nfive\n").replace(b"10\n", b"10\n11\n")

    answer = diff(old, new)

    assert answer.text == (
        "--- a88de970\n+++ a88de970\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n"
        "@@ -10 +10,2 @@\n 10\n+11\n"
    )


def test_the_middle_of_two_large_bodies_is_all_that_is_compared() -> None:
    """Promise L3: bounded room and time, whatever the size."""
    rows = [b"row %d of a table\n" % number for number in range(2_000_000)]
    old, new = Counted(b"".join(rows)), b"".join([*rows[:1_000_000], b"new\n", *rows[1_000_000:]])
    other = Counted(new)

    tracemalloc.start()
    answer = diff_bodies(old.source, other.source, 0, 2_000)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert answer.text.splitlines()[2:] == ["@@ -1000000,0 +1000001 @@", "+new"]
    assert peak_bytes < 20_000_000


def test_lines_that_are_all_alike_do_not_take_for_ever() -> None:
    started = time.monotonic()
    edits = find_edits(["x"] * 20_000, ["x", "y"] * 10_000)

    assert patched(["x"] * 20_000, ["x", "y"] * 10_000, edits) == ["x", "y"] * 10_000
    assert time.monotonic() - started < 10


def test_a_change_deep_in_a_long_line_is_shown_with_what_is_around_it() -> None:
    old = b"x" * 10_000_000 + b"OLD" + b"y" * 10_000_000
    answer = diff(old, old.replace(b"OLD", b"NEW"))

    removed, added = answer.text.splitlines()[3:5]
    assert "OLD" in removed
    assert "NEW" in added
    assert len(answer.text) < 4_000
    assert "shown from byte" in answer.notes[0]


def test_what_does_not_fit_is_reported() -> None:
    old = b"".join(b"%d\n" % number for number in range(1_000))
    answer = diff(old, old.replace(b"5", b"five"), tokens_max=60)

    assert answer.spent.tokens <= 60
    assert answer.left_out.endswith(" lines of the diff")


def test_a_line_end_alone_is_a_difference() -> None:
    assert diff(b"a\nb\n", b"a\nb").notes == (
        "they differ only in the newline at the end of the last line",
    )


def test_of_binary_bodies_sizes_and_hashes_are_reported() -> None:
    """Promise L3."""
    answer = diff(b"\0\1\2", b"text")

    assert not answer.is_text
    assert "3 bytes" in answer.text


def test_of_json_the_places_that_changed_are_reported() -> None:
    """Promise L3."""
    old, new = Counted(b'{"a":1,"b":[1]}', "json"), Counted(b'{"a":2,"b":[1,2]}', "json")

    answer = diff_bodies(old.source, new.source, 3, 2_000)

    assert [(each.op, each.path) for each in answer.changes] == [("replace", "/a"), ("add", "/b/-")]
