"""Progress: how state.json changes when work ends.

Rule: a change names fields, not the whole: what it does not name stays as it is. The fields that
say when and by whom are the writer's own, and never clash.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from contextrelay.documents.value_types import is_list, is_object, same
from contextrelay.errors import Invalid, Refused
from contextrelay.limits import PROJECT_FIELD_CHARS_MAX
from contextrelay.model.project import STATE, Clash
from contextrelay.project.field_merge import merged
from contextrelay.project.todo_list import LAST_NUMBER

Document = dict[str, Any]
CLASHES = "conflicts"
_OWN = ("last_update", "session_id", CLASHES)


class Progress(NamedTuple):
    """What changed in a project's state; None and () for what did not."""

    phase: str | None = None
    current_task: str | None = None
    completed: tuple[str, ...] = ()
    """What is done: added to the list, and taken off the others."""
    in_progress: str | None = None
    blocked: tuple[str, ...] | None = None
    next_steps: tuple[str, ...] | None = None
    notes: str | None = None
    session_id: str | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012  # Never changed.
    """Other fields, by name."""


def state_of(document: Any) -> Document:
    """A state as a document.

    Raises:
        Refused: it is none.
    """
    if not is_object(document):
        raise Refused(f"{STATE} holds no object", "it must be { ... }: see relay project doctor")
    return document


def progress_of(state: Document) -> Document:
    """The part `progress` of a state; where a hand wrote something else, an empty one."""
    found = state.get("progress")
    return found if is_object(found) else {}


def texts_of(value: Any) -> list[str]:
    """A list of texts out of what a hand wrote: a list, one text, or nothing."""
    if isinstance(value, str):
        return [value] if value else []
    return [each for each in value if isinstance(each, str)] if is_list(value) else []


def progressed(state: Document, change: Progress, now: str) -> Document:
    """The state after a change.

    Raises:
        Invalid: a field is too long, or is not to be set so.
        Refused: `progress` in the file is no object.
    """
    _check(change)
    result = dict(state)
    for name in ("phase", "current_task", "notes", "session_id"):
        value = getattr(change, name)
        if value is not None:
            result[name] = value
    result |= change.fields
    if "progress" in state and not is_object(state["progress"]):
        if change.completed or change.in_progress is not None or change.next_steps is not None:
            raise Refused(f"/progress in {STATE} is no object", 'write "progress": {}')
    else:
        result["progress"] = _steps(progress_of(state), change)
        if "progress" not in state and not result["progress"]:
            del result["progress"]
    result["last_update"] = now
    return _settled(result, change)


def _steps(progress: Document, change: Progress) -> Document:
    result = dict(progress)
    if change.next_steps is not None:
        result["next_steps"] = list(change.next_steps)
    if change.blocked is not None:
        result["blocked"] = list(change.blocked)
    if change.in_progress is not None:
        result["in_progress"] = change.in_progress
    if change.completed:
        done = texts_of(progress.get("completed"))
        done += [each for each in dict.fromkeys(change.completed) if each not in done]
        result["completed"] = done
        for name in ("blocked", "next_steps"):
            rest = [each for each in texts_of(result.get(name)) if each not in change.completed]
            if rest != texts_of(result.get(name)):
                result[name] = rest
        if change.in_progress is None and result.get("in_progress") in change.completed:
            result["in_progress"] = ""
    return result


def _check(change: Progress) -> None:
    texts = [
        change.phase,
        change.current_task,
        change.in_progress,
        change.notes,
        change.session_id,
        *change.completed,
        *(change.blocked or ()),
        *(change.next_steps or ()),
    ]
    if any(text is not None and len(text) > PROJECT_FIELD_CHARS_MAX for text in texts):
        most = f"the limit is {PROJECT_FIELD_CHARS_MAX:,} characters"
        raise Invalid("a field is too long", f"{most}; push it, and note the ref instead")
    for name in change.fields:
        if name in ("progress", "tasks", *_OWN):
            raise Invalid(f"{name} is not set so", "see: relay project finish --help")


def progressed_since(
    seen: Document, state: Document, change: Progress, now: str
) -> tuple[Document, list[Clash]]:
    """The state after a change by one who saw an older state; clashes are kept in it, too."""
    base = {name: value for name, value in seen.items() if name not in _OWN}
    # As if they had been seen: so the writer's own stand, and nobody's are lost.
    base |= {name: state[name] for name in _OWN if name in state}
    result, clashes = merged(base, progressed(base, change, now), state)
    return with_clashes(result, clashes, now), clashes


def with_clashes(state: Document, clashes: list[Clash], now: str) -> Document:
    """A state that also says where two writers wanted different things."""
    if not clashes:
        return state
    known = clashes_of(state)
    for clash in clashes:
        entry = clash._asdict()
        if not any(all(same(each.get(name), entry[name]) for name in entry) for each in known):
            known = [*known, {**entry, "at": now}]
    return {**state, CLASHES: known}


def clashes_of(state: Document) -> list[Document]:
    """The clashes in a state."""
    found = state.get(CLASHES)
    return [each for each in found if is_object(each)] if is_list(found) else []


def tasks_of(state: Any) -> list[Document]:
    """The tasks for sub-agents in a state."""
    found = state.get("tasks") if is_object(state) else None
    return [each for each in found if is_object(each)] if is_list(found) else []


def last_task(state: Any) -> int:
    """The highest number that a task has here, or had before a restore took it away."""
    said = state.get(LAST_NUMBER) if is_object(state) else None
    numbers = [said if type(said) is int else 0]
    for task in tasks_of(state):
        digits = str(task.get("id", "")).rpartition("-")[2]
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
        numbers.append(int(digits) if is_number else 0)
    return max(numbers)


def _settled(state: Document, change: Progress) -> Document:
    """Without the clashes about fields that are set again: who sets them has chosen."""
    known = clashes_of(state)
    if not known:
        return state
    chosen = {
        name for name in ("phase", "current_task", "notes") if getattr(change, name) is not None
    }
    if change.in_progress is not None:
        chosen.add("progress.in_progress")
    chosen |= set(change.fields)
    rest = [each for each in known if each.get("field") not in chosen]
    if len(rest) == len(known):
        return state
    result = {**state, CLASHES: rest}
    if not rest:
        del result[CLASHES]
    return result
