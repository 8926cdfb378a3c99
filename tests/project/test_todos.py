"""Todos: transitions, dependencies, the next ones, reviews and the archive."""

from __future__ import annotations

from typing import Any

import pytest

from contextrelay.errors import Refused
from contextrelay.model.project import STATUSES, todo_of
from contextrelay.project.todos import TodoList, next_todos

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
