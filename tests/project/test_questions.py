"""Finish at a terminal: a person is asked, and what was answered is written."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path

from contextrelay.project import Project

PROMPT_ENDS = (b"? ", b") ")
INTERRUPT = b"\x03"


def answered(folder: Path, answers: list[bytes]) -> tuple[int, str]:
    """Run `relay project finish` at a terminal of its own; its exit code, and what was seen."""
    import pty

    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.environ["RELAY_HOME"] = str(folder.parent / "store")
        # A shell that starts the tests in the background has them ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        words = [sys.executable, "-m", "contextrelay", "project", "finish"]
        os.execv(sys.executable, words)
    seen, left, last = b"", list(answers), b""
    try:
        while True:
            # One that comes between the prompt and the read is seen after the read: type another.
            while last == INTERRUPT and not select.select([terminal], [], [], 2)[0]:
                os.write(terminal, INTERRUPT)
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # So Linux reports that the other side is gone.
                break
            if not piece:
                break
            seen += piece
            if seen.endswith(PROMPT_ENDS):
                assert left, f"one question too many: {seen!r}"
                last = left.pop(0)
                os.write(terminal, last)
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), seen.decode()


def state_of(project: Project) -> dict[str, object]:
    return json.loads((project.folder / "state.json").read_text())


def test_a_person_who_ends_is_asked_what_changed(project: Project) -> None:
    """Promise J4."""
    project.todos.add("Login endpoint")
    project.todos.start("1")

    answers = [b"y\n", b"Login; Logout\n", b"\n", b"Ship\n", b"Review\n", b"Use JWT\n", b"\n"]
    code, seen = answered(project.folder, answers)

    assert code == 0
    assert "Is TODO-001 done: Login endpoint? (y)" in seen
    assert "wrote state.json, todos.json, decisions.md" in seen
    state = state_of(project)
    assert state["current_task"] == "Review"
    assert state["progress"] == {
        "completed": ["Login", "Logout"],
        "in_progress": "",
        "blocked": [],
        "next_steps": ["Ship"],
    }
    assert project.todos.list()[0].status == "completed"
    assert [each.title for each in project.decisions()] == ["Use JWT"]


def test_the_end_of_the_input_leaves_the_rest_as_it_is(project: Project) -> None:
    """Promise J4."""
    code, _ = answered(project.folder, [b"Login\n", b"\x04"])

    assert code == 0
    assert project.gathered().completed == ["Login"]


def test_who_interrupts_has_changed_nothing(project: Project) -> None:
    """Promise J4."""
    before = state_of(project)

    code, seen = answered(project.folder, [b"Login\n", INTERRUPT])

    assert code == 130
    assert "nothing is half-done" in seen
    assert state_of(project) == before
