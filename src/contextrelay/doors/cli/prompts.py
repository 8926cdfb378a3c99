"""Questions: what changed, asked of a person at a terminal who ends a piece of work.

Rule: an empty answer leaves a field as it is, and the end of the input (Ctrl-D) all that follow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from contextrelay.doors.cli.project_argument import clean
from contextrelay.doors.project.project import Project
from contextrelay.limits import NEXT_TODOS_MAX

_LISTS = ("completed", "next_steps", "decisions")
_ASKED = {
    "completed": "What was completed? (a; b)",
    "in_progress": "What is half done?",
    "next_steps": "What comes next? (a; b)",
    "current_task": "The task now?",
    "decisions": "What was decided? (a; b)",
    "notes": "Anything to note?",
}


def asked_of_a_person(project: Project) -> dict[str, Any]:
    """What `finish` takes, out of answers; nothing where there was none."""
    begun = [todo for todo in project.todos.list() if todo.status == "in_progress"]
    questions = {todo.id: f"Is {todo.id} done: {clean(todo.title)}? (y)" for todo in begun}
    questions = dict(list(questions.items())[:NEXT_TODOS_MAX])
    given = dict(_answers(questions | _ASKED))
    done = [id for id in questions if given.pop(id, "").lower() in ("y", "yes")]
    fields: dict[str, Any] = {
        name: _parts(answer) if name in _LISTS else answer for name, answer in given.items()
    }
    return fields | ({"todos": {"done": done}} if done else {})


def _answers(questions: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, question in questions.items():
        print(f"{question} ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        if line.strip():
            yield name, line.strip()


def _parts(answer: str) -> list[str]:
    return [part.strip() for part in answer.split(";") if part.strip()]
