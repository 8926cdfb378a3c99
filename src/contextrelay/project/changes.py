"""The input types of `finish`, `decide` and new todos, which msgspec checks."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import fields

from contextrelay.errors import Invalid
from contextrelay.limits import PROJECT_FIELD_CHARS_MAX
from contextrelay.model.project import Priority

Text = Annotated[str, Meta(max_length=PROJECT_FIELD_CHARS_MAX)]
Input = TypeVar("Input", bound=Struct)


class NewTodo(Struct, frozen=True, forbid_unknown_fields=True):
    """A new todo."""

    title: Text
    priority: Priority = "medium"
    description: Text | None = None
    category: Text | None = None
    tags: list[Text] | Text | None = None
    due_date: Text | None = None
    assignee: Text | None = None
    blocked_by: list[Text] | Text | None = None
    notes: Text | None = None


class TodoNote(Struct, frozen=True, forbid_unknown_fields=True):
    """A todo, and a note about the todo."""

    id: str
    note: Text = ""


class TodoChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """The changes of todos, in the order in which they are applied."""

    add: list[Text | NewTodo] = []
    start: list[str | TodoNote] = []
    done: list[str | TodoNote] = []
    block: list[str | TodoNote] = []
    unblock: list[str | TodoNote] = []
    cancel: list[str | TodoNote] = []


class NewDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """A new decision."""

    title: Text
    status: Text = "Accepted"
    context: Text = ""
    decision: Text = ""
    consequences: Text = ""
    supersedes: list[Text] | Text = []


class ProjectChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """The changes that a piece of work made. A field that is None did not change."""

    phase: Text | None = None
    current_task: Text | None = None
    in_progress: Text | None = None
    notes: Text | None = None
    session_id: Text | None = None
    completed: list[Text] | None = None
    blocked: list[Text] | None = None
    next_steps: list[Text] | None = None
    fields: dict[str, Any] | None = None
    todos: TodoChanges | None = None
    decisions: list[Text | NewDecision] | None = None


def read_input(given: object, kind: type[Input], name: str) -> Input:
    """Convert an input to its type, or raise Invalid. Error texts call the input `name`."""
    try:
        return convert(given, kind)
    except ValidationError as error:
        hint = f"the fields are {', '.join(field.name for field in fields(kind))}"
        raise Invalid(f"invalid {name}: {error}", hint) from error


def as_list(value: list[str] | str | None) -> list[str]:
    """Return a value as a list. A single text becomes a list with one item."""
    return [value] if isinstance(value, str) else value or []
