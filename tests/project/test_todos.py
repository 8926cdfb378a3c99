"""Todos: transitions, dependencies, the next ones, reviews and the archive."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.errors import Refused
from contextrelay.model.project import STATUSES, todo_of
from contextrelay.project.changes import NewTodo
from contextrelay.project.todos import TodoList, cycles, next_todos, open_blockers

NOW = "2026-04-20T10:00:00+08:00"
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


def todo_list(*items: dict[str, Any], **fields: Any) -> TodoList:
    made = [
        {"id": f"TODO-{number:03d}", "title": f"number {number}", "status": "pending", **item}
        for number, item in enumerate(items, 1)
    ]
    return TodoList({"todos": made, **fields}, NOW)


def status_of(todos: TodoList, id: str) -> str:
    return todo_of(todos.find(id)).status


@pytest.mark.parametrize("old", STATUSES)
def test_a_command_allows_these_transitions_and_no_others(old: str) -> None:
    """Promise J2."""
    for new in STATUSES:
        todos = todo_list({"status": old})
        if (old, new) in ALLOWED or old == new:
            todos.set_status("TODO-001", new, "why")
            assert status_of(todos, "TODO-001") == new
            assert todos.find("1").get("updated") == (None if old == new else NOW)
        else:
            with pytest.raises(Refused) as caught:
                todos.set_status("TODO-001", new, "why")
            assert caught.value.hint


def test_blocking_needs_a_reason_and_completing_records_the_time() -> None:
    """Promise J2."""
    with pytest.raises(Refused, match="without a reason"):
        todo_list({}).set_status("TODO-001", "blocked")
    done = todo_list({"status": "in_progress"})
    done.complete("TODO-001")
    assert done.find("TODO-001")["completed_at"] == NOW


def test_an_unknown_status_can_be_corrected_by_a_command() -> None:
    """Promise J2. Fields of the user stay."""
    todos = todo_list({"status": "almost", "our own": {"x": 1}})
    todos.start("TODO-001")
    assert status_of(todos, "1") == "in_progress"
    assert todos.find("1")["our own"] == {"x": 1}


def test_a_new_todo_has_the_next_number_also_after_an_archive() -> None:
    """Promise J2."""
    items = [{"id": "TODO-007", "title": "x"}, {"id": "note", "title": "y"}]
    todos = TodoList({"todos": items, "completed": [{"id": "TODO-041", "title": "z"}]}, NOW)

    assert todos.add(NewTodo("new", priority="high")) == "TODO-042"

    names = ("id", "title", "priority", "status", "created", "updated", "notes")
    assert tuple(todos.find("42")) == names


def test_a_cycle_of_todos_is_refused() -> None:
    """Promise J2."""
    todos = todo_list({}, {}, {})
    todos.block("2", others=["1"])
    todos.block("3", others=["2"])

    with pytest.raises(Refused, match="TODO-001 waits for TODO-003 waits for TODO-002 waits for"):
        todos.block("1", others=["3"])
    with pytest.raises(Refused):
        todos.block("1", others=["1"])
    assert todos.find("1")["blocking"] == ["TODO-002"]
    assert not cycles(todos.read())
    by_hand = todo_list({"blocked_by": ["TODO-002"]}, {"blocked_by": ["TODO-001"]}, {})
    assert cycles(by_hand.read()) == [["TODO-001", "TODO-002", "TODO-001"]]


def test_completing_the_last_blocker_unblocks() -> None:
    """Promise J2."""
    todos = todo_list({"status": "in_progress"}, {"status": "in_progress"}, {})
    todos.block("3", others=["1", "2"])
    assert todos.find("3")["notes"] == "waits for TODO-001, TODO-002"
    with pytest.raises(Refused, match="waits for TODO-001, TODO-002"):
        todos.start("3")

    assert (todos.complete("1"), status_of(todos, "3")) == ([], "blocked")
    assert (todos.complete("2"), status_of(todos, "3")) == (["TODO-003"], "pending")
    assert todos.find("3")["notes"] == ""


def test_a_dependency_that_only_one_side_names_counts() -> None:
    todos = todo_list({"blocking": ["TODO-002"]}, {})
    assert open_blockers(todos.read())["TODO-002"] == ["TODO-001"]
    todos.block("2", "why")
    todos.unblock("2")
    assert not open_blockers(todos.read())["TODO-002"]


def test_next_todos_are_ready_and_ordered_by_priority() -> None:
    """Promise J2."""
    todos = todo_list(
        {"priority": "low"},
        {"priority": "high"},
        {"priority": "high", "due_date": "2026-05-01"},
        {"priority": "high", "status": "in_progress"},
        {"priority": "critical", "blocked_by": ["TODO-001"]},
        {"priority": "critical", "status": "completed"},
        {"priority": "medium"},
        {"priority": "nonsense"},
    )

    assert [todo.number for todo in next_todos(todos.read())] == [4, 3, 2, 7, 8]
