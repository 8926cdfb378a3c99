"""The heartbeat: a scheduled run works on a few todos and records the reasons of failures."""

from __future__ import annotations

import pytest

from contextrelay.errors import Invalid, Unavailable
from contextrelay.project import Project
from contextrelay.project.files import locked
from contextrelay.project.heartbeat import run_heartbeat


def test_at_most_five_todos_are_taken_the_most_urgent_first(project: Project) -> None:
    """Promise J5."""
    for number in range(1, 8):
        project.todos.add(f"number {number}", priority="critical" if number == 7 else "low")
    project.todos.block("1", "by hand")

    done = run_heartbeat(project, "cat > /dev/null; echo did $RELAY_TODO")

    assert [each.id for each in done] == [f"TODO-{number:03d}" for number in (7, 2, 3, 4, 5)]
    todos = project.todos.list()
    assert (todos[5].status, todos[6].notes) == ("pending", "did TODO-007")
    with pytest.raises(Invalid):
        run_heartbeat(project, "true", 6)


def test_a_failed_todo_is_blocked_with_the_reason(project: Project) -> None:
    """Promise J5."""
    for title in ("fine", "wrong", "slow"):
        project.todos.add(title)
    script = 'case "$RELAY_TODO_TITLE" in wrong) echo no server >&2; exit 3;; slow) sleep 30;; esac'

    done = run_heartbeat(project, script, timeout_s=0.5)

    assert [each.status for each in done] == ["completed", "blocked", "blocked"]
    assert done[1].text == "heartbeat failed: exit 3: no server"
    assert done[2].text == "heartbeat failed: exceeded the timeout of 0.5 s"
    assert [todo.notes for todo in project.todos.list()][1:] == [done[1].text, done[2].text]
    assert run_heartbeat(project, "true") == []


def test_one_heartbeat_runs_at_a_time_and_blocks_the_todos_of_one_that_died(
    project: Project,
) -> None:
    """Promise J5."""
    project.todos.add("started by a heartbeat that died")
    assert [each.status for each in run_heartbeat(project)] == ["in_progress"]
    with locked(project.folder, "heartbeat"), pytest.raises(Unavailable):
        run_heartbeat(project, "true")

    (done,) = run_heartbeat(project, "true")

    assert done.status == "blocked"
    assert "died while it worked on this" in done.text
