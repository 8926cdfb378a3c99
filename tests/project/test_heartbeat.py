"""The heartbeat: a scheduled run does a few todos, and leaves what failed with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextrelay import Unavailable
from contextrelay.errors import Invalid
from contextrelay.model.project import TODOS
from contextrelay.project import Project
from contextrelay.project.files.lock import alone
from contextrelay.project.heartbeat import beat
from tests.cli.shell import Shell


def statuses(project: Project) -> dict[str, str]:
    return {todo.id: todo.status for todo in project.todos.list()}


def test_at_most_five_are_taken_the_most_urgent_first(project: Project) -> None:
    """Promise J5."""
    for number in range(1, 8):
        project.todos.add(f"number {number}", priority="critical" if number == 7 else "low")
    project.todos.block("1", "by hand")

    done = beat(project, "cat > /dev/null; echo did $RELAY_TODO")

    assert [each.id for each in done] == [
        "TODO-007",
        "TODO-002",
        "TODO-003",
        "TODO-004",
        "TODO-005",
    ]
    assert statuses(project)["TODO-006"] == "pending"
    assert project.todos.list()[6].notes == "did TODO-007"
    with pytest.raises(Invalid):
        beat(project, "true", 6)


def test_what_failed_is_left_with_the_reason(project: Project) -> None:
    """Promise J5."""
    for title in ("fine", "wrong", "slow"):
        project.todos.add(title)
    script = 'case "$RELAY_TODO_TITLE" in wrong) echo no server >&2; exit 3;; slow) sleep 30;; esac'

    done = beat(project, script, timeout_s=0.5)

    assert [each.status for each in done] == ["completed", "blocked", "blocked"]
    assert done[1].text == "heartbeat failed: exit 3: no server"
    assert done[2].text == "heartbeat failed: took over 0.5 s"
    assert [todo.notes for todo in project.todos.list()][1:] == [done[1].text, done[2].text]
    assert beat(project, "true") == []


def test_the_files_of_a_todo_are_read_first(project: Project, tmp_path: Path) -> None:
    """Promise J5."""
    for title in ("with a file", "with one that is gone", "with one outside"):
        project.todos.add(title)
    path = project.folder / TODOS
    document = json.loads(path.read_text())
    for item, name in zip(document["todos"], ("notes.md", "gone.md", "../private"), strict=True):
        item["files"] = [name]
    path.write_text(json.dumps(document))
    (project.folder / "notes.md").write_text("read me")
    (tmp_path / "private").write_text("not you")
    reader = "import json, sys; print(json.load(sys.stdin)['files'])"

    done = beat(project, f'python3 -c "{reader}"')

    assert done[0].text == "{'notes.md': 'read me'}"
    assert done[1].text == "heartbeat failed: there is no file gone.md"
    assert done[2].text == "heartbeat failed: ../private is outside the project"


def test_two_heartbeats_are_never_at_work_together_and_a_dead_one_is_reported(
    project: Project,
) -> None:
    """Promise J5."""
    project.todos.add("begun by one that died")
    assert [each.status for each in beat(project)] == ["in_progress"]
    with alone(project.folder, "heartbeat"), pytest.raises(Unavailable):
        beat(project, "true")

    (done,) = beat(project, "true")

    assert done.status == "blocked"
    assert "ended while it was at this" in done.text


def test_from_the_command_line(shell: Shell) -> None:
    """Promise J5."""
    shell.out("project", "init", "--name", "x")
    shell.out("project", "todo", "add", "A")
    shell.out("project", "todo", "add", "B")

    done = shell.run("--json", "project", "heartbeat", "--exec", "test $RELAY_TODO = TODO-001")

    assert done.returncode == 1
    assert [each["status"] for each in json.loads(done.stdout)] == ["completed", "blocked"]
    assert shell.out("project", "heartbeat") == "nothing is ready\n"
