"""todos.json: the todos, their status, which of them wait for others, and which are next.

`TodoList` changes a parsed document. A method of `Todos` makes one such change and writes the file.

Rule: `blocked_by` of one todo and `blocking` of the other are equivalent. Commands write both, and
either is accepted when the file is read. Commands allow the transitions in `ALLOWED` and create no
cycle. Whatever a user wrote by hand is accepted, and unknown fields are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Invalid, NotFound, Refused
from contextrelay.limits import DAY_S, NEXT_TODOS_MAX, REVIEW_DUE_S
from contextrelay.model.project import ALLOWED, TODOS, Todo, todo_of
from contextrelay.project.changes import NewTodo, TodoChanges, as_list, read_input
from contextrelay.project.documents import Document, load_document

if TYPE_CHECKING:
    from contextrelay.project.project import Project

PROJECT_TODOS_MAX = 10_000
ARCHIVE_AFTER_S = 7 * DAY_S
STALE_AFTER_S = 7 * DAY_S
LAST_NUMBER = "last_number"
"""The field that a restore sets in todos.json and state.json, so that removed ids are not used
again.
"""
_WAITING = "waits for "
"""The beginning of the notes of a todo that waits for others, unless the user gave a reason."""


class Reviewed(NamedTuple):
    """The result of a review of the todos."""

    last_review: str
    """The time of the previous review, or "" if there was none."""
    open: int
    overdue: list[str]
    stale: list[str]
    """The ids of todos that are in progress but were not changed for a week."""
    stuck: list[str]
    """The ids of todos that are blocked, and that nothing will unblock."""
    archived: list[str]


class TodoList:
    """The document of todos.json. The methods change the document."""

    def __init__(self, document: Document, now: str = "") -> None:
        self.document = document
        self._now = now

    def items(self, name: str = "todos") -> list[Document]:
        """Return the items of the todos, or with the name "completed" those of the archive."""
        items = self.document.get(name, [])
        if not is_list(items):
            raise Refused(f"/{name} in {TODOS} is not a list", f'write "{name}": []')
        for index, item in enumerate(items):
            if not is_object(item):
                problem = f"/{name}/{index} in {TODOS} is not an object"
                raise Refused(problem, "fix or remove this item")
        return items

    def read(self) -> list[Todo]:
        """Return every todo that is not archived."""
        return [todo_of(item) for item in self.items()]

    def find(self, id: str) -> Document:
        """Return the item of a todo. The ids 3 and todo-3 mean TODO-003.

        Raises:
            NotFound: there is no such todo.
        """
        wanted = spell_id(id)
        for name in ("todos", "completed"):
            for item in self.items(name):
                if todo_of(item).id.upper() == wanted:
                    if name == "todos":
                        return item
                    raise NotFound(f"{wanted} is archived", "see: relay project todo list")
        raise NotFound(f"{wanted} not found", "see: relay project todo list")

    def last_number(self) -> int:
        """Return the highest number that a todo has or had."""
        kept = self.document.get(LAST_NUMBER)
        numbers = (todo_of(item).number for item in [*self.items(), *self.items("completed")])
        return max([kept if type(kept) is int else 0, *(n for n in numbers if n < 10**9)])

    def apply(self, changes: TodoChanges) -> tuple[list[str], list[str]]:
        """Make the changes of `finish`. Return the ids of the new and of the unblocked todos."""
        added = [self.add(NewTodo(each) if isinstance(each, str) else each) for each in changes.add]
        unblocked: list[str] = []
        for name in ("start", "done", "block", "unblock", "cancel"):
            for each in getattr(changes, name):
                id, note = (each, "") if isinstance(each, str) else (each.id, each.note)
                unblocked += getattr(self, name)(id, note) or ()
        return added, unblocked

    def add(self, new: NewTodo) -> str:
        """Add a todo and return its id.

        Raises:
            Invalid: a field is invalid; NotFound: a todo in `blocked_by` does not exist.
            Refused: there are too many todos.
        """
        title = new.title.strip()
        if not title or "\n" in title:
            hint = 'relay project todo add "Write tests"'
            raise Invalid("a todo needs a title of one line", hint)
        if new.due_date and parse_time(new.due_date) is None:
            hint = "write 2026-05-01, optionally with a time and zone"
            raise Invalid(f"invalid date {new.due_date!r}", hint)
        if len(self.items()) >= PROJECT_TODOS_MAX:
            hint = f"the limit is {PROJECT_TODOS_MAX:,}; relay project todo archive"
            raise Refused(f"{TODOS} is full", hint)
        id = f"TODO-{self.last_number() + 1:03d}"
        item = {
            "id": id,
            "title": title,
            "description": new.description,
            "priority": new.priority,
            "status": "pending",
            "category": new.category,
            "tags": as_list(new.tags),
            "created": self._now,
            "updated": None,
            "due_date": new.due_date,
            "assignee": new.assignee,
            "notes": new.notes or "",
        }
        item = {name: each for name, each in item.items() if each or name in ("updated", "notes")}
        self.document.setdefault("todos", []).append(item)
        if others := as_list(new.blocked_by):
            self._link(id, others)
            if waits := open_blockers(self.read()).get(id):
                self.set_status(id, "blocked", _WAITING + ", ".join(waits))
        return id

    def start(self, id: str, note: str = "", assignee: str = "") -> None:
        """Start a todo. Raise Refused if the todo waits for another one."""
        item = self.find(id)
        own = todo_of(item)
        waits = open_blockers(self.read()).get(own.id)
        if waits and own.status != "in_progress":
            hint = f"complete that first, or: relay project todo unblock {own.id}"
            raise Refused(f"{own.id} waits for {', '.join(waits)}", hint)
        self.set_status(id, "in_progress", note)
        if assignee:
            item["assignee"] = assignee

    def done(self, id: str, note: str = "") -> list[str]:
        """Complete a todo and return the ids of the todos that this unblocks."""
        own = self.set_status(id, "completed", note)
        todos = self.read()
        waits, left = blockers(todos), open_blockers(todos)
        freed: list[str] = []
        for item, todo in zip(self.items(), todos, strict=True):
            is_freed = own.id in waits.get(todo.id, ()) and not left.get(todo.id)
            if todo.status == "blocked" and is_freed:
                notes = "" if todo.notes.startswith(_WAITING) else todo.notes
                item |= {"status": "pending", "updated": self._now, "notes": notes}
                freed.append(todo.id)
        return freed

    def block(self, id: str, note: str = "", others: list[str] | None = None) -> None:
        """Block a todo for a reason, or because it waits for other todos."""
        if others:
            self._link(id, others)
            note = note or _WAITING + ", ".join(spell_id(each) for each in others)
        self.set_status(id, "blocked", note)

    def unblock(self, id: str, note: str = "", is_started: bool = False) -> None:
        """Unblock a todo, so that it waits for no other todo."""
        own = self.set_status(id, "in_progress" if is_started else "pending", note)
        for other in self.items():
            blocking = todo_of(other).blocking
            if own.id in blocking:
                other["blocking"] = [each for each in blocking if each != own.id]
        if own.blocked_by:
            self.find(id)["blocked_by"] = []

    def cancel(self, id: str, note: str = "") -> None:
        """Cancel a todo."""
        self.set_status(id, "cancelled", note)

    def set_status(self, id: str, status: str, note: str = "") -> Todo:
        """Change the status of a todo, and add a text to its notes. Return the old todo.

        Raises:
            Refused: the transition is not allowed, or the todo is blocked without a reason.
        """
        item = self.find(id)
        todo = todo_of(item)
        if todo.status != status:
            allowed = ALLOWED.get(todo.status, ("pending", "in_progress", "cancelled"))
            if status not in allowed:
                problem = f"{todo.id} is {todo.status}, so it cannot become {status}"
                raise Refused(problem, _transition_hint(todo, status, allowed))
            if status == "blocked" and not (note or todo.notes or todo.blocked_by):
                hint = f'give a reason: relay project todo block {todo.id} "why"'
                raise Refused(f"{todo.id} cannot be blocked without a reason", hint)
            item |= {"status": status, "updated": self._now}
            if status == "completed":
                item["completed_at"] = self._now
        if note:
            is_known = not todo.notes or todo.notes == note
            item["notes"] = note if is_known else f"{todo.notes}\n{note}"
        return todo

    def _link(self, id: str, others: list[str]) -> None:
        """Make a todo wait for others. Raise Refused if todos would then wait for each other."""
        item = self.find(id)
        own = todo_of(item).id
        waits = blockers(self.read())
        for each in others:
            other = self.find(each)
            name = todo_of(other).id
            if path := _path(waits, name, own):
                problem = f"todos would wait for each other: {' waits for '.join([own, *path])}"
                raise Refused(problem, "leave one of these todos out")
            waits.setdefault(own, set()).add(name)
            for one, field, value in ((item, "blocked_by", name), (other, "blocking", own)):
                known: tuple[str, ...] = getattr(todo_of(one), field)
                if value not in known:
                    one |= {field: [*known, value], "updated": self._now}

    def last_review(self) -> str:
        """Return the time of the last review, or "" if there was none."""
        value = self._review_place().get("last_review")
        return value if isinstance(value, str) else ""

    def _review_place(self) -> Document:
        """Return the object that has `last_review`: the document, or its `metadata`."""
        metadata = self.document.get("metadata")
        if is_object(metadata) and metadata and "last_review" not in self.document:
            return metadata
        return self.document

    def review(self) -> Reviewed:
        """Archive old todos, set the time of the review, and return what needs attention."""
        before, now, archived = self.last_review(), self._now, self.archive()
        self._review_place()["last_review"] = now
        todos = self.read()
        open = [todo for todo in todos if todo.is_open]
        begun = [todo for todo in open if todo.status == "in_progress"]
        return Reviewed(
            last_review=before,
            open=len(open),
            overdue=[t.id for t in open if t.due_date and is_older(t.due_date, now, 0)],
            stale=[t.id for t in begun if is_older(t.updated or t.created, now, STALE_AFTER_S)],
            stuck=_stuck(todos),
            archived=archived,
        )

    def archive(self) -> list[str]:
        """Move todos that were completed over a week ago to `completed`; return their ids."""
        old: list[Document] = []
        left: list[Document] = []
        for item, todo in zip(self.items(), self.read(), strict=True):
            has_time = item.get("status") == "completed" and parse_time(todo.completed_at)
            is_old = has_time and is_older(todo.completed_at, self._now, ARCHIVE_AFTER_S)
            (old if is_old else left).append(item)
        if old:
            self.document |= {"completed": [*self.items("completed"), *old], "todos": left}
        return [todo_of(item).id for item in old]


def blockers(todos: list[Todo]) -> dict[str, set[str]]:
    """Return the ids of the todos that each todo waits for, completed or not, by id."""
    waits: dict[str, set[str]] = {}
    for todo in todos:
        waits.setdefault(todo.id, set()).update(todo.blocked_by)
        for other in todo.blocking:
            waits.setdefault(other, set()).add(todo.id)
    return waits


def open_blockers(todos: list[Todo]) -> dict[str, list[str]]:
    """Return the ids of the todos that each todo still waits for. Archived ones do not block."""
    unfinished = {todo.id for todo in todos if todo.status != "completed"}
    return {id: sorted(waits & unfinished) for id, waits in blockers(todos).items()}


def next_todos(todos: list[Todo], limit: int = NEXT_TODOS_MAX) -> list[Todo]:
    """Return the todos that are ready, by priority, started ones first, then by due date."""
    waits = open_blockers(todos)

    def is_ready(todo: Todo) -> bool:
        is_free = todo.status == "pending" and not waits.get(todo.id)
        return is_free or todo.status == "in_progress"

    def urgency(todo: Todo) -> tuple[int, bool, float, int]:
        due = parse_time(todo.due_date)
        at = due.timestamp() if due else float("inf")
        return todo.rank, todo.status != "in_progress", at, todo.number

    return sorted(filter(is_ready, todos), key=urgency)[:limit]


def cycles(todos: list[Todo]) -> list[list[str]]:
    """Return lists of ids of todos that wait for each other, which only edits by hand can cause."""
    waits = blockers(todos)
    found: list[list[str]] = []
    for id in waits:
        paths = (_path(waits, other, id) for other in sorted(waits[id]))
        path = next(filter(None, paths), None)
        if path and not any(id in cycle for cycle in found):
            found.append([id, *path])
    return found


def _stuck(todos: list[Todo]) -> list[str]:
    """Return the ids of the blocked todos that nothing will unblock."""
    known = {todo.id: todo for todo in todos}
    waits = blockers(todos)
    found: list[str] = []
    for todo in known.values():
        others = [known[each] for each in waits.get(todo.id, ()) if each in known]
        is_held = any(other.status == "cancelled" for other in others)
        is_free = bool(waits.get(todo.id)) and all(o.status == "completed" for o in others)
        if todo.status == "blocked" and (is_held or is_free or not (todo.notes or others)):
            found.append(todo.id)
    return found


def spell_id(text: str) -> str:
    """Return the id in its full form, TODO-003, for TODO-003, todo-3 or 3."""
    word = text.strip().upper()
    digits = word.removeprefix("TODO-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        return f"TODO-{int(digits):03d}"
    return word


def _transition_hint(todo: Todo, status: str, allowed: tuple[str, ...]) -> str:
    if todo.status == "pending" and status == "completed":
        return f"start it first: relay project todo start {todo.id}"
    if not allowed:
        return "it has ended: add a new todo, or edit todos.json"
    if todo.status == "blocked":
        return f"relay project todo unblock {todo.id} first"
    return f"it can become {' or '.join(allowed)}"


def _path(waits: dict[str, set[str]], start: str, goal: str) -> list[str]:
    """Return the ids through which `start` waits for `goal`, including both, or []."""
    came_from = {start: ""}
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


def parse_time(text: str) -> datetime | None:
    """Return the time in a text, or None. A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def is_older(text: str, now: str, seconds: float) -> bool:
    """Return True if a time is more than some seconds ago, or if the text is not a time."""
    then, here = parse_time(text), parse_time(now)
    return then is None or here is None or (here - then).total_seconds() > seconds


class Todos:
    """The todos of a project. A method that changes a todo returns its new version."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def add(self, title: str, *, blocked_by: list[str] | None = None, **fields: Any) -> Todo:
        """Add a todo and return it. `fields` may be priority, description, category, tags,
        due_date, assignee, notes.
        """
        new = read_input({"title": title, "blocked_by": blocked_by, **fields}, NewTodo, "todo")

        def add(todos: TodoList) -> Todo:
            return todo_of(todos.find(todos.add(new)))

        return self._project.change(lambda draft: add(draft.todos))

    def start(self, id: str, note: str = "") -> Todo:
        """Start a todo."""
        return self._change(id, lambda todos: todos.start(id, note))[0]

    def done(self, id: str, note: str = "") -> tuple[Todo, list[str]]:
        """Complete a todo. Return the todo, and the ids of the todos that this unblocks."""
        return self._change(id, lambda todos: todos.done(id, note))

    def block(self, id: str, note: str = "", by: list[str] | None = None) -> Todo:
        """Block a todo for a reason, or because it waits for other todos."""
        return self._change(id, lambda todos: todos.block(id, note, by))[0]

    def unblock(self, id: str, note: str = "", is_started: bool = False) -> Todo:
        """Unblock a todo, so that it waits for no other todo."""
        return self._change(id, lambda todos: todos.unblock(id, note, is_started))[0]

    def cancel(self, id: str, note: str = "") -> Todo:
        """Cancel a todo."""
        return self._change(id, lambda todos: todos.cancel(id, note))[0]

    def list(self, is_archived: bool = False) -> list[Todo]:
        """Return every todo, or every archived one, in the order of the file."""
        items = self._load().items("completed" if is_archived else "todos")
        return [todo_of(item) for item in items]

    def next(self, limit: int = NEXT_TODOS_MAX) -> list[Todo]:
        """Return the todos that are ready, the most urgent first."""
        return next_todos(self.list(), limit)

    def take_next(self, assignee: str) -> Document | None:
        """Start and assign the next todo that is pending and not assigned to another agent.

        Return its item in the document, or None if there is no such todo.
        """

        def take(todos: TodoList) -> Document | None:
            for todo in next_todos(todos.read(), PROJECT_TODOS_MAX):
                if todo.status == "pending" and todo.assignee in ("", assignee):
                    todos.start(todo.id, assignee=assignee)
                    return todos.find(todo.id)
            return None

        return self._project.change(lambda draft: take(draft.todos))

    def review(self) -> Reviewed:
        """Archive old todos, set the time of the review, and return what needs attention."""
        return self._project.change(lambda draft: draft.todos.review())

    def archive(self) -> list[str]:
        """Move todos that were completed over a week ago to `completed`; return their ids."""
        return self._project.change(lambda draft: draft.todos.archive())

    def is_review_due(self) -> bool:
        """Return True if the last review was more than a day ago."""
        return is_older(self._load().last_review(), self._project.now(), REVIEW_DUE_S)

    def _load(self) -> TodoList:
        return TodoList(load_document(self._project.texts().todos, TODOS))

    def _change(
        self, id: str, make: Callable[[TodoList], list[str] | None]
    ) -> tuple[Todo, list[str]]:
        def change(todos: TodoList) -> tuple[Todo, list[str]]:
            unblocked = make(todos) or []
            return todo_of(todos.find(id)), unblocked

        return self._project.change(lambda draft: change(draft.todos))
