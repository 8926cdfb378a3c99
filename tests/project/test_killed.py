"""Killed: a process that dies at any line of writing leaves the old files or the new ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from contextrelay.errors import Broken
from contextrelay.model.project import FILES, STATE, TODOS, Texts
from contextrelay.project import Project
from contextrelay.project.files import journal
from tests.project.conftest import NOW
from tests.rigs import length, rig

WATCHED = tuple(
    str(Path(journal.__file__).with_name(f"{name}.py"))
    for name in ("confined", "journal", "replace", "lock")
)
# Of confined.py, what changes something: to die on the way to it is to die before it.
CHANGING = (
    "write",
    "draft",
    "create",
    "move",
    "move_if_free",
    "swap",
    "call",
    "replace_and_read",
    "remove",
)
STEPS_MAX = 2_000
# Every step is tried at full length, one of so many elsewhere.
STRIDE = length(thin=23, long=3, full=1)


def is_watched(frame: FrameType) -> bool:
    """Whether a frame is one of what writes."""
    code = frame.f_code
    if code.co_filename.endswith("/files/confined.py") and code.co_name not in CHANGING:
        return False
    return code.co_filename in WATCHED


def finish(folder: Path) -> None:
    Project(folder, now=lambda: NOW).finish(
        current_task="New task",
        completed=["a step"],
        todos={"start": ["TODO-001"], "add": ["A new one"]},
        decisions=["A new decision"],
    )


def dies_at(step: int, act: Callable[[], None]) -> bool:
    """Whether a child that does this lives past a step: a line of what writes, any time."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.WEXITSTATUS(status) == 0
        return False
    left = step

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if not is_watched(frame):
            return None
        left -= event == "line"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        sys.settrace(trace)
        act()
        sys.settrace(None)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.fixture
def begun(project: Project, tmp_path: Path) -> tuple[Path, Texts, Texts]:
    """A project with something in it; its files before and after a finish."""
    project.todos.add("The first")
    project.decide("An old decision")
    old = project.texts()
    copy = tmp_path / "copy"
    shutil.copytree(project.folder, copy)
    finish(copy)
    new = Project(copy).texts()
    assert sum(old.of(name) != new.of(name) for name in FILES) == 3
    return project.folder, old, new


def put_back(folder: Path, texts: Texts) -> None:
    shutil.rmtree(folder / ".relay-project", ignore_errors=True)
    for name, text in texts.named().items():
        assert text is not None
        (folder / name).write_bytes(text.encode())


@rig
def test_a_finish_that_is_killed_at_any_step_is_done_or_undone(
    begun: tuple[Path, Texts, Texts],
) -> None:
    """Promise J4."""
    folder, old, new = begun
    outcomes: list[bool] = []
    for step in range(1, STEPS_MAX, STRIDE):
        put_back(folder, old)
        if not dies_at(step, lambda: finish(folder)):
            break
        for name in FILES:
            assert (folder / name).read_bytes().decode() in (old.of(name), new.of(name))
        found = Project(folder).texts()
        assert found in (old, new), f"a mixture after step {step}"
        assert not (folder / ".relay-project" / "journal.json").exists()
        outcomes.append(found == new)
        # The next writer can write, and has what was left.
        if step % (40 * STRIDE) == 1:
            Project(folder).todos.add("Next")

    assert Project(folder).texts() == new
    assert len(outcomes) >= 200 // STRIDE, "too few steps to say anything"
    assert outcomes == sorted(outcomes), "once it is done it stays done"
    assert {True, False} == set(outcomes)


@rig
def test_who_dies_while_finishing_the_work_of_the_dead_changes_nothing(
    begun: tuple[Path, Texts, Texts],
) -> None:
    """Promise J4."""
    folder, old, new = begun
    text = json.dumps(
        {
            "files": {
                name: {"before": old.of(name), "after": new.of(name)}
                for name in FILES
                if old.of(name) != new.of(name)
            }
        }
    )
    for step in range(1, STEPS_MAX, 5 * STRIDE):
        put_back(folder, old)
        (folder / ".relay-project").mkdir()
        (folder / ".relay-project" / "journal.json").write_text(text)
        if not dies_at(step, lambda: (Project(folder).texts(), None)[1]):
            break
        assert Project(folder).texts() == new
    else:
        pytest.fail("it never ended")


def left_behind(folder: Path, old: Texts, new: Texts) -> None:
    """A journal whose writer died at once."""
    files = {
        name: {"before": old.of(name), "after": new.of(name)}
        for name in FILES
        if old.of(name) != new.of(name)
    }
    (folder / ".relay-project" / "journal.json").write_text(json.dumps({"files": files}))


def test_what_a_person_saved_after_a_crash_is_merged_with_what_was_left(
    begun: tuple[Path, Texts, Texts],
) -> None:
    """Promise J5."""
    folder, old, new = begun
    left_behind(folder, old, new)
    state = json.loads(old.state or "")
    (folder / STATE).write_text(json.dumps({**state, "phase": "by hand", "current_task": "Mine"}))

    found = Project(folder).gathered()

    assert (found.phase, found.current_task) == ("by hand", "Mine")
    assert found.clashes[0]["other"] == "New task"
    assert found.completed == ["a step"]
    assert [todo.id for todo in Project(folder).todos.list()] == ["TODO-001", "TODO-002"]


def test_a_file_that_a_person_broke_meanwhile_is_named_and_not_touched(
    begun: tuple[Path, Texts, Texts],
) -> None:
    """Promise J6."""
    folder, old, new = begun
    left_behind(folder, old, new)
    (folder / TODOS).write_text('{"todos": [')

    for _ in range(2):
        with pytest.raises(Broken, match=r"todos\.json, line 1, column 12"):
            Project(folder).todos.add("x")
        assert (folder / TODOS).read_text() == '{"todos": ['

    (folder / TODOS).write_text(old.todos or "")
    assert Project(folder).texts() == new
