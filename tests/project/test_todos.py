"""Todos: transitions, dependencies, what is next, reviews and the archive."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.errors import Invalid, NotFound, Refused
from contextrelay.model.project import STATUSES, todo_of
from contextrelay.project import dependencies
from contextrelay.project import todo_list as todos

NOW = "2026-04-20T10:00:00+08:00"
Document = dict[str, Any]


def document(*items: Document, **fields: Any) -> Document:
    made = [
        {"id": f"TODO-{number:03d}", "title": f"number {number}", "status": "pending", **item}
        for number, item in enumerate(items, 1)
    ]
    return {"todos": made, **fields}


def status_of(doc: Document, id: str) -> str:
    return todo_of(todos.found(doc, id)).status


ALLOWED = {
    ("pending", "in_progress"),
    ("in_progress", "completed"),
    ("pending", "blocked"),
    ("in_progress", "blocked"),
    ("blocked", "pending"),
    ("blocked", "in_progress"),
    ("blocked", "cancelled"),
    ("pending", "cancelled"),
    ("in_progress", "cancelled"),
}


@pytest.mark.parametrize("old", STATUSES)
@pytest.mark.parametrize("new", STATUSES)
def test_a_command_allows_these_transitions_and_no_others(old: str, new: str) -> None:
    """Promise J2."""
    doc = document({"status": old})
    if old == new:
        assert todos.moved(doc, "TODO-001", new, NOW) == doc
    elif (old, new) in ALLOWED:
        moved = todos.moved(doc, "TODO-001", new, NOW, "why")
        assert status_of(moved, "TODO-001") == new
        assert todos.found(moved, "1")["updated"] == NOW
    else:
        with pytest.raises(Refused) as caught:
            todos.moved(doc, "TODO-001", new, NOW, "why")
        assert caught.value.hint


def test_blocking_needs_a_reason_and_completing_notes_when() -> None:
    """Promise J2."""
    with pytest.raises(Refused, match="without a reason"):
        todos.moved(document({}), "TODO-001", "blocked", NOW)
    done = todos.moved(document({"status": "in_progress"}), "TODO-001", "completed", NOW)
    assert todos.found(done, "TODO-001")["completed_at"] == NOW


def test_a_status_that_a_hand_invented_can_be_led_back() -> None:
    """Promise J2."""
    doc = document({"status": "almost", "our own": {"x": 1}})
    moved = todos.moved(doc, "TODO-001", "in_progress", NOW)
    assert todos.found(moved, "TODO-001")["our own"] == {"x": 1}


def test_numbers_go_on_behind_the_archive() -> None:
    """Promise J2."""
    doc = {"todos": [{"id": "TODO-007", "title": "x"}, {"id": "note", "title": "y"}]}
    doc["completed"] = [{"id": "TODO-041", "title": "z"}]
    assert todos.next_id(doc) == "TODO-042"
    added, id = todos.added(doc, "new", NOW, priority="high")
    assert id == "TODO-042"
    assert list(added["todos"][-1]) == [
        *("id", "title", "priority", "status", "created", "updated", "notes")
    ]


@pytest.mark.parametrize(
    ("title", "fields", "says"),
    [
        (" ", {}, "title of one line"),
        ("a\nb", {}, "title of one line"),
        ("a", {"priority": "urgent"}, "no priority"),
        ("a", {"due_date": "soon"}, "no date"),
        ("a", {"notes": "x" * 30_000}, "too long"),
    ],
)
def test_what_no_todo_may_say_is_refused(title: str, fields: Document, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        todos.added(document(), title, NOW, **fields)


def test_a_todo_is_named_in_several_ways() -> None:
    doc = document({}, {})
    for name in ("TODO-002", "todo-2", "2", " 002 "):
        assert todos.found(doc, name)["id"] == "TODO-002"
    with pytest.raises(NotFound):
        todos.found(doc, "TODO-003")


def test_todos_that_would_wait_for_one_another_are_refused() -> None:
    """Promise J2."""
    doc = dependencies.linked(document({}, {}, {}), "2", ["1"], NOW)
    doc = dependencies.linked(doc, "3", ["2"], NOW)

    with pytest.raises(Refused, match="TODO-001 waits for TODO-003 waits for TODO-002 waits for"):
        dependencies.linked(doc, "1", ["3"], NOW)
    with pytest.raises(Refused):
        dependencies.linked(doc, "1", ["1"], NOW)
    assert todos.found(doc, "1")["blocking"] == ["TODO-002"]
    assert not dependencies.circles(doc)


def test_a_circle_that_a_hand_wrote_is_found() -> None:
    doc = document({"blocked_by": ["TODO-002"]}, {"blocked_by": ["TODO-001"]}, {})
    assert dependencies.circles(doc) == [["TODO-001", "TODO-002", "TODO-001"]]


def test_the_last_blocker_that_completes_unblocks() -> None:
    """Promise J2."""
    doc = document({"status": "in_progress"}, {"status": "in_progress"}, {})
    doc = dependencies.blocked(doc, "3", NOW, others=["1", "2"])
    assert todos.found(doc, "3")["notes"] == "waits for TODO-001, TODO-002"
    with pytest.raises(Refused, match="waits for TODO-001, TODO-002"):
        dependencies.started(doc, "3", NOW)

    doc, freed = dependencies.completed(doc, "1", NOW)
    assert (freed, status_of(doc, "3")) == ([], "blocked")
    doc, freed = dependencies.completed(doc, "2", NOW)

    assert (freed, status_of(doc, "3")) == (["TODO-003"], "pending")
    assert todos.found(doc, "3")["notes"] == ""


def test_a_link_that_only_one_side_names_counts() -> None:
    doc = document({"blocking": ["TODO-002"]}, {})
    assert dependencies.open_blockers(doc)["TODO-002"] == ["TODO-001"]
    doc = dependencies.unblocked(dependencies.blocked(doc, "2", NOW, "why"), "2", NOW, "pending")
    assert not dependencies.open_blockers(doc)["TODO-002"]


def test_next_is_what_is_ready_by_priority_at_most_five() -> None:
    """Promise J2."""
    doc = document(
        {"priority": "low"},
        {"priority": "high"},
        {"priority": "high", "due_date": "2026-05-01"},
        {"priority": "high", "status": "in_progress"},
        {"priority": "critical", "blocked_by": ["TODO-001"]},
        {"priority": "critical", "status": "completed"},
        {"priority": "medium"},
        {"priority": "nonsense"},
    )

    found = dependencies.next_todos(todos.read_todos(doc))

    assert [todo.number for todo in found] == [4, 3, 2, 7, 8]


def test_both_shapes_of_the_file_are_reviewed_in_their_own_way() -> None:
    """Promise J2."""
    top: Document = {"todos": [], "last_review": "2026-04-01"}
    inside: Document = {"todos": [], "metadata": {"total": 0, "last_review": "2026-04-02"}}

    assert [todos.last_review(each) for each in (top, inside, {})] == [
        "2026-04-01",
        "2026-04-02",
        "",
    ]
    assert todos.reviewed(top, NOW) == {"todos": [], "last_review": NOW}
    assert todos.reviewed(inside, NOW)["metadata"] == {"total": 0, "last_review": NOW}
    assert "last_review" not in todos.reviewed(inside, NOW)


def test_what_was_completed_before_a_time_is_archived() -> None:
    """Promise J2."""
    doc = document(
        {"status": "completed", "completed_at": "2026-04-10T00:00:00Z", "ours": 1},
        {"status": "completed", "completed_at": "2026-04-19T00:00:00Z"},
        {"status": "completed"},
        {"status": "cancelled", "completed_at": "2026-04-10T00:00:00Z"},
        completed=[{"id": "TODO-000", "title": "older"}],
    )

    archived, ids = todos.archived(doc, "2026-04-13T00:00:00Z")

    assert ids == ["TODO-001"]
    assert [item["id"] for item in archived["completed"]] == ["TODO-000", "TODO-001"]
    assert archived["completed"][1]["ours"] == 1
    assert len(archived["todos"]) == 3


@pytest.mark.parametrize("wrong", [[], "x", {"todos": {}}, {"todos": [1]}, None, 3])
def test_a_document_of_another_shape_is_refused(wrong: Any) -> None:
    with pytest.raises(Refused):
        todos.read_todos(wrong)


def test_fields_of_wrong_types_are_read_as_well_as_they_can_be() -> None:
    """Promise J6."""
    todo = todo_of({"id": 7, "title": None, "tags": "one", "blocked_by": [1, "TODO-001"]})
    assert (todo.id, todo.title, todo.tags, todo.blocked_by) == ("7", "", ("one",), ("TODO-001",))
