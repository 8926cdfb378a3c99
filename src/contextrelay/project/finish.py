"""Finishing: one change of state, todos and decisions, out of the fields of `finish`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contextrelay.documents.value_types import is_object
from contextrelay.errors import Invalid
from contextrelay.model.project import DECISIONS, STATE, TODOS, Clash, Finished, Texts
from contextrelay.project import dependencies
from contextrelay.project import todo_list as todos
from contextrelay.project.decisions import appended
from contextrelay.project.progress import Progress, progressed, progressed_since
from contextrelay.project.todos import known_fields, waiting

if TYPE_CHECKING:
    from contextrelay.project.project import Project

Document = dict[str, Any]
_TEXTS = ("phase", "current_task", "in_progress", "notes", "session_id")
_LISTS = ("completed", "blocked", "next_steps")
_TODO_ACTS = ("add", "start", "done", "block", "unblock", "cancel")
_DECISION_PARTS = ("title", "status", "context", "decision", "consequences", "supersedes")


class Finishing:
    """The change to write; `make` may be called several times, and the last call counts."""

    def __init__(self, project: Project, fields: Document, seen: Document | None) -> None:
        known = (*_TEXTS, *_LISTS, "fields", "todos", "decisions")
        for name in fields:
            if name not in known:
                raise Invalid(f"finish takes no {name!r}", f"it takes {', '.join(known)}")
        self._project = project
        self._progress = _progress(fields)
        self._acts = _acts(fields.get("todos") or {})
        self._decisions = [_decision(each) for each in _list("decisions", fields)]
        self._seen = seen
        self._added: list[str] = []
        self._decided: list[str] = []
        self._unblocked: list[str] = []
        self._clashes: list[Clash] = []

    def make(self, texts: Texts) -> Texts:
        """The files with the change."""
        self._added, self._decided, self._unblocked, self._clashes = [], [], [], []
        now = self._project.now()
        decisions = texts.decisions
        for parts in self._decisions:
            decisions, id = appended(decisions, date=now[:10], **parts)
            self._decided.append(id)
        if self._decisions:
            texts = texts.having(DECISIONS, decisions)
        if any(self._acts.values()):
            changed = self._project.changed_text(
                TODOS, texts.todos, lambda document: self._todos(document, now)
            )
            texts = texts.having(TODOS, changed)
        changed = self._project.changed_text(
            STATE, texts.state, lambda state: self._state(state, now)
        )
        return texts.having(STATE, changed)

    def finished(self, files: list[str]) -> Finished:
        """The result, once it is written."""
        return Finished(files, self._added, self._decided, self._unblocked, self._clashes)

    def _state(self, state: Document, now: str) -> Document:
        if self._seen is None:
            return progressed(state, self._progress, now)
        state, self._clashes = progressed_since(self._seen, state, self._progress, now)
        return state

    def _todos(self, document: Document, now: str) -> Document:
        for act in self._acts["add"]:
            title, others, fields = _new(act)
            document, id = todos.added(document, title, now, **fields)
            document = waiting(document, id, others, now)
            self._added.append(id)
        for id, note in map(_named, self._acts["start"]):
            document = dependencies.started(document, id, now, note)
        for id, note in map(_named, self._acts["done"]):
            document, freed = dependencies.completed(document, id, now, note)
            self._unblocked += freed
        for id, note in map(_named, self._acts["block"]):
            document = dependencies.blocked(document, id, now, note)
        for id, note in map(_named, self._acts["unblock"]):
            document = dependencies.unblocked(document, id, now, "pending", note)
        for id, note in map(_named, self._acts["cancel"]):
            document = todos.moved(document, id, "cancelled", now, note)
        return document


def _new(act: Any) -> tuple[str, list[str], Document]:
    """A new todo, what it waits for and its other fields, out of a title or an object."""
    fields: Any = {"title": act} if isinstance(act, str) else act
    if not is_object(fields):
        raise Invalid(f"{act!r} is no todo", 'write "a title", or {"title": "...", ...}')
    named = {"title": "", **fields}
    others = todos.checked_texts("blocked_by", named.pop("blocked_by", None))
    title = named.pop("title")
    known_fields(named)
    return title, others, named


def _named(act: Any) -> tuple[str, str]:
    """A todo and a note about it, out of "TODO-001" or {"id": "TODO-001", "note": "why"}."""
    if isinstance(act, str):
        return act, ""
    if isinstance(act, Mapping):
        id, note = act.get("id"), act.get("note", "")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if isinstance(id, str) and isinstance(note, str):
            return id, note
    raise Invalid(
        f"{act!r} names no todo", 'write "TODO-001", or {"id": "TODO-001", "note": "..."}'
    )


def _progress(fields: Document) -> Progress:
    for name in _TEXTS:
        if not isinstance(fields.get(name, ""), str | None):
            raise Invalid(f"{name} is no text", "give it as a string")
    given: Document = {name: fields[name] for name in _TEXTS if fields.get(name) is not None}
    for name in _LISTS:
        if fields.get(name) is not None:
            values = _list(name, fields)
            if not all(isinstance(each, str) for each in values):
                raise Invalid(f"{name} is no list of texts", 'give it as ["one", "two"]')
            given[name] = tuple(values)
    others: Any = fields.get("fields") or {}
    if not isinstance(others, dict):
        raise Invalid("fields is no object", 'give it as {"name": value}')
    return Progress(**given, fields=others)


def _list(name: str, fields: Document) -> list[Any]:
    value = fields.get(name)
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise Invalid(f"{name} is no list", 'give it as ["one", "two"]')
    return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _acts(given: Any) -> dict[str, list[Any]]:
    if not isinstance(given, dict) or any(name not in _TODO_ACTS for name in given):  # pyright: ignore[reportUnknownVariableType]
        raise Invalid(
            "todos is not as it must be", f"it is an object of lists: {', '.join(_TODO_ACTS)}"
        )
    return {name: _list(name, given) for name in _TODO_ACTS}  # pyright: ignore[reportUnknownArgumentType]


def _decision(given: Any) -> Document:
    parts: Any = {"title": given} if isinstance(given, str) else given
    if not is_object(parts) or not isinstance(parts.get("title"), str):
        raise Invalid("a decision has no title", 'give it as {"title": "Use SQLite", ...}')
    for name, value in parts.items():
        if name not in _DECISION_PARTS:
            raise Invalid(f"a decision has no {name!r}", f"it has {', '.join(_DECISION_PARTS)}")
        if name != "supersedes" and not isinstance(value, str):
            raise Invalid(f"the {name} of a decision is no text", "give it as a string")
    return {**parts, "supersedes": todos.checked_texts("supersedes", parts.get("supersedes"))}
