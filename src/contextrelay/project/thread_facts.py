"""Facts: the fields of a project's files as facts of its thread, and files out of such facts.

`project.<field>` is a field of state.json, `project.todo.<id>` a todo, `project.todos.<field>`
another field of todos.json, `project.decision.<id>` a section of decisions.md, and `project.about`
the text of PROJECT.md.

Rule: files are the truth. A thread learns from them; they learn from it only when that is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextrelay.documents.value_types import is_object, same
from contextrelay.model.project import STATE, TODOS, Texts, todo_of
from contextrelay.project.decisions import joined, read_decisions
from contextrelay.project.files.json_edit import edited, written
from contextrelay.project.files.json_text import read
from contextrelay.project.progress import last_task
from contextrelay.project.todo_list import LAST_NUMBER, highest, items_of

PREFIX = "project."
_TODO, _TODOS, _DECISION, _ABOUT = (
    f"{PREFIX}{name}" for name in ("todo.", "todos.", "decision.", "about")
)
_LISTS = {"todos": "", "completed": "completed"}
# It says in which list of todos.json a todo is; there is none in the file.
_LIST_FIELD = "_list"


def facts_of(texts: Texts) -> dict[str, Any]:
    """Every field of the files, by the key of its fact.

    Raises:
        Broken: a file is no JSON.
    """
    facts: dict[str, Any] = {}
    if texts.about is not None:
        facts[_ABOUT] = texts.about
    for decision in read_decisions(texts.decisions or ""):
        facts[f"{_DECISION}{decision.id}"] = decision.text
    if texts.todos is not None:
        facts |= _todo_facts(read(texts.todos, TODOS))
    state = read(texts.state, STATE) if texts.state is not None else None
    if is_object(state):
        facts |= {f"{PREFIX}{name}": value for name, value in state.items()}
    return facts


def _todo_facts(document: Any) -> dict[str, Any]:
    if not is_object(document):
        return {}
    facts: dict[str, Any] = {
        f"{_TODOS}{name}": value for name, value in document.items() if name not in _LISTS
    }
    for list_name, mark in _LISTS.items():
        for item in items_of(document, list_name):
            value = {**item, _LIST_FIELD: mark} if mark else item
            facts[f"{_TODO}{todo_of(item).id}"] = value
    return facts


def with_facts(known: list[dict[str, Any]], facts: dict[str, Any], at: str) -> list[dict[str, Any]]:
    """The facts of a thread after it learned what the files say; facts of others stay."""
    result: list[dict[str, Any]] = []
    seen: set[str] = set()
    for fact in known:
        key = fact["key"]
        if not key.startswith(PREFIX):
            result.append(fact)
        elif key in facts and key not in seen:
            seen.add(key)
            is_same = same(fact["value"], facts[key])
            result.append(fact if is_same else {**fact, "value": facts[key], "at": at})
    result += [
        {"id": key, "key": key, "value": value, "at": at}
        for key, value in facts.items()
        if key not in seen
    ]
    return result


def restored(facts: dict[str, Any], texts: Texts) -> Texts:
    """The files as the facts of a version have them; decisions made since then stay.

    Raises:
        Broken: a file that is there is no JSON.
    """
    about = facts.get(_ABOUT)
    state = {
        key.removeprefix(PREFIX): value
        for key, value in facts.items()
        if key.startswith(PREFIX)
        and key != _ABOUT
        and not key.startswith((_TODO, _TODOS, _DECISION))
    }
    todos = _todos_document(facts)
    return Texts(
        about=about if isinstance(about, str) else texts.about,
        state=_document(texts.state, _numbered(state, texts.state, STATE, last_task), STATE),
        todos=_document(texts.todos, _numbered(todos, texts.todos, TODOS, highest), TODOS),
        decisions=_with_decisions(texts.decisions, facts),
    )


def _numbered(
    value: dict[str, Any], text: str | None, name: str, last: Callable[[dict[str, Any]], int]
) -> dict[str, Any]:
    """A document that remembers the highest number given so far, where it does not show it."""
    now = read(text, name) if text is not None else None
    if not value or not is_object(now) or last(now) <= last(value):
        return value
    return {**value, LAST_NUMBER: last(now)}


def _document(text: str | None, value: dict[str, Any], name: str) -> str | None:
    if not value:
        return text
    return written(value) if text is None else edited(text, value, name)


def _todos_document(facts: dict[str, Any]) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {"": [], "completed": []}
    document: dict[str, Any] = {}
    for key, value in facts.items():
        if key.startswith(_TODO) and is_object(value):
            item = {name: each for name, each in value.items() if name != _LIST_FIELD}
            # Anybody may write to a thread: what is no list of ours is the first.
            lists["completed" if value.get(_LIST_FIELD) == "completed" else ""].append(item)
        elif key.startswith(_TODOS):
            document[key.removeprefix(_TODOS)] = value
    if not document and not any(lists.values()):
        return {}
    todos = {"todos": sorted(lists[""], key=lambda item: todo_of(item).number)}
    return todos | ({"completed": lists["completed"]} if lists["completed"] else {}) | document


def _with_decisions(text: str | None, facts: dict[str, Any]) -> str | None:
    there = {decision.id for decision in read_decisions(text or "")}
    for key, section in facts.items():
        id = key.removeprefix(_DECISION)
        if key.startswith(_DECISION) and id not in there and isinstance(section, str):
            text = joined(text, section)
    return text
