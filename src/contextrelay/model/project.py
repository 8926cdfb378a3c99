"""Project files: their names, and the values in them, such as decisions, todos and conflicts."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from msgspec import to_builtins

PROJECT_FILE = "PROJECT.md"
STATE = "state.json"
DECISIONS = "decisions.md"
TODOS = "todos.json"
# The files, in the order in which a new session reads them.
FILES = (PROJECT_FILE, STATE, TODOS, DECISIONS)
# A folder beside these files, with the lock, the journal and copies. Git ignores it.
OWN_FOLDER = ".relay-project"


class Decision(NamedTuple):
    """An architecture decision record, which is a section of decisions.md."""

    number: int
    title: str
    date: str = ""
    status: str = ""
    context: str = ""
    decision: str = ""
    consequences: str = ""
    supersedes: tuple[int, ...] = ()
    superseded_by: int = 0
    line: int = 0
    text: str = ""
    """The whole text of the section."""

    @property
    def id(self) -> str:
        return f"ADR-{self.number:03d}"


class ProjectTexts(NamedTuple):
    """The texts of the four files; None for a missing one."""

    about: str | None = None
    state: str | None = None
    todos: str | None = None
    decisions: str | None = None

    def of(self, name: str) -> str | None:
        return self.named()[name]

    def having(self, name: str, text: str | None) -> ProjectTexts:
        """Return a copy in which the text of one file is replaced."""
        return ProjectTexts(*[text if each == name else old for each, old in self.named().items()])

    def named(self) -> dict[str, str | None]:
        return dict(zip(FILES, self, strict=True))


class Clash(NamedTuple):
    """A field that two writers changed, with the value that is kept and the value that is
    discarded.
    """

    field: str
    kept: Any
    other: Any


class Secret(NamedTuple):
    """A string in a text that looks like a secret."""

    file: str
    line: int
    kind: str
    shown: str
    """The first characters of the string."""


def as_fields(value: Any) -> Any:
    """Convert a value of the model to what `--json` prints, with named fields at every depth."""
    named: Any = getattr(value, "_asdict", None)
    if named is not None:
        return {name: as_fields(each) for name, each in named().items()}
    if isinstance(value, list | tuple):
        return [as_fields(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return to_builtins(value)


class Finished(NamedTuple):
    """The result of `finish` in a project."""

    files: list[str]
    """The files that changed."""
    todos: list[str]
    """The ids of new todos."""
    decisions: list[str]
    unblocked: list[str]
    clashes: list[Clash]
    commit: str = ""


Priority = Literal["critical", "high", "medium", "low"]
Status = Literal["pending", "in_progress", "completed", "blocked", "cancelled"]

PRIORITIES: tuple[Priority, ...] = ("critical", "high", "medium", "low")
STATUSES: tuple[Status, ...] = ("pending", "in_progress", "completed", "blocked", "cancelled")
ENDED: tuple[Status, ...] = ("completed", "cancelled")
# The status changes that commands allow. A user may edit the file to set any status.
ALLOWED: dict[str, tuple[Status, ...]] = {
    "pending": ("in_progress", "blocked", "cancelled"),
    "in_progress": ("completed", "blocked", "cancelled"),
    "blocked": ("pending", "in_progress", "cancelled"),
    "completed": (),
    "cancelled": (),
}


class Todo(NamedTuple):
    """A todo. Values of an unexpected type in the file are converted or ignored."""

    id: str
    title: str
    status: str
    priority: str
    description: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    created: str = ""
    updated: str = ""
    completed_at: str = ""
    due_date: str = ""
    assignee: str = ""
    blocked_by: tuple[str, ...] = ()
    blocking: tuple[str, ...] = ()
    notes: str = ""

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED

    @property
    def number(self) -> int:
        """The number NNN in an id TODO-NNN, for sorting. Ids of another form get a number that
        sorts last.
        """
        digits = self.id.rpartition("-")[2]
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 10**9

    @property
    def rank(self) -> int:
        """A number from 0 for critical to 3 for low; an unknown priority counts as medium."""
        known: tuple[str, ...] = PRIORITIES
        return known.index(self.priority) if self.priority in known else 2


def todo_of(item: dict[str, Any]) -> Todo:
    """Return the todo in an item of todos.json."""
    return Todo(
        id=_text(item.get("id")),
        title=_text(item.get("title")),
        status=_text(item.get("status")) or "pending",
        priority=_text(item.get("priority")) or "medium",
        description=_text(item.get("description")),
        category=_text(item.get("category")),
        tags=_texts(item.get("tags")),
        created=_text(item.get("created")),
        updated=_text(item.get("updated")),
        completed_at=_text(item.get("completed_at")),
        due_date=_text(item.get("due_date")),
        assignee=_text(item.get("assignee")),
        blocked_by=_texts(item.get("blocked_by")),
        blocking=_texts(item.get("blocking")),
        notes=_text(item.get("notes")),
    )


def _text(value: object) -> str:
    if value.__class__ is str:
        return cast(str, value)
    return "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        return ()
    return tuple(each for each in cast("list[object]", value) if isinstance(each, str))
