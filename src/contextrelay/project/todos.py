"""The todos of a project, one method a command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from contextrelay.errors import Invalid
from contextrelay.limits import ARCHIVE_AFTER_S, NEXT_TODOS_MAX, REVIEW_DUE_S, STALE_AFTER_S
from contextrelay.model.project import TODOS, Todo, todo_of
from contextrelay.project import dependencies
from contextrelay.project import todo_list as logic
from contextrelay.project.files.json_text import read

if TYPE_CHECKING:
    from contextrelay.project.project import Project


class Reviewed(NamedTuple):
    """What a review found."""

    last_review: str
    """When it was before; "" for never."""
    open: int
    overdue: list[str]
    stale: list[str]
    """Begun, but not touched for a week."""
    stuck: list[str]
    """Held up by nothing that will ever end."""
    archived: list[str]


class Todos:
    """The list in todos.json; a changing method returns the todo as it was written."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def add(self, title: str, *, blocked_by: list[str] | None = None, **fields: Any) -> Todo:
        """Add a todo. The fields: priority, description, category, tags, due_date, assignee, notes.

        Raises:
            Invalid: a field is wrong; NotFound: a todo that it waits for is not there.
        """
        known_fields(fields)
        made: list[str] = []

        def make(document: dict[str, Any]) -> dict[str, Any]:
            now = self._project.now()
            document, id = logic.added(document, title, now, **fields)
            made[:] = [id]
            return waiting(document, id, blocked_by or [], now)

        return self._changed(make, lambda: made[0])

    def start(self, id: str, note: str = "") -> Todo:
        """Start a todo.

        Raises:
            Refused: it waits for another, or has ended.
        """
        return self._moved(id, lambda doc, now: dependencies.started(doc, id, now, note))

    def done(self, id: str, note: str = "") -> tuple[Todo, list[str]]:
        """Complete a todo; returns also the ids of those that it unblocked.

        Raises:
            Refused: it was not begun.
        """
        freed: list[str] = []

        def make(document: dict[str, Any], now: str) -> dict[str, Any]:
            document, freed[:] = dependencies.completed(document, id, now, note)
            return document

        return self._moved(id, make), freed

    def block(self, id: str, note: str = "", by: list[str] | None = None) -> Todo:
        """Block a todo, by a reason or by other todos.

        Raises:
            Refused: there is no reason, it has ended, or they would wait for one another.
        """
        return self._moved(id, lambda doc, now: dependencies.blocked(doc, id, now, note, by))

    def unblock(self, id: str, note: str = "", is_started: bool = False) -> Todo:
        """Unblock a todo; it then waits for no other.

        Raises:
            Refused: it has ended.
        """
        status = "in_progress" if is_started else "pending"
        return self._moved(id, lambda doc, now: dependencies.unblocked(doc, id, now, status, note))

    def cancel(self, id: str, note: str = "") -> Todo:
        """Cancel a todo.

        Raises:
            Refused: it has ended.
        """
        return self._moved(id, lambda doc, now: logic.moved(doc, id, "cancelled", now, note))

    def list(self, is_archived: bool = False) -> list[Todo]:
        """Every todo, or every archived one, in the order of the file."""
        list_name = "completed" if is_archived else "todos"
        return [todo_of(item) for item in logic.items_of(self._document(), list_name)]

    def next(self, limit: int = NEXT_TODOS_MAX) -> list[Todo]:
        """Todos that are ready, most urgent first."""
        return dependencies.next_todos(self.list(), limit)

    def review(self) -> Reviewed:
        """Archive what was completed over a week ago, note the time, and list what needs a look."""
        before = self._document()
        moved = self._archived(lambda document: logic.reviewed(document, self._project.now()))
        now = self._project.now()
        every = [todo for todo in self.list() if todo.is_open]
        return Reviewed(
            last_review=logic.last_review(before),
            open=len(every),
            overdue=[t.id for t in every if t.due_date and logic.older_than(t.due_date, now, 0)],
            stale=[
                todo.id
                for todo in every
                if todo.status == "in_progress"
                and logic.older_than(todo.updated or todo.created, now, STALE_AFTER_S)
            ],
            stuck=_stuck(self._document()),
            archived=moved,
        )

    def archive(self) -> list[str]:
        """Move what was completed over a week ago to `completed`; the ids moved."""
        return self._archived(lambda document: document)

    def _archived(self, then: Callable[[dict[str, Any]], dict[str, Any]]) -> list[str]:
        moved: list[str] = []

        def make(document: dict[str, Any]) -> dict[str, Any]:
            now = logic.parsed(self._project.now())
            assert now is not None
            limit = now.astimezone(UTC) - timedelta(seconds=ARCHIVE_AFTER_S)
            document, moved[:] = logic.archived(document, limit.isoformat())
            return then(document)

        self._project.change_json(TODOS, make)
        return moved

    def is_review_due(self) -> bool:
        """Whether the last review is over a day ago."""
        return logic.older_than(
            logic.last_review(self._document()), self._project.now(), REVIEW_DUE_S
        )

    def _document(self) -> dict[str, Any]:
        text = self._project.texts().todos
        return {} if text is None else read(text, TODOS)

    def _moved(self, id: str, make: Callable[[dict[str, Any], str], dict[str, Any]]) -> Todo:
        return self._changed(lambda document: make(document, self._project.now()), lambda: id)

    def _changed(
        self, make: Callable[[dict[str, Any]], dict[str, Any]], id: Callable[[], str]
    ) -> Todo:
        _, after = self._project.change_json(TODOS, make)
        return todo_of(logic.found(read(after.todos or "{}", TODOS), id()))


def waiting(document: dict[str, Any], id: str, others: list[str], now: str) -> dict[str, Any]:
    """Make a new todo wait for others, as far as they are not done."""
    if not others:
        return document
    document = dependencies.linked(document, id, others, now)
    waits = dependencies.open_blockers(document).get(id)
    if not waits:
        return document
    return logic.moved(document, id, "blocked", now, dependencies.WAITS + ", ".join(waits))


def _stuck(document: dict[str, Any]) -> list[str]:
    known = {todo.id: todo for todo in logic.read_todos(document)}
    waits = dependencies.blockers(document)
    stuck: list[str] = []
    for todo in known.values():
        others = [known[each] for each in waits.get(todo.id, ()) if each in known]
        is_held = any(other.status == "cancelled" for other in others)
        is_free = bool(waits.get(todo.id)) and all(o.status == "completed" for o in others)
        if todo.status == "blocked" and (is_held or is_free or not (todo.notes or others)):
            stuck.append(todo.id)
    return stuck


_FIELDS = ("priority", "description", "category", "tags", "due_date", "assignee", "notes")


def known_fields(fields: dict[str, Any]) -> None:
    """Refuse a field that no todo has, or that only we set.

    Raises:
        Invalid: there is one.
    """
    for name in fields:
        if name not in _FIELDS:
            raise Invalid(f"a todo has no {name!r}", f"it has title, {', '.join(_FIELDS)}")
