"""JSON documents keep their style; merges keep both changes; invalid JSON is named by its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.documents.values import is_equal
from contextrelay.errors import Broken, Conflict
from contextrelay.model.project import Clash
from contextrelay.project.confined import decode
from contextrelay.project.documents import (
    Document,
    dump_document,
    load_document,
    merge,
    merge_texts,
)

NOW = "2026-04-20T10:00:00+08:00"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5)


@given(
    DOCUMENTS,
    DOCUMENTS,
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["", "\n", "\n\n"]),
    st.booleans(),
)
def test_a_change_keeps_the_style_of_the_file(
    old: Document, new: Document, indent: Any, newline: str, mark: str, end: str, is_ascii: bool
) -> None:
    """Promise J6."""

    def spell(value: Document) -> str:
        text = json.dumps(value, indent=indent, ensure_ascii=is_ascii) + end
        return mark + text.replace("\n", newline)

    text = spell(old)

    assert is_equal(load_document(text, "x.json"), old)
    assert dump_document(old, text) == text
    changed = dump_document(new, text)
    assert is_equal(load_document(changed, "x.json"), new)
    assert changed.startswith("\ufeff") == bool(mark)
    if indent and not is_ascii:
        assert changed == spell(new)


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "',' delimiter"),
        ('{"a": 1} // note', 1, 10, "extra data"),
    ],
)
def test_invalid_json_is_named_by_line_and_column(
    text: str, line: int, column: int, problem: str
) -> None:
    """Promise J6."""
    with pytest.raises(Broken) as caught:
        load_document(decode(text.encode(), "todos.json"), "todos.json")

    assert problem in caught.value.message
    assert caught.value.details == {"file": "todos.json", "line": line, "column": column}
    assert caught.value.hint


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}'])
def test_json_that_readers_understand_differently_is_refused(text: str) -> None:
    """Promise J6. A second member of one name would be lost when the file is written."""
    with pytest.raises(Broken, match=r"todos\.json"):
        load_document(text, "todos.json")


FLAT = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3) | st.lists(st.integers(0, 3)))


@given(FLAT, FLAT, FLAT)
def test_a_value_is_lost_only_where_both_changed_it(base: Any, ours: Any, theirs: Any) -> None:
    """Promise J5."""
    value, clashes = merge(base, ours, theirs)

    clashed = {clash.field for clash in clashes}
    for name in {*base, *ours, *theirs}:
        is_ours = ours.get(name) != base.get(name)
        is_theirs = theirs.get(name) != base.get(name)
        if is_ours and not is_theirs:
            assert value.get(name) == ours.get(name)
        elif is_theirs and not is_ours:
            assert value.get(name) == theirs.get(name)
        elif name in clashed:
            assert value[name] == theirs[name]
    assert merge(base, ours, ours)[0] == ours


def test_a_conflict_keeps_the_value_on_disk_and_records_the_other() -> None:
    """Promise J5."""
    value, clashes = merge({"notes": ""}, {"notes": "mine"}, {"notes": "theirs"})
    assert (value, clashes) == ({"notes": "theirs"}, [Clash("notes", "theirs", "mine")])

    text = merge_texts("state.json", '{"a": 1}', '{"a": 2}', '{"a": 3}', NOW)

    state = load_document(text, "state.json")
    assert state["a"] == 3
    assert state["conflicts"] == [{"field": "a", "kept": 3, "other": 2, "at": NOW}]
    with pytest.raises(Conflict):
        merge_texts("PROJECT.md", "# a", "# b", "# c", NOW)


def test_a_decision_whose_number_is_taken_gets_the_next_one() -> None:
    """Promise J3, promise J5."""
    head = "# Records\n"
    ours = f"{head}\n## ADR-001: Mine\n- Status: Accepted\n"
    disk = f"{head}\n## ADR-001: By hand\n"

    text = merge_texts("decisions.md", head, ours, disk, NOW)

    assert text == f"{disk}\n## ADR-002: Mine\n- Status: Accepted\n"
    assert merge_texts("decisions.md", head, ours, text, NOW) == text
