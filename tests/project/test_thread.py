"""The thread: changes of the files are copied to it, and back only by a restore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextrelay import NotFound, Relay
from contextrelay.client.thread import Thread
from contextrelay.model.project import STATE, TODOS
from contextrelay.project import Project
from contextrelay.project.project import init_project
from contextrelay.project.thread_link import Link


@pytest.fixture
def relay() -> Relay:
    return Relay("memory:")


@pytest.fixture
def linked(tmp_path: Path, relay: Relay) -> Project:
    folder = tmp_path / "orders"
    folder.mkdir()
    project = Project(folder, link=Link(folder, "memory:", lambda: relay), by="agent")
    init_project(project, "orders")
    return project


def thread_of(project: Project, relay: Relay) -> Thread:
    assert project.link is not None
    return relay.thread(project.link.thread_id)


def facts(project: Project, relay: Relay) -> dict[str, Any]:
    return {fact["key"]: fact["value"] for fact in thread_of(project, relay).state()["facts"]}


def test_every_change_is_one_patch_and_each_field_a_fact(linked: Project, relay: Relay) -> None:
    """Promise J6."""
    other = {"id": "f1", "key": "note", "value": "by another"}
    thread_of(linked, relay).patch([{"op": "add", "path": "/facts/-", "value": other}])
    version = thread_of(linked, relay).show().version

    linked.finish(current_task="Login", todos={"add": ["Tests"]}, decisions=["Use JWT"])

    known = facts(linked, relay)
    assert thread_of(linked, relay).show().version == version + 1
    assert (known["note"], known["project.current_task"]) == ("by another", "Login")
    assert known["project.phase"] == "planning"
    assert known["project.todo.TODO-001"]["title"] == "Tests"
    assert known["project.decision.ADR-001"].startswith("## ADR-001: Use JWT\n")
    assert known["project.about"].startswith("# orders\n")


def test_an_edit_is_copied_at_the_next_start_and_nothing_else_is_patched(
    linked: Project, relay: Relay
) -> None:
    """Promise J6."""
    thread = thread_of(linked, relay)
    path = linked.folder / STATE
    edited = {**json.loads(path.read_text()), "phase": "by hand", "ours": {"a": 1}}
    path.write_text(json.dumps(edited))
    before = thread.show().version

    linked.brief()
    linked.brief()

    assert thread.show().version == before + 1
    changed = {each["path"] for each in thread.diff(before).operations}
    assert facts(linked, relay)["project.phase"] == "by hand"
    assert facts(linked, relay)["project.ours"] == {"a": 1}
    assert len(changed) <= 3
    assert json.loads(path.read_text()) == edited


def test_restore_writes_a_version_after_a_backup(linked: Project, relay: Relay) -> None:
    """Promise J6."""
    linked.finish(current_task="First", todos={"add": ["Keep me"]})
    path = linked.folder / STATE
    path.write_text(json.dumps({"ours": 1, **json.loads(path.read_text())}))
    linked.brief()
    version = thread_of(linked, relay).show().version
    linked.finish(current_task="Second", decisions=["Later"], fields={"extra": 1})
    linked.todos.cancel("TODO-001")
    cancelled = (linked.folder / TODOS).read_text()

    files = linked.restore(version)

    state = json.loads(path.read_text())
    assert files == [STATE, TODOS]
    assert next(iter(state)) == "ours", "the order of the file"
    assert state["current_task"] == "First"
    assert "extra" not in state
    assert linked.todos.list()[0].status == "pending"
    assert [each.title for each in linked.decisions()] == ["Later"]
    (backup,) = (linked.own_folder / "backups").iterdir()
    assert (backup / TODOS).read_text() == cancelled
    with pytest.raises(NotFound):
        linked.restore(999)


def test_no_number_is_used_again_after_a_restore(linked: Project, relay: Relay) -> None:
    """Promise J2."""
    linked.todos.add("Stays")
    linked.tasks.give("Stays")
    version = thread_of(linked, relay).show().version
    linked.todos.add("Goes")
    linked.tasks.give("Goes")

    linked.restore(version)
    linked.restore(version)

    assert [todo.id for todo in linked.todos.list()] == ["TODO-001"]
    assert linked.todos.add("New").id == "TODO-003"
    assert linked.tasks.give("New")["id"] == "TASK-003"
    assert linked.todos.add("Newer").id == "TODO-004"
