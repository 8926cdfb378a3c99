"""Projects from Python: found from below, written as one, merged with what people save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextrelay.errors import Conflict, Invalid, NotFound, Refused
from contextrelay.model.project import ABOUT, DECISIONS, FILES, STATE, TODOS
from contextrelay.project import Project
from contextrelay.project.init import make_project
from tests.project.conftest import NOW


def test_a_new_project_has_the_four_files_of_the_template(project: Project) -> None:
    """Promise J1."""
    state = json.loads((project.folder / STATE).read_text())
    todos = json.loads((project.folder / TODOS).read_text())

    assert list(state) == [
        *("phase", "current_task", "progress", "last_update", "session_id", "notes")
    ]
    assert list(state["progress"]) == ["completed", "in_progress", "blocked", "next_steps"]
    assert todos == {"todos": [], "last_review": NOW}
    assert (project.folder / ABOUT).read_text().startswith("# orders\n\n## One-Line Description\n")
    assert (project.folder / DECISIONS).read_text() == "# Architecture Decision Records\n"
    assert (project.own_folder / ".gitignore").read_text() == "*\n"


def test_what_is_there_is_kept_and_overwritten_only_by_force_after_a_copy(tmp_path: Path) -> None:
    """Promise J1."""
    (tmp_path / STATE).write_text('{"phase": "mine"}')
    (tmp_path / TODOS).write_bytes(b"\xff broken")
    project = Project(tmp_path, now=lambda: NOW)

    with pytest.raises(Exception, match="UTF-8"):
        make_project(project)
    (tmp_path / TODOS).write_text('{"todos": []}')
    made = make_project(project)
    assert (made.kept, made.made) == ([STATE, TODOS], [ABOUT, DECISIONS])
    assert (tmp_path / STATE).read_text() == '{"phase": "mine"}'

    (tmp_path / TODOS).write_bytes(b"\xff broken")
    forced = make_project(project, is_forced=True)

    assert forced.made == list(FILES)
    assert json.loads((tmp_path / STATE).read_text())["phase"] == "planning"
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
    assert project.gathered().current_task == "Ship it"
    assert [each.title for each in project.decisions()] == ["Use tests"]


def test_a_field_that_a_person_changed_since_the_brief_is_merged_or_a_clash(
    project: Project,
) -> None:
    """Promise J5."""
    since = project.brief().since
    path = project.folder / STATE
    state = json.loads(path.read_text())
    state |= {"notes": "by hand", "current_task": "Theirs", "ours alone": [1]}
    path.write_text(json.dumps(state, indent=4))

    done = project.finish(since=since, current_task="Mine", phase="testing")

    state = json.loads(path.read_text())
    assert [(each.field, each.kept, each.other) for each in done.clashes] == [
        ("current_task", "Theirs", "Mine")
    ]
    assert (state["notes"], state["phase"], state["ours alone"]) == ("by hand", "testing", [1])
    assert state["current_task"] == "Theirs"
    assert state["conflicts"][0]["other"] == "Mine"
    assert "Conflict: current_task" in project.brief().text

    project.finish(current_task="Mine")
    assert "conflicts" not in json.loads(path.read_text())


def test_a_file_saved_while_a_change_is_made_is_taken_as_it_is(project: Project) -> None:
    """Promise J5."""
    path = project.folder / TODOS
    saved = False

    def make_slowly(document: dict[str, object]) -> dict[str, object]:
        nonlocal saved
        if not saved:
            # A person saves just now, between our reading and our writing.
            path.write_text('{"todos": [{"id": "TODO-009", "title": "By hand"}]}\n')
            saved = True
        return {**document, "reviewed_by": "us"}

    project.change_json(TODOS, make_slowly)

    assert path.read_text() == (
        '{"todos": [{"id": "TODO-009", "title": "By hand"}], "reviewed_by": "us"}\n'
    )
    assert project.todos.add("Next").id == "TODO-010"


def test_a_brief_is_the_same_bytes_for_the_same_files(project: Project) -> None:
    """Promise J4."""
    project.todos.add("Write tests")
    project.finish(phase="testing")
    assert (project.own_folder / "brief.json").exists()
    first = project.brief()
    kept = project.brief()
    (project.own_folder / "brief.json").unlink()
    (project.own_folder / "brief.json").write_text("broken {")
    again = project.brief()

    assert first == kept == again
    assert first.since in first.text
    project.note("something else")
    assert project.brief().since != first.since


def test_a_task_goes_to_a_child_and_its_result_comes_back(project: Project) -> None:
    """Promise J5."""
    given = project.tasks.give("Write the parser", "a file parser.py", by="parent")
    child = Project(project.folder, by="child", now=lambda: NOW)
    assert "TASK-001 given: Write the parser" in child.brief().text

    taken = child.tasks.take()
    with pytest.raises(Conflict, match="TASK-001 is taken by child"):
        Project(project.folder, by="other").tasks.take(given["id"])
    with pytest.raises(NotFound, match="no task is given"):
        child.tasks.take()
    child.tasks.give_back("done: parser.py")

    (task,) = project.tasks.list()
    assert (taken["id"], task["status"]) == ("TASK-001", "done")
    assert (task["result"], task["returned_by"]) == ("done: parser.py", "child")
    with pytest.raises(Conflict):
        child.tasks.give_back("again", "TASK-001")


def test_a_task_is_returned_by_who_took_it_alone(project: Project) -> None:
    """Promise J5: no result lands on another's task."""
    for task in ("first", "second", "third"):
        project.tasks.give(task)
    one, two = (Project(project.folder, by=name, now=lambda: NOW) for name in ("one", "two"))
    with pytest.raises(NotFound, match="no task is taken"):
        one.tasks.give_back("nothing yet")
    one.tasks.take()
    two.tasks.take()

    with pytest.raises(Conflict, match="TASK-001 was taken by one, not by two"):
        two.tasks.give_back("not mine", "TASK-001")
    with pytest.raises(Conflict, match="nobody has taken TASK-003"):
        two.tasks.give_back("not taken", "TASK-003")
    with pytest.raises(NotFound, match="no task is taken by three") as unknown:
        two.tasks.give_back("whose?", by="three")
    assert "TASK-001 by one, TASK-002 by two" in unknown.value.hint
    assert two.tasks.give_back("of two")["id"] == "TASK-002"
    one.tasks.take()
    with pytest.raises(Invalid, match="2 tasks are taken by one") as unclear:
        one.tasks.give_back("which?")
    assert "TASK-001, TASK-003" in unclear.value.hint
    assert one.tasks.give_back("of one", "TASK-003")["id"] == "TASK-003"


def test_secrets_warn_and_are_refused_when_strict(project: Project) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    strict = Project(project.folder, is_strict=True)

    with pytest.raises(Refused, match="looks like a secret"):
        strict.note(f"the key is {key}")
    assert key not in (project.folder / STATE).read_text()

    project.note(f"the key is {key}")
    assert "AWS access key" in project.warnings[0]
    assert key not in project.warnings[0]
    strict.decide("An old secret elsewhere does not stop this")


def test_a_review_lists_what_is_late_stale_or_stuck_and_archives(project: Project) -> None:
    """Promise J2."""
    (project.folder / TODOS).write_text(
        json.dumps(
            {
                "todos": [
                    {"id": "TODO-001", "title": "late", "due_date": "2026-04-01"},
                    {
                        "id": "TODO-002",
                        "title": "stale",
                        "status": "in_progress",
                        "updated": "2026-04-01",
                    },
                    {"id": "TODO-003", "title": "stuck", "status": "blocked"},
                    {
                        "id": "TODO-004",
                        "title": "old",
                        "status": "completed",
                        "completed_at": "2026-04-01",
                    },
                    {
                        "id": "TODO-005",
                        "title": "new",
                        "status": "completed",
                        "completed_at": "2026-04-19",
                    },
                ],
                "metadata": {"last_review": "2026-04-18T10:00:00+08:00"},
            }
        )
    )
    assert project.todos.is_review_due()

    found = project.todos.review()

    assert (found.overdue, found.stale, found.stuck) == (["TODO-001"], ["TODO-002"], ["TODO-003"])
    assert (found.archived, found.open) == (["TODO-004"], 3)
    assert not project.todos.is_review_due()
    document = json.loads((project.folder / TODOS).read_text())
    assert document["metadata"]["last_review"] == NOW
    assert [item["id"] for item in document["completed"]] == ["TODO-004"]


def test_what_finish_does_not_know_is_refused(project: Project) -> None:
    wrongs: tuple[dict[str, Any], ...] = (
        {"tasks": 1},
        {"todos": {"finish": []}},
        {"todos": {"done": [7]}},
        {"decisions": [{"context": "no title"}]},
        {"completed": "text"},
        {"next_steps": [1]},
        {"phase": 3},
        {"fields": {"last_update": "x"}},
        {"fields": {"tasks": 5}},
        {"todos": {"add": [5]}},
        {"todos": {"add": [{"title": 5}]}},
        {"todos": {"add": [{"title": None}]}},
        {"todos": {"add": [{"title": "x", "tags": 5}]}},
        {"todos": {"add": [{"title": "x", "blocked_by": 5}]}},
        {"todos": {"add": [{"title": "x", "due_date": 5}]}},
        {"todos": {"add": [{"title": "x", "id": "TODO-009"}]}},
        {"todos": {"add": [{"title": "x", "status": "done"}]}},
        {"decisions": [{"title": "x", "context": 5}]},
        {"decisions": [{"title": "x", "supersedes": 5}]},
    )
    before = project.texts()
    for wrong in wrongs:
        with pytest.raises(Invalid):
            project.finish(**wrong)
    assert project.texts() == before
    with pytest.raises(NotFound):
        project.finish(since="0123456789ab")
