"""Dependencies: which todo waits for which, and what to do next.

Rule: `blocked_by` of one and `blocking` of another say the same; commands write both, and reading
takes either. No command makes a circle.
"""

from __future__ import annotations

from typing import Any

from contextrelay.errors import Refused
from contextrelay.limits import NEXT_TODOS_MAX
from contextrelay.model.project import Todo, todo_of
from contextrelay.project.todo_list import (
    Document,
    changed,
    found,
    items_of,
    moved,
    parsed,
    read_todos,
    spelled_id,
)

# What a todo's notes begin with while it waits for others, if nobody gave another reason.
WAITS = "waits for "


def blockers(document: Any) -> dict[str, set[str]]:
    """For each todo those that it waits for, whether or not they are done."""
    return _waits(read_todos(document))


def _waits(todos: list[Todo]) -> dict[str, set[str]]:
    waits: dict[str, set[str]] = {}
    for todo in todos:
        waits.setdefault(todo.id, set()).update(todo.blocked_by)
        for other in todo.blocking:
            waits.setdefault(other, set()).add(todo.id)
    return waits


def open_blockers(document: Any) -> dict[str, list[str]]:
    """For each todo those that it still waits for; what is archived or gone holds nobody up."""
    return _open_waits(read_todos(document))


def _open_waits(todos: list[Todo]) -> dict[str, list[str]]:
    unfinished = {todo.id for todo in todos if todo.status != "completed"}
    return {id: sorted(waits & unfinished) for id, waits in _waits(todos).items()}


def linked(document: Document, id: str, others: list[str], now: str) -> Document:
    """The document in which a todo waits for others.

    Raises:
        Refused: they would wait for one another.
        NotFound: one of them is not there.
    """
    own = todo_of(found(document, id))
    waits = blockers(document)
    for name in others:
        other = todo_of(found(document, name))
        circle = _path(waits, other.id, own.id)
        if other.id == own.id or circle:
            chain = " waits for ".join([own.id, *circle] if circle else [own.id, own.id])
            raise Refused(f"these would wait for one another: {chain}", "leave one of them out")
        waits.setdefault(own.id, set()).add(other.id)
        document = _both_ways(document, own.id, other.id, now)
    return document


def _both_ways(document: Document, id: str, other: str, now: str) -> Document:
    own, blocker = todo_of(found(document, id)), todo_of(found(document, other))
    if other not in own.blocked_by:
        document = changed(document, id, blocked_by=[*own.blocked_by, other], updated=now)
    if id not in blocker.blocking:
        document = changed(document, other, blocking=[*blocker.blocking, id], updated=now)
    return document


def _path(waits: dict[str, set[str]], start: str, goal: str) -> list[str]:
    """How `start` comes to wait for `goal`, both named; nothing where it does not."""
    came_from: dict[str, str] = {start: ""}
    queue = [start]
    for id in queue:
        if id == goal:
            path = [id]
            while came_from[path[-1]]:
                path.append(came_from[path[-1]])
            return path[::-1]
        for other in sorted(waits.get(id, ())):
            if other not in came_from:
                came_from[other] = id
                queue.append(other)
    return []


def circles(document: Any) -> list[list[str]]:
    """Todos that wait for one another, as a hand may have written them."""
    waits = blockers(document)
    found_circles: list[list[str]] = []
    seen: set[str] = set()
    for id in waits:
        if id in seen:
            continue
        for other in sorted(waits[id]):
            path = _path(waits, other, id)
            if path:
                found_circles.append([id, *path])
                seen.update(path)
                break
    return found_circles


def started(document: Document, id: str, now: str, note: str = "") -> Document:
    """The document in which a todo is worked on.

    Raises:
        Refused: it waits for another, or has ended.
    """
    own = todo_of(found(document, id))
    waits = open_blockers(document).get(own.id)
    if waits and own.status != "in_progress":
        raise Refused(
            f"{own.id} waits for {', '.join(waits)}",
            f"do that first, or: relay project todo unblock {own.id}",
        )
    return moved(document, own.id, "in_progress", now, note)


def completed(document: Document, id: str, now: str, note: str = "") -> tuple[Document, list[str]]:
    """The document in which a todo is done, and the ids of those that it unblocked.

    Raises:
        Refused: it was not started.
    """
    own = todo_of(found(document, id))
    held_up = {each for each, waits in blockers(document).items() if own.id in waits}
    document = moved(document, own.id, "completed", now, note)
    still = open_blockers(document)
    freed: list[str] = []
    for todo in read_todos(document):
        if todo.id in held_up and todo.status == "blocked" and not still.get(todo.id):
            notes = "" if todo.notes.startswith(WAITS) else todo.notes
            document = changed(document, todo.id, status="pending", updated=now, notes=notes)
            freed.append(todo.id)
    return document, freed


def blocked(
    document: Document, id: str, now: str, note: str = "", others: list[str] | None = None
) -> Document:
    """The document in which a todo is held up, by a reason, by others, or by both.

    Raises:
        Refused: there is no reason, or a circle.
    """
    own = todo_of(found(document, id))
    document = linked(document, own.id, others or [], now)
    if others and not note:
        note = WAITS + ", ".join(spelled_id(each) for each in others)
    return moved(document, own.id, "blocked", now, note)


def unblocked(document: Document, id: str, now: str, status: str, note: str = "") -> Document:
    """The document in which a todo is held up no longer, and waits for nobody.

    Raises:
        Refused: it has ended.
    """
    own = todo_of(found(document, id))
    document = moved(document, own.id, status, now, note)
    for item in items_of(document):
        todo = todo_of(item)
        if own.id in todo.blocking:
            rest = [each for each in todo.blocking if each != own.id]
            document = changed(document, todo.id, blocking=rest)
    if own.blocked_by:
        document = changed(document, own.id, blocked_by=[])
    return document


def next_todos(todos: list[Todo], limit: int = NEXT_TODOS_MAX) -> list[Todo]:
    """What to do now: ready ones only, by priority, begun ones first, then by date and number."""
    waits = _open_waits(todos)
    ready = [
        todo
        for todo in todos
        if todo.status == "in_progress" or (todo.status == "pending" and not waits.get(todo.id))
    ]
    return sorted(ready, key=_urgency)[:limit]


def _urgency(todo: Todo) -> tuple[int, bool, float, int]:
    due = parsed(todo.due_date) if todo.due_date else None
    at = due.timestamp() if due else float("inf")
    return todo.rank, todo.status != "in_progress", at, todo.number
