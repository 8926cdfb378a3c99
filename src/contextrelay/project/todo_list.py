"""Todos: how the list in todos.json changes, and what may become of each.

Rule: a function takes the document and gives a new one; parts that stay are the same objects, and
fields that we do not know are kept. Time is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from contextrelay.documents.value_types import is_list, is_object
from contextrelay.errors import Invalid, NotFound, Refused
from contextrelay.limits import PROJECT_FIELD_CHARS_MAX, PROJECT_TODOS_MAX
from contextrelay.model.project import ALLOWED, PRIORITIES, TODOS, Todo, todo_of

Document = dict[str, Any]
# The order in which a new todo's fields are written; the seed's own come first.
_FIELDS = (
    *("id", "title", "description", "priority", "status", "category", "tags"),
    *("created", "updated", "completed_at", "due_date", "assignee"),
    *("blocked_by", "blocking", "notes"),
)
# What a restore leaves in todos.json and in state.json: no number is used for two things.
LAST_NUMBER = "last_number"
_OPTIONAL = ("description", "category", "tags", "due_date", "assignee", "blocked_by", "blocking")


def items_of(document: Any, list_name: str = "todos") -> list[Document]:
    """The todos of a document, as they are written.

    Raises:
        Refused: it is no such document.
    """
    if not is_object(document):
        raise Refused(f"{TODOS} holds no object", 'it must be {"todos": [...]}')
    items = document.get(list_name, [])
    if not is_list(items):
        raise Refused(f"/{list_name} in {TODOS} is no list", f'write "{list_name}": []')
    for index, item in enumerate(items):
        if not is_object(item):
            raise Refused(f"/{list_name}/{index} in {TODOS} is no object", "repair or remove it")
    return items


def read_todos(document: Any) -> list[Todo]:
    """Every todo that is not archived, in the order of the file."""
    return [todo_of(item) for item in items_of(document)]


def next_id(document: Document) -> str:
    """The id of the next todo: one more than the highest ever used here."""
    return f"TODO-{highest(document) + 1:03d}"


def highest(document: Document) -> int:
    """The highest number that a todo has here, or had before a restore took it away."""
    said = document.get(LAST_NUMBER)
    numbers = [said if type(said) is int else 0]
    for list_name in ("todos", "completed"):
        for item in items_of(document, list_name):
            number = todo_of(item).number
            numbers.append(number if number < 10**9 else 0)
    return max(numbers)


def added(document: Document, title: str, now: str, **fields: Any) -> tuple[Document, str]:
    """The document with one more todo, and its id.

    Raises:
        Invalid: a field is not as it must be.
        Refused: there are too many todos.
    """
    items = items_of(document)
    if len(items) >= PROJECT_TODOS_MAX:
        raise Refused(
            f"{TODOS} has {len(items):,} todos",
            f"the limit is {PROJECT_TODOS_MAX:,}; relay project todo archive",
        )
    checked_fields(title=title, **fields)
    id = next_id(document)
    given = {"priority": "medium", "status": "pending", "notes": "", **_given(fields)}
    item = {"id": id, "title": title.strip(), "created": now, "updated": None, **given}
    ordered = {name: item[name] for name in _FIELDS if name in item}
    return {**document, "todos": [*items, ordered]}, id


def _given(fields: Document) -> Document:
    return {
        name: value
        for name, value in fields.items()
        if value not in (None, "", [], ()) or name not in _OPTIONAL
    }


def checked_fields(**fields: Any) -> None:
    """Refuse what no todo may say.

    Raises:
        Invalid: there is such a thing.
    """
    for name, value in fields.items():
        if name == "tags":
            checked_texts(name, value)
        elif not isinstance(value, str | None):
            raise Invalid(f"the {name} of a todo is no text", "give it as a string")
    title = fields.get("title", "x") or ""
    if not title.strip() or "\n" in title.strip():
        raise Invalid("a todo needs a title of one line", 'relay project todo add "Write tests"')
    for name, value in fields.items():
        if isinstance(value, str) and len(value) > PROJECT_FIELD_CHARS_MAX:
            most = f"the limit is {PROJECT_FIELD_CHARS_MAX:,} characters"
            raise Invalid(f"the {name} is too long", f"{most}; push it, and note the ref instead")
    priority = fields.get("priority", "medium")
    if priority not in PRIORITIES:
        raise Invalid(f"{priority!r} is no priority", f"use one of {', '.join(PRIORITIES)}")
    due = fields.get("due_date")
    if due and parsed(due) is None:
        raise Invalid(f"{due!r} is no date", "write 2026-05-01, or with a time and zone")


def checked_texts(name: str, value: Any) -> list[str]:
    """A list of texts; one text by itself is a list of one.

    Raises:
        Invalid: it is neither.
    """
    texts: Any = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):  # pyright: ignore[reportUnknownVariableType]
        raise Invalid(f"{name} is no list of texts", 'give it as ["one", "two"]')
    return list(texts)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def found(document: Document, id: str) -> Document:
    """The todo of an id, as it is written; 3 and todo-3 are TODO-003.

    Raises:
        NotFound: there is none.
    """
    wanted = spelled_id(id)
    for item in items_of(document):
        if todo_of(item).id.upper() == wanted:
            return item
    for item in items_of(document, "completed"):
        if todo_of(item).id.upper() == wanted:
            raise NotFound(f"{wanted} is completed and archived", "see: relay project todo list")
    raise NotFound(f"there is no {wanted}", "see: relay project todo list")


def spelled_id(text: str) -> str:
    """A todo's id out of TODO-003, todo-3 or 3."""
    word = text.strip().upper()
    digits = word.removeprefix("TODO-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        return f"TODO-{int(digits):03d}"
    return word


def changed(document: Document, id: str, **fields: Any) -> Document:
    """The document with other fields for one todo."""
    item = found(document, id)
    items = [{**each, **fields} if each is item else each for each in items_of(document)]
    return {**document, "todos": items}


def moved(document: Document, id: str, status: str, now: str, note: str = "") -> Document:
    """The document after a todo changed its status, as J2 allows it.

    Raises:
        Refused: it may not go there from where it is.
        NotFound: there is none.
    """
    item = found(document, id)
    todo = todo_of(item)
    if todo.status == status:
        return document if not note else changed(document, id, notes=_noted(todo, note))
    allowed = ALLOWED.get(todo.status, ("pending", "in_progress", "cancelled"))
    if status not in allowed:
        raise Refused(
            f"{todo.id} is {todo.status}, and cannot become {status} by a command",
            _way(todo, status, allowed),
        )
    fields: Document = {"status": status, "updated": now}
    if status == "blocked" and not (note or todo.notes or todo.blocked_by):
        raise Refused(
            f"{todo.id} cannot be blocked without a reason",
            f'say it: relay project todo block {todo.id} "why"',
        )
    if status == "completed":
        fields["completed_at"] = now
    if note:
        fields["notes"] = _noted(todo, note)
    return changed(document, todo.id, **fields)


def _way(todo: Todo, status: str, allowed: tuple[str, ...]) -> str:
    if todo.status == "pending" and status == "completed":
        return f"start it first: relay project todo start {todo.id}"
    if not allowed:
        return "it has ended: add a new one, or change todos.json by hand"
    if todo.status == "blocked":
        return f"relay project todo unblock {todo.id} first"
    return f"it can become {' or '.join(allowed)}"


def _noted(todo: Todo, note: str) -> str:
    """A note added to those there are, newest last."""
    if not todo.notes or todo.notes == note:
        return note
    return f"{todo.notes}\n{note}"


def last_review(document: Any) -> str:
    """When the todos were reviewed, in either shape of the file; "" for never."""
    for place in (document, document.get("metadata") if is_object(document) else None):
        value = place.get("last_review") if is_object(place) else None
        if isinstance(value, str):
            return value
    return ""


def reviewed(document: Document, now: str) -> Document:
    """The document after a review, in the shape that it has."""
    metadata = document.get("metadata")
    if "last_review" not in document and is_object(metadata):
        return {**document, "metadata": {**metadata, "last_review": now}}
    return {**document, "last_review": now}


def archived(document: Document, before: str) -> tuple[Document, list[str]]:
    """The document with what was completed before a time moved to `completed`; the ids moved."""
    limit = parsed(before)
    stays: list[Document] = []
    goes: list[Document] = []
    for item in items_of(document):
        ended = parsed(todo_of(item).completed_at) if item.get("status") == "completed" else None
        is_old = ended is not None and limit is not None and ended < limit
        (goes if is_old else stays).append(item)
    if not goes:
        return document, []
    kept = [*items_of(document, "completed"), *goes]
    return {**document, "todos": stays, "completed": kept}, [todo_of(item).id for item in goes]


def parsed(text: str) -> datetime | None:
    """The time in a text; None where there is none. Without a zone it is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def older_than(text: str, now: str, seconds: float) -> bool:
    """Whether a time is longer ago than so many seconds; what is no time counts as long ago."""
    then, here = parsed(text), parsed(now)
    return then is None or here is None or (here - then).total_seconds() > seconds
