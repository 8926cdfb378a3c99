"""Saved meanwhile: an editor that saves at any moment of a write loses nothing, nor do we."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from contextrelay.errors import Conflict
from contextrelay.model.project import ABOUT, OWN_FOLDER, STATE
from contextrelay.project import Project
from contextrelay.project.files import confined
from contextrelay.project.files.replace import place
from tests.project.test_killed import STEPS_MAX, STRIDE, dies_at, is_watched
from tests.rigs import rig

Save = Callable[[Path, str], None]


def by_rename(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.swp")
    draft.write_text(text)
    draft.replace(path)


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def edit(path: Path, save: Save) -> None:
    """What a person does: open the file, add a field, save it."""
    state = json.loads(path.read_text())
    save(path, json.dumps({**state, "by_hand": True}, indent=2) + "\n")


def edits_at(step: int, path: Path, save: Save, act: Callable[[], None]) -> bool:
    """Act while a person saves a file at a step: a line of what writes. Whether it came to that."""
    left = step

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if not is_watched(frame):
            return None
        left -= event == "line"
        if left == 0:
            edit(path, save)
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return left <= 0


def every_step(project: Project, save: Save, act: Callable[[], None]) -> list[dict[str, Any]]:
    """What state.json says after each step at which somebody may save it."""
    path = project.folder / STATE
    before = path.read_bytes()
    found: list[dict[str, Any]] = []
    for step in range(1, STEPS_MAX, STRIDE):
        shutil.rmtree(project.folder / OWN_FOLDER, ignore_errors=True)
        path.write_bytes(before)
        if not edits_at(step, path, save, act):
            break
        found.append(json.loads(path.read_text()))
    assert len(found) > 100 // STRIDE, "too few steps to say anything"
    return found


@rig
@pytest.mark.parametrize("save", [by_rename, in_place])
def test_what_is_saved_at_any_step_of_a_finish_is_there_afterwards_and_so_is_the_finish(
    project: Project, save: Save
) -> None:
    """Promise J5. Promise J6."""
    found = every_step(project, save, lambda: void(project.finish(current_task="New task")))

    assert all(state.get("by_hand") for state in found)
    assert {state["current_task"] for state in found} == {"New task"}


def void(_: object) -> None:
    """For what answers and is not asked."""


@rig
def test_where_files_cannot_be_exchanged_only_the_last_moment_is_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a system that has no such step.
    monkeypatch.setattr(confined, "_exchange_call", lambda: None)

    def finish() -> None:
        project.finish(current_task="New task")

    found = every_step(project, by_rename, finish)

    lost = sum(not state.get("by_hand") for state in found)
    assert lost <= 2
    assert lost or STRIDE > 1, "the last moment was not tried"
    assert {state["current_task"] for state in found} == {"New task"}


@rig
def test_who_dies_with_a_save_in_its_hands_leaves_it_to_the_next(project: Project) -> None:
    """Promise J5."""
    path = project.folder / STATE
    before = path.read_text()
    after = before.replace('"planning"', '"building"')
    edited = json.dumps({**json.loads(before), "by_hand": True}, indent=2) + "\n"
    outcomes: list[bool] = []

    def write() -> None:
        """Write it, while somebody saves it between our last look and the exchange."""
        true_fsync = os.fsync

        def save_then(handle: int) -> None:
            true_fsync(handle)
            if path.read_text() == before:
                by_rename(path, edited)

        os.fsync = save_then  # In a child, which ends with it.
        place(project.folder, STATE, before, after)

    has_died = True
    for step in range(1, STEPS_MAX, STRIDE):
        shutil.rmtree(project.folder / OWN_FOLDER, ignore_errors=True)
        path.write_text(before)
        has_died = dies_at(step, write)
        place(project.folder, STATE, before, after)
        state = json.loads(path.read_text())
        assert state["phase"] == "building"
        outcomes.append("by_hand" in state)
        if not has_died:
            break

    assert not has_died
    assert {True, False} == set(outcomes)
    assert outcomes == sorted(outcomes), "what was saved once is never lost again"


def test_a_text_that_cannot_be_merged_stands_and_ours_is_kept_next_to_it(project: Project) -> None:
    """Promise J6."""
    path = project.folder / ABOUT
    journal = project.own_folder / "journal.json"
    old, hand = path.read_text(), "# By hand\n"
    files = {ABOUT: {"before": old, "after": "# Ours\n"}}
    journal.write_text(json.dumps({"files": files}))
    path.write_text(hand)

    with pytest.raises(Conflict) as raised:
        project.texts()

    assert path.read_text() == hand
    assert (project.own_folder / "PROJECT.md.not-written").read_text() == "# Ours\n"
    assert "PROJECT.md.not-written" in raised.value.hint
    # Nobody has to mend anything before work goes on.
    assert project.texts().about == hand
    project.todos.add("Go on")
