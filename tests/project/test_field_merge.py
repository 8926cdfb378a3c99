"""Merging by field: two writers began alike, and neither loses what it wrote."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contextrelay.model.project import Clash
from contextrelay.project.conflict_merge import rejoined
from contextrelay.project.field_merge import merged
from contextrelay.project.files.json_text import read
from contextrelay.project.progress import Progress, progressed, progressed_since

NOW = "2026-04-20T10:00:00+08:00"
BASE: dict[str, Any] = {
    "phase": "development",
    "current_task": "Login",
    "progress": {"completed": ["a"], "in_progress": "b", "blocked": [], "next_steps": ["c", "d"]},
    "last_update": "2026-04-19T10:00:00+08:00",
    "session_id": "one",
    "notes": "",
}


def test_different_fields_and_additions_to_one_list_are_both_kept() -> None:
    """Promise J5."""
    ours = {**BASE, "phase": "testing", "progress": {**BASE["progress"], "completed": ["a", "b"]}}
    theirs = {**BASE, "notes": "by hand", "progress": {**BASE["progress"], "completed": ["a", "x"]}}
    theirs["new"] = [1]

    value, clashes = merged(BASE, ours, theirs)

    assert not clashes
    assert (value["phase"], value["notes"], value["new"]) == ("testing", "by hand", [1])
    assert value["progress"]["completed"] == ["a", "x", "b"]


def test_one_field_that_both_changed_keeps_what_is_on_disk_and_returns_the_other() -> None:
    """Promise J5."""
    value, clashes = merged(BASE, {**BASE, "notes": "mine"}, {**BASE, "notes": "theirs"})

    assert value["notes"] == "theirs"
    assert clashes == [Clash("notes", "theirs", "mine")]


def test_todos_are_merged_one_by_one_and_field_by_field() -> None:
    """Promise J5."""
    base = {"todos": [{"id": "1", "s": "pending", "n": ""}, {"id": "2"}, {"id": "3"}]}
    ours = {"todos": [{"id": "1", "s": "done", "n": ""}, {"id": "2"}, {"id": "3"}, {"id": "4"}]}
    theirs = {"todos": [{"id": "1", "s": "pending", "n": "hm"}, {"id": "3"}, {"id": "5"}]}

    value, clashes = merged(base, ours, theirs)

    assert not clashes
    assert value["todos"] == [
        {"id": "1", "s": "done", "n": "hm"},
        {"id": "3"},
        {"id": "5"},
        {"id": "4"},
    ]


FLAT = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3) | st.lists(st.integers(0, 3)))


@given(FLAT, FLAT, FLAT)
def test_a_value_is_lost_only_where_both_changed_it(base: Any, ours: Any, theirs: Any) -> None:
    """Promise J5."""
    value, clashes = merged(base, ours, theirs)

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
    assert merged(base, ours, ours)[0] == ours
    assert merged(base, base, theirs)[0] == theirs


def test_a_finish_after_another_wrote_keeps_both_sides() -> None:
    """Promise J5."""
    disk = {**BASE, "current_task": "Logout", "session_id": "two", "notes": "by hand"}
    change = Progress(current_task="Register", completed=("c",), session_id="three")

    state, clashes = progressed_since(BASE, disk, change, NOW)

    assert clashes == [Clash("current_task", "Logout", "Register")]
    assert (state["current_task"], state["notes"]) == ("Logout", "by hand")
    assert state["conflicts"] == [
        {"field": "current_task", "kept": "Logout", "other": "Register", "at": NOW}
    ]
    assert (state["last_update"], state["session_id"]) == (NOW, "three")
    assert state["progress"]["completed"] == ["a", "c"]
    assert state["progress"]["next_steps"] == ["d"]

    again, _ = progressed_since(BASE, state, change, NOW)
    assert len(again["conflicts"]) == 1
    settled = progressed(state, Progress(current_task="Register"), NOW)
    assert "conflicts" not in settled


def test_what_is_completed_leaves_the_other_lists() -> None:
    state = progressed(BASE, Progress(completed=("b", "c", "c")), NOW)

    assert state["progress"] == {
        "completed": ["a", "b", "c"],
        "in_progress": "",
        "blocked": [],
        "next_steps": ["d"],
    }
    assert list(state) == list(BASE)


def test_a_file_saved_between_a_journal_and_its_end_is_joined() -> None:
    """Promise J5."""
    before = '{"todos": [{"id": "TODO-001", "status": "pending"}]}'
    after = '{"todos": [{"id": "TODO-001", "status": "pending"}, {"id": "TODO-002"}]}'
    disk = '{ "todos": [{"id": "TODO-001", "status": "blocked"}] }'

    text = rejoined("todos.json", before, after, disk, NOW)

    assert text == '{ "todos": [{"id": "TODO-001", "status": "blocked"}, {"id": "TODO-002"}] }'
    assert rejoined("todos.json", before, after, after, NOW) == after


def test_a_decision_whose_number_was_taken_gets_the_next_one() -> None:
    """Promise J3, promise J5."""
    head = "# Records\n"
    ours = f"{head}\n## ADR-001: Mine\n- Status: Accepted\n"
    disk = f"{head}\n## ADR-001: By hand\n"

    text = rejoined("decisions.md", head, ours, disk, NOW)

    assert text == f"{disk}\n## ADR-002: Mine\n- Status: Accepted\n"
    assert rejoined("decisions.md", head, ours, text, NOW) == text


def test_a_clash_in_state_is_kept_in_state() -> None:
    text = rejoined("state.json", '{"a": 1}', '{"a": 2}', '{"a": 3}', NOW)
    assert read(text, "state.json")["a"] == 3
    assert read(text, "state.json")["conflicts"][0]["other"] == 2
