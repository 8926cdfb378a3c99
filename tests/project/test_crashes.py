"""Crashes and races: a process is killed, or a user saves a file, at any step of a write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from contextrelay.errors import Broken, Conflict
from contextrelay.model.project import FILES, OWN_FOLDER, PROJECT_FILE, STATE, TODOS, ProjectTexts
from contextrelay.project import Project, confined, files
from contextrelay.project.decisions import read_decisions
from contextrelay.project.project import init_project
from tests.project.conftest import NOW
from tests.rigs import length, rig

# The functions that write; of confined.py those that change something.
WATCHED = {
    confined.__file__: (
        *("write", "write_draft", "create", "move", "link", "exchange", "call", "remove"),
    ),
    files.__file__: (
        *("make_own_folder", "locked", "read_all", "change_texts", "_finish_journal", "replace"),
        *("_is_changed", "_put", "_merge_late", "_drafts_of", "_discard_old_drafts"),
    ),
}
STEPS_MAX = 2_000
# The full length tries every step, a shorter run every third or 23rd.
STRIDE = length(thin=23, long=3, full=1)


def before_step(step: int, act: Callable[[], None]) -> tuple[list[int], Callable[..., Any]]:
    """Return a trace function that acts before a line of the writing functions is run."""
    left = [step]

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_name not in WATCHED.get(frame.f_code.co_filename, ()):
            return None
        left[0] -= event == "line"
        if left[0] == 0 and event == "line":
            act()
        return trace

    return left, trace


def dies_at(step: int, act: Callable[[], object]) -> bool:
    """Act in a child process that is killed at a step; return False if it ended before."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.WEXITSTATUS(status) == 0
        return False
    try:
        sys.settrace(before_step(step, lambda: os.kill(os.getpid(), signal.SIGKILL))[1])
        act()
        sys.settrace(None)
        os._exit(0)
    finally:
        os._exit(1)


def finish(folder: Path) -> None:
    Project(folder, now=lambda: NOW).finish(
        current_task="New task",
        completed=["a step"],
        todos={"start": ["TODO-001"], "add": ["A new one"]},
        decisions=["A new decision"],
    )


@pytest.fixture
def begun(project: Project, tmp_path: Path) -> tuple[Path, ProjectTexts, ProjectTexts]:
    """A project with some content, and its files before and after a finish."""
    project.todos.add("The first")
    project.decide("An old decision")
    old = project.texts()
    copy = tmp_path / "copy"
    shutil.copytree(project.folder, copy)
    finish(copy)
    return project.folder, old, Project(copy).texts()


def reset(folder: Path, texts: ProjectTexts) -> None:
    shutil.rmtree(folder / OWN_FOLDER, ignore_errors=True)
    for name, text in texts.named().items():
        (folder / name).write_bytes((text or "").encode())


def leave_journal(folder: Path, old: ProjectTexts, new: ProjectTexts) -> None:
    """Write the journal of a process that died before it replaced a file."""
    changes = {
        name: {"before": old.of(name), "after": text}
        for name, text in new.named().items()
        if text != old.of(name)
    }
    (folder / OWN_FOLDER).mkdir(exist_ok=True)
    (folder / OWN_FOLDER / "journal.json").write_text(json.dumps({"files": changes}))


@rig
def test_a_finish_that_is_killed_at_any_step_is_done_or_undone(
    begun: tuple[Path, ProjectTexts, ProjectTexts],
) -> None:
    """Promise J4."""
    folder, old, new = begun
    outcomes: list[bool] = []
    for step in range(1, STEPS_MAX, STRIDE):
        reset(folder, old)
        if not dies_at(step, lambda: finish(folder)):
            break
        for name in FILES:
            assert (folder / name).read_bytes().decode() in (old.of(name), new.of(name))
        found = Project(folder).texts()
        assert found in (old, new), f"a mixture after step {step}"
        assert not (folder / OWN_FOLDER / "journal.json").exists()
        outcomes.append(found == new)
        if step % (40 * STRIDE) == 1:
            Project(folder).todos.add("The next writer can write")

    assert Project(folder).texts() == new
    assert len(outcomes) >= 200 // STRIDE, "too few steps"
    assert outcomes == sorted(outcomes), "a finish that was done is undone by a later kill"
    assert {True, False} == set(outcomes)


@rig
def test_a_recovery_that_is_killed_at_any_step_is_repeated(
    begun: tuple[Path, ProjectTexts, ProjectTexts],
) -> None:
    """Promise J4."""
    folder, old, new = begun
    for step in range(1, STEPS_MAX, 5 * STRIDE):
        reset(folder, old)
        leave_journal(folder, old, new)
        if not dies_at(step, lambda: Project(folder).texts()):
            break
        assert Project(folder).texts() == new
    else:
        pytest.fail("it never ended")


def test_an_edit_saved_after_a_crash_is_merged_with_the_journal(
    begun: tuple[Path, ProjectTexts, ProjectTexts],
) -> None:
    """Promise J5."""
    folder, old, new = begun
    leave_journal(folder, old, new)
    state = json.loads(old.state or "")
    (folder / STATE).write_text(json.dumps({**state, "phase": "by hand", "current_task": "Mine"}))

    found = Project(folder).summary()

    assert (found.phase, found.current_task) == ("by hand", "Mine")
    assert found.clashes[0]["other"] == "New task"
    assert found.completed == ["a step"]
    assert [todo.id for todo in Project(folder).todos.list()] == ["TODO-001", "TODO-002"]


def test_a_file_that_is_invalid_after_a_crash_is_named_and_not_touched(
    begun: tuple[Path, ProjectTexts, ProjectTexts],
) -> None:
    """Promise J6."""
    folder, old, new = begun
    leave_journal(folder, old, new)
    (folder / TODOS).write_text('{"todos": [')

    for _ in range(2):
        with pytest.raises(Broken, match=r"todos\.json, line 1, column 12"):
            Project(folder).todos.add("x")
        assert (folder / TODOS).read_text() == '{"todos": ['

    (folder / TODOS).write_text(old.todos or "")
    assert Project(folder).texts() == new


Save = Callable[[Path, str], object]


def by_rename(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.swp")
    draft.write_text(text)
    draft.replace(path)


def edit(path: Path, save: Save) -> None:
    """Add a field by hand and save the file."""
    state = json.loads(path.read_text())
    save(path, json.dumps({**state, "by_hand": True}, indent=2) + "\n")


def states_after_edits(project: Project, save: Save) -> list[dict[str, Any]]:
    """Return the states after a finish during which a user saves the file, for every step."""
    path = project.folder / STATE
    before = path.read_bytes()
    found: list[dict[str, Any]] = []
    for step in range(1, STEPS_MAX, STRIDE):
        shutil.rmtree(project.own_folder, ignore_errors=True)
        path.write_bytes(before)
        left, trace = before_step(step, lambda: edit(path, save))
        sys.settrace(trace)
        try:
            project.finish(current_task="New task")
        finally:
            sys.settrace(None)
        if left[0] > 0:
            break
        found.append(json.loads(path.read_text()))
    assert len(found) > 100 // STRIDE, "too few steps"
    assert {state["current_task"] for state in found} == {"New task"}
    return found


@rig
@pytest.mark.parametrize("save", [by_rename, Path.write_text])
def test_an_edit_saved_at_any_step_of_a_finish_is_kept(project: Project, save: Save) -> None:
    """Promise J5. Promise J6."""
    assert all(state.get("by_hand") for state in states_after_edits(project, save))


@rig
def test_without_an_atomic_exchange_only_an_edit_in_the_last_moment_is_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a system without such a call.
    monkeypatch.setattr(confined, "_exchange_call", lambda: None)

    found = states_after_edits(project, by_rename)

    lost = sum(not state.get("by_hand") for state in found)
    assert lost <= 2
    assert lost or STRIDE > 1, "the last moment was not tried"


@rig
def test_an_edit_that_a_killed_process_had_exchanged_is_recovered(project: Project) -> None:
    """Promise J5."""
    path = project.folder / STATE
    before = path.read_text()
    after = before.replace('"planning"', '"building"')
    outcomes: list[bool] = []

    def write() -> None:
        """Replace the file, while a user saves it between our last read and the exchange."""
        fsync = os.fsync

        def save_then(handle: int) -> None:
            fsync(handle)
            if path.read_text() == before:
                edit(path, by_rename)

        os.fsync = save_then  # In a child process, which ends with it.
        files.replace(project.folder, STATE, before, after)

    has_died = True
    for step in range(1, STEPS_MAX, STRIDE):
        shutil.rmtree(project.own_folder, ignore_errors=True)
        path.write_text(before)
        has_died = dies_at(step, write)
        files.replace(project.folder, STATE, before, after)
        state = json.loads(path.read_text())
        assert state["phase"] == "building"
        outcomes.append("by_hand" in state)
        if not has_died:
            break

    assert not has_died
    assert {True, False} == set(outcomes)
    assert outcomes == sorted(outcomes), "an edit that was saved is lost by a later kill"


def test_an_edit_that_cannot_be_merged_stays_and_ours_is_kept(project: Project) -> None:
    """Promise J6."""
    path = project.folder / PROJECT_FILE
    old, edited = path.read_text(), "# By hand\n"
    changes = {PROJECT_FILE: {"before": old, "after": "# Ours\n"}}
    (project.own_folder / "journal.json").write_text(json.dumps({"files": changes}))
    path.write_text(edited)

    with pytest.raises(Conflict) as raised:
        project.texts()

    assert path.read_text() == edited
    assert (project.own_folder / "PROJECT.md.not-written").read_text() == "# Ours\n"
    assert "PROJECT.md.not-written" in raised.value.hint
    # No repair is necessary to continue.
    assert project.texts().about == edited
    project.todos.add("Continue")


WRITER = """
import sys, time
from contextrelay.project import Project

project, number = Project(sys.argv[1]), sys.argv[2]
end = time.monotonic() + float(sys.argv[3])
count = 0
while time.monotonic() < end:
    count += 1
    title = f"writer {number} number {count}"
    if count % 3 == 0:
        print(project.decide(title), title, flush=True)
    elif count % 3 == 1:
        print(project.todos.add(title).id, title, flush=True)
    else:
        done = project.finish(todos={"add": [title]}, decisions=[title])
        print(done.todos[0], title, flush=True)
        print(done.decisions[0], title, flush=True)
"""


def check_writers(folder: Path, seconds: float, writers: int) -> tuple[int, int]:
    """Run writers and a reader; check that nothing is lost. Return the todos and the reads."""
    project = Project(folder)
    init_project(project, "together")
    command = [sys.executable, "-c", WRITER, str(folder)]
    running = [
        subprocess.Popen([*command, str(number), str(seconds)], stdout=subprocess.PIPE, text=True)
        for number in range(writers)
    ]
    reads, todos, decisions = 0, 0, 0
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = len(json.loads((folder / TODOS).read_bytes())["todos"])
            json.loads((folder / STATE).read_bytes())
            decided = read_decisions((folder / "decisions.md").read_text())
            assert [each.number for each in decided] == list(range(1, len(decided) + 1))
            assert (found >= todos, len(decided) >= decisions) == (True, True)
            todos, decisions, reads = found, len(decided), reads + 1
            if reads % 10 == 0:
                project.brief()
        printed = [each.communicate(timeout=60)[0] for each in running]
    finally:
        for each in running:
            if each.poll() is None:
                each.kill()
                each.wait()
    assert all(each.returncode == 0 for each in running)
    lines = [tuple(line.split(" ", 1)) for text in printed for line in text.splitlines()]
    added = [(todo.id, todo.title) for todo in project.todos.list()]
    decided = [(each.id, each.title) for each in project.decisions()]
    assert sorted(lines) == sorted(added + decided), "each is there once"
    for prefix, pairs in (("TODO", added), ("ADR", decided)):
        ids = [id for id, _ in pairs]
        assert sorted(ids) == sorted(f"{prefix}-{n:03d}" for n in range(1, len(ids) + 1))
    return len(added), reads


@rig
def test_eight_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Promise J5, promise J2, promise J3."""
    todos, reads = check_writers(tmp_path, length(thin=2, long=10, full=60), 8)

    assert todos >= 8
    assert reads > 10
