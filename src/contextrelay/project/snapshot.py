"""A snapshot of a project: what a brief may say, out of its four files.

Rule: the same files give the same, at any time and on any machine.
"""

from __future__ import annotations

import re
from math import log
from typing import Any, NamedTuple

from contextrelay.limits import BRIEF_DECISIONS_MAX, NEXT_TODOS_MAX
from contextrelay.model.project import STATE, TODOS, Decision, Texts, Todo
from contextrelay.project.decisions import read_decisions
from contextrelay.project.dependencies import next_todos
from contextrelay.project.files.decode import stamp_of
from contextrelay.project.files.json_text import read
from contextrelay.project.progress import (
    clashes_of,
    progress_of,
    state_of,
    tasks_of,
    texts_of,
)
from contextrelay.project.project_md import About, read_about
from contextrelay.project.todo_list import last_review, read_todos

_WORD = re.compile(r"[^\W_]{3,}")
# Too frequent to say what a text is about.
_COMMON = frozenset(("the", "and", "for", "with", "use", "not", "this", "that", "from", "into"))


class Gathered(NamedTuple):
    """What a brief may say."""

    stamp: str
    about: About
    state: dict[str, Any]
    phase: str
    current_task: str
    completed: list[str]
    in_progress: str
    blocked: list[str]
    next_steps: list[str]
    notes: str
    last_update: str
    session_id: str
    clashes: list[dict[str, Any]]
    tasks: list[dict[str, Any]]
    """Those of sub-agents that are not ended, and the last one that is."""
    next_todos: list[Todo]
    open_todos: int
    blocked_todos: int
    last_review: str
    decisions: list[Decision]
    """Those that matter now."""
    decisions_total: int
    missing: list[str]


def gathered(texts: Texts, folder_name: str, limit: int = NEXT_TODOS_MAX) -> Gathered:
    """Read the files in the order of a cold start: PROJECT, state, todos, then decisions.

    Raises:
        Broken: one of them cannot be read; the error names the place.
        Refused: one of them holds something else than it should.
    """
    about = read_about(texts.about or "", folder_name)
    state = state_of({} if texts.state is None else read(texts.state, STATE))
    todos: Any = {} if texts.todos is None else read(texts.todos, TODOS)
    progress = progress_of(state)
    doing = ", ".join(texts_of(progress.get("in_progress")))
    every = read_todos(todos)
    ready = next_todos(every, limit)
    decisions = read_decisions(texts.decisions or "")
    steps = texts_of(progress.get("next_steps"))
    asked = [_text(state.get("current_task")), doing, _text(state.get("notes")), *steps]
    asked += [f"{todo.title} {todo.description}" for todo in ready]
    return Gathered(
        stamp=stamp_of(texts),
        about=about,
        state=state,
        phase=_text(state.get("phase")),
        current_task=_text(state.get("current_task")),
        completed=texts_of(progress.get("completed")),
        in_progress=doing,
        blocked=texts_of(progress.get("blocked")),
        next_steps=steps,
        notes=_text(state.get("notes")),
        last_update=_text(state.get("last_update")),
        session_id=_text(state.get("session_id")),
        clashes=clashes_of(state),
        tasks=_current(tasks_of(state)),
        next_todos=ready,
        open_todos=sum(todo.is_open for todo in every),
        blocked_todos=sum(todo.status == "blocked" for todo in every),
        last_review=last_review(todos),
        decisions=mattering(decisions, " ".join(asked)),
        decisions_total=len(decisions),
        missing=[name for name, text in texts.named().items() if text is None],
    )


def _current(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ended = [task for task in tasks if task.get("status") in ("done", "failed")]
    return [task for task in tasks if task not in ended or task is ended[-1]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def mattering(
    decisions: list[Decision], asked: str, limit: int = BRIEF_DECISIONS_MAX
) -> list[Decision]:
    """The decisions that say most about what is asked; the newest two where none does."""
    valid = [each for each in decisions if not each.superseded_by]
    words = [_words(f"{each.title} {each.context} {each.decision}") for each in valid]
    titles = [_words(each.title) for each in valid]
    wanted = _words(asked)
    frequency = {word: sum(word in each for each in words) for word in wanted}
    scores: list[tuple[float, int]] = []
    for index, each in enumerate(words):
        shared = wanted & each
        score = sum(
            log(1 + len(valid) / frequency[word]) * (2 if word in titles[index] else 1)
            for word in sorted(shared)
        )
        if score > 0:
            scores.append((score, index))
    best = sorted(scores, key=lambda each: (-each[0], -valid[each[1]].number))[:limit]
    if not best:
        return valid[-2:]
    return [valid[index] for _, index in best]


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text.lower())} - _COMMON


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") else word
