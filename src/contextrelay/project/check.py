"""Checking: what is wrong with a project's files, where, and how to repair it; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from contextrelay.documents.value_types import is_object
from contextrelay.errors import RelayError
from contextrelay.limits import REVIEW_DUE_S
from contextrelay.model.project import (
    ABOUT,
    DECISIONS,
    FILES,
    OWN_FOLDER,
    PRIORITIES,
    STATE,
    STATUSES,
    TODOS,
)
from contextrelay.project import todo_list as logic
from contextrelay.project.decisions import read_decisions
from contextrelay.project.dependencies import blockers, circles
from contextrelay.project.files import confined
from contextrelay.project.files.folder import read_text
from contextrelay.project.files.json_text import read
from contextrelay.project.files.secrets import secrets_in
from contextrelay.project.progress import clashes_of, state_of
from contextrelay.project.project import Project


class Finding(Struct, frozen=True, rename={"text": "told"}):
    """A problem, or a file without one."""

    file: str
    state: Literal["ok", "hint", "failure"]
    text: str
    next_step: str = ""


def check(project: Project) -> list[Finding]:
    """Check every file by itself, so that one that is broken does not hide another."""
    found: list[Finding] = []
    for name in FILES:
        problems: list[Finding] = []
        try:
            text = read_text(project.folder, name)
            if text is None:
                problems.append(Finding(name, "hint", "is missing", "relay project init makes it"))
            else:
                problems += _CHECKS[name](text, project.now())
                for secret in secrets_in(name, text):
                    found_secret = f"{secret.kind} {secret.shown}"
                    problem = f"line {secret.line} looks like a secret ({found_secret})"
                    hint = "take it out, and make it invalid where it came from"
                    problems.append(Finding(name, "failure", problem, hint))
        except RelayError as error:
            problems.append(Finding(name, "failure", error.message, error.hint))
        found += problems or [Finding(name, "ok", "is as it should be")]
    return [*found, *_own_folder(project)]


def _own_folder(project: Project) -> Iterator[Finding]:
    """What is in our folder, and is neither a file nor a folder."""
    try:
        listed = confined.entries(project.folder, OWN_FOLDER)
    except RelayError as error:
        yield Finding(OWN_FOLDER, "failure", error.message, error.hint)
        return
    for entry in listed:
        if not (entry.is_file or entry.is_folder):
            path = f"{OWN_FOLDER}/{entry.name}"
            yield Finding(path, "failure", "is no plain file", f"see what it is: ls -l {path}")


def _about(text: str, now: str) -> Iterator[Finding]:
    if not any(line.startswith("# ") for line in text.lstrip("\ufeff").splitlines()):
        yield Finding(ABOUT, "hint", "has no heading with a name", "begin it with: # Name")


def _state(text: str, now: str) -> Iterator[Finding]:
    state = state_of(read(text, STATE))
    if "progress" in state and not is_object(state["progress"]):
        yield Finding(STATE, "failure", "/progress is no object", 'write "progress": {}')
    update = state.get("last_update")
    if isinstance(update, str) and update and logic.parsed(update) is None:
        yield Finding(
            STATE, "hint", f"/last_update {update!r} is no time", "write 2026-05-01T10:00Z"
        )
    for clash in clashes_of(state):
        yield Finding(
            STATE,
            "hint",
            f"two writers changed {clash.get('field')}: {clash.get('kept')!r} stands, "
            f"{clash.get('other')!r} was wanted too",
            f"choose: relay project finish --set {clash.get('field')}=VALUE",
        )


def _todos(text: str, now: str) -> Iterator[Finding]:
    document: Any = read(text, TODOS)
    every = logic.read_todos(document)
    logic.items_of(document, "completed")
    counted = Counter(todo.id for todo in every)
    for id, number in counted.items():
        if number > 1:
            yield Finding(TODOS, "failure", f"{id} is there {number} times", "give one a new id")
    for todo in every:
        if not todo.id or not todo.title:
            text = f"a todo has no {'title' if todo.id else 'id'}: {todo.id or todo.title!r}"
            yield Finding(TODOS, "failure", text, "give it one")
        if todo.status not in STATUSES:
            text = f"{todo.id} has the status {todo.status!r}"
            yield Finding(TODOS, "hint", text, f"use {', '.join(STATUSES)}")
        if todo.priority not in PRIORITIES:
            text = f"{todo.id} has the priority {todo.priority!r}"
            yield Finding(TODOS, "hint", text, f"use {', '.join(PRIORITIES)}")
    archived = {str(item.get("id")) for item in logic.items_of(document, "completed")}
    for id, others in blockers(document).items():
        for other in sorted(others - set(counted) - archived):
            yield Finding(TODOS, "hint", f"{id} waits for {other}, which is not there", "remove it")
    for circle in circles(document):
        text = " waits for ".join(circle)
        yield Finding(TODOS, "failure", text, f"relay project todo unblock {circle[0]}")
    if logic.older_than(logic.last_review(document), now, REVIEW_DUE_S):
        yield Finding(TODOS, "hint", "was not reviewed for a day", "relay project todo review")


def _decisions(text: str, now: str) -> Iterator[Finding]:
    counted = Counter(each.number for each in read_decisions(text))
    for number, times in sorted(counted.items()):
        if times > 1:
            text = f"ADR-{number:03d} is there {times} times"
            yield Finding(DECISIONS, "failure", text, "give the newer one the next number")
    missing = sorted(set(range(1, max(counted, default=0))) - set(counted))
    if missing:
        some = ", ".join(f"ADR-{number:03d}" for number in missing[:5])
        yield Finding(DECISIONS, "hint", f"{some} is not there", "decisions are never deleted")


_CHECKS = {ABOUT: _about, STATE: _state, TODOS: _todos, DECISIONS: _decisions}
