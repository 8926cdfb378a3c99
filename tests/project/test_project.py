"""Projects from Python: found from below, written together, merged with the edits of users."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextrelay.errors import Broken, Conflict, Invalid, NotFound, Refused
from contextrelay.identity import user_name
from contextrelay.model.project import DECISIONS, FILES, PROJECT_FILE, STATE, TODOS
from contextrelay.project import Project
from contextrelay.project.project import init_project
from tests.project.conftest import NOW


def state_of(project: Project) -> dict[str, Any]:
    return json.loads((project.folder / STATE).read_text())


def test_existing_files_are_kept_and_overwritten_only_by_force_after_a_backup(
    tmp_path: Path,
) -> None:
    """Promise J1."""
    (tmp_path / STATE).write_text('{"phase": "mine"}')
    (tmp_path / TODOS).write_bytes(b"\xff broken")
    project = Project(tmp_path, now=lambda: NOW)

    with pytest.raises(Broken, match="UTF-8"):
        init_project(project)
    (tmp_path / TODOS).write_text('{"todos": []}')
    made = init_project(project)
    assert (made.kept, made.made) == ([STATE, TODOS], [PROJECT_FILE, DECISIONS])
    assert (tmp_path / STATE).read_text() == '{"phase": "mine"}'

    (tmp_path / TODOS).write_bytes(b"\xff broken")
    forced = init_project(project, is_forced=True)

    assert forced.made == list(FILES)
    assert state_of(project)["phase"] == "planning"
    assert Path(forced.backup, STATE).read_text() == '{"phase": "mine"}'
    assert Path(forced.backup, TODOS).read_bytes() == b"\xff broken"


def test_a_project_is_found_from_any_folder_below(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise J4."""
    below = project.folder / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert Project.find().folder == project.folder
    monkeypatch.chdir(project.folder.parent)
    with pytest.raises(NotFound, match="no project"):
        Project.find()
    monkeypatch.setenv("RELAY_PROJECT", str(project.folder))
    assert Project.find().folder == project.folder


def test_finish_writes_all_of_it_or_nothing(project: Project) -> None:
    """Promise J4."""
    todo = project.todos.add("Write tests", priority="high")
    project.todos.add("Ship", blocked_by=[todo.id])
    project.todos.start(todo.id)
    project.finish(in_progress="Tests", next_steps=["Tests", "x"])
    before = project.texts()

    with pytest.raises(Refused):
        project.finish(current_task="X", decisions=["D"], todos={"done": [todo.id, "TODO-002"]})
    assert project.texts() == before

    done = project.finish(
        current_task="Ship it",
        completed=["Tests"],
        todos={"done": [todo.id], "add": [{"title": "Later", "priority": "low"}]},
        decisions=[{"title": "Use tests", "context": "bugs"}],
    )

    assert done.files == [STATE, TODOS, DECISIONS]
    assert (done.todos, done.decisions, done.unblocked) == (["TODO-003"], ["ADR-001"], ["TODO-002"])
    found = project.summary()
    assert (found.current_task, found.completed, found.next_steps) == ("Ship it", ["Tests"], ["x"])
    assert [each.title for each in project.decisions()] == ["Use tests"]


def test_fields_changed_since_the_brief_are_merged_or_recorded_as_conflicts(
    project: Project,
) -> None:
    """Promise J5."""
    since = project.brief().since
    path = project.folder / STATE
    state = state_of(project)
    state |= {"notes": "by hand", "current_task": "Theirs", "ours alone": [1]}
    path.write_text(json.dumps(state, indent=4))

    done = project.finish(since=since, current_task="Mine", phase="testing", session_id="me")

    state = state_of(project)
    assert [(each.field, each.kept, each.other) for each in done.clashes] == [
        ("current_task", "Theirs", "Mine")
    ]
    assert (state["notes"], state["phase"], state["ours alone"]) == ("by hand", "testing", [1])
    assert (state["current_task"], state["session_id"]) == ("Theirs", "me")
    assert state["conflicts"][0]["other"] == "Mine"
    assert "Conflict: current_task" in project.brief().text
    project.finish(since=since, current_task="Mine")
    assert len(state_of(project)["conflicts"]) == 1

    project.finish(current_task="Mine")
    assert "conflicts" not in state_of(project)


def test_a_task_goes_to_a_child_and_its_result_comes_back(project: Project) -> None:
    """Promise J5."""
    given = project.tasks.give("Write the parser", "a file parser.py", by="parent")
    child = Project(project.folder, by="child", now=lambda: NOW)
    assert "TASK-001 given: Write the parser" in child.brief().text

    taken = child.tasks.take()
    with pytest.raises(Conflict, match="TASK-001 is taken by child"):
        Project(project.folder, by="other").tasks.take(given["id"])
    with pytest.raises(NotFound, match="no task to take"):
        child.tasks.take()
    child.tasks.give_back("done: parser.py")

    (task,) = project.tasks.list()
    assert (taken["id"], task["status"]) == ("TASK-001", "done")
    assert (task["result"], task["returned_by"]) == ("done: parser.py", "child")
    with pytest.raises(Conflict, match="TASK-001 is already done"):
        child.tasks.give_back("again", "TASK-001")
    for title in ("second", "third", "not taken"):
        project.tasks.give(title)
    child.tasks.take()
    child.tasks.take()
    with pytest.raises(Conflict, match="TASK-004 is not taken"):
        child.tasks.give_back("not taken", "TASK-004")
    with pytest.raises(Conflict, match=f"TASK-002 is taken by child, not by {user_name()}"):
        project.tasks.give_back("not mine", "TASK-002")
    with pytest.raises(NotFound, match=f"no task is taken by {user_name()}"):
        project.tasks.give_back("whose?")
    with pytest.raises(Invalid, match="child has taken 2 tasks"):
        child.tasks.give_back("which?")


def test_a_review_lists_overdue_stale_and_stuck_todos_and_archives(project: Project) -> None:
    """Promise J2."""
    long_ago = "2026-04-01"
    todos = [
        {"id": "TODO-001", "title": "late", "due_date": long_ago},
        {"id": "TODO-002", "title": "stale", "status": "in_progress", "updated": long_ago},
        {"id": "TODO-003", "title": "stuck", "status": "blocked"},
        {"id": "TODO-004", "title": "old", "status": "completed", "completed_at": long_ago},
        {"id": "TODO-005", "title": "new", "status": "completed", "completed_at": "2026-04-19"},
    ]
    review = {"last_review": "2026-04-18T10:00:00+08:00"}
    (project.folder / TODOS).write_text(json.dumps({"todos": todos, "metadata": review}))
    assert project.todos.is_review_due()

    found = project.todos.review()

    assert (found.overdue, found.stale, found.stuck) == (["TODO-001"], ["TODO-002"], ["TODO-003"])
    assert (found.archived, found.open) == (["TODO-004"], 3)
    assert not project.todos.is_review_due()
    document = json.loads((project.folder / TODOS).read_text())
    assert document["metadata"]["last_review"] == NOW
    assert [item["id"] for item in document["completed"]] == ["TODO-004"]


# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----",
    "AWS access key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "GitHub token": "ghp_" + "a1B2" * 9,
    "Slack token": "xoxb-" + "1234567890-abcdefghij",
    "API key": "sk-" + "proj-" + "a1B2c3D4" * 4,
    "Google key": "AIza" + "a1B2c" * 7,
    "JSON web token": ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3", "c2lnbmF0dXJl"]),
    "password in a URL": "postgres://admin:" + "hunter2@db.example.com/orders",
    "assigned secret": 'api_key = "' + "9f8e7d6c5b4a" * 2 + '"',
}


def test_a_secret_is_a_warning_and_refused_when_strict(project: Project) -> None:
    key = SECRETS["AWS access key"]
    strict = Project(project.folder, is_strict=True)

    with pytest.raises(Refused, match="looks like a secret"):
        strict.note(f"the key is {key}")
    assert key not in (project.folder / STATE).read_text()

    project.note(f"the key is {key}")
    assert "AWS access key" in project.warnings[0]
    assert key not in project.warnings[0]
    strict.decide("A known secret in another file is no reason to refuse this")
