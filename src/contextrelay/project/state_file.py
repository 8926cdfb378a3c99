"""state.json: the progress of the work, and the tasks that agents give to each other.

    parent   give     task, expected output    status given
    child    take                              status taken
    child    return   result                   status done or failed

Rule: a change names the fields that it sets, and all other fields stay. The fields that record the
time and the writer never conflict. A task is taken once, and is returned once by the agent that
took it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from contextrelay.documents.values import is_list, is_object
from contextrelay.errors import Conflict, Invalid, NotFound, Refused
from contextrelay.limits import LIST_ITEMS_MAX, PROJECT_FIELD_CHARS_MAX
from contextrelay.model.project import STATE, Clash
from contextrelay.project.changes import ProjectChanges
from contextrelay.project.documents import (
    CONFLICTS,
    Document,
    add_conflicts,
    conflicts_of,
    load_document,
    merge,
    objects_of,
)
from contextrelay.project.todos import LAST_NUMBER

if TYPE_CHECKING:
    from contextrelay.project.project import Project

_TEXTS = ("phase", "current_task", "notes", "session_id")
_STEPS = ("completed", "in_progress", "blocked", "next_steps")
_BY_US = ("last_update", "session_id", CONFLICTS)
_TASKS_SHOWN_MAX = 5
_SEE_TASKS = "see: relay project task list"


def update_progress(state: Document, changes: ProjectChanges, now: str) -> None:
    """Set the fields of the progress in a state.

    Raises:
        Invalid: a field cannot be set; Refused: `progress` in the file is not an object.
    """
    fields = changes.fields or {}
    for name in fields:
        if name in ("progress", "tasks", *_BY_US):
            raise Invalid(f"{name} cannot be set directly", "see: relay project finish --help")
    given = {name: getattr(changes, name) for name in (*_TEXTS, *_STEPS)}
    texts = {name: given[name] for name in _TEXTS if given[name] is not None}
    steps = {name: given[name] for name in _STEPS if given[name] is not None}
    state |= {**texts, **fields, "last_update": now}
    if steps:
        if not is_object(state.setdefault("progress", {})):
            raise Refused(f"/progress in {STATE} is not an object", 'write "progress": {}')
        _update_steps(state["progress"], dict(steps))
    # Setting a field again resolves the conflict about this field.
    chosen = {*texts, *fields, *(f"progress.{name}" for name in steps)} - {"session_id"}
    left = [each for each in conflicts_of(state) if each.get("field") not in chosen]
    if len(left) < len(conflicts_of(state)):
        state[CONFLICTS] = left
        if not left:
            del state[CONFLICTS]


def _update_steps(progress: Document, steps: Document) -> None:
    completed: list[str] = list(dict.fromkeys(steps.pop("completed", ())))
    progress |= steps
    if completed:
        known = texts_of(progress.get("completed"))
        progress["completed"] = known + [each for each in completed if each not in known]
        for name in ("blocked", "next_steps"):
            listed = texts_of(progress.get(name))
            if any(each in completed for each in listed):
                progress[name] = [each for each in listed if each not in completed]
        if "in_progress" not in steps and progress.get("in_progress") in completed:
            progress["in_progress"] = ""


def merge_progress(
    state: Document, seen: Document, changes: ProjectChanges, now: str
) -> list[Clash]:
    """Set fields for a writer who saw an older state. Record and return the conflicts."""
    base = {name: value for name, value in seen.items() if name not in _BY_US}
    # The older state gets the current values of these fields, so that they never conflict.
    base |= {name: state[name] for name in _BY_US if name in state}
    ours = deepcopy(base)
    update_progress(ours, changes, now)
    merged, clashes = merge(base, ours, dict(state))
    state.clear()
    state |= merged
    add_conflicts(state, clashes, now)
    return clashes


def texts_of(value: Any) -> list[str]:
    """Return the strings in a value, which may be a list or a single string."""
    if isinstance(value, str):
        return [value] if value else []
    return [each for each in value if isinstance(each, str)] if is_list(value) else []


def tasks_of(state: Document) -> list[Document]:
    """Return the tasks in a state, oldest first."""
    return objects_of(state.get("tasks"))


def last_task(state: Document) -> int:
    """Return the highest number that a task has or had."""
    kept = state.get(LAST_NUMBER)
    ends = (str(task.get("id", "")).rpartition("-")[2] for task in tasks_of(state))
    numbers = [int(end) for end in ends if end.isascii() and end.isdigit() and len(end) < 10]
    return max([kept if type(kept) is int else 0, *numbers])


class ProjectTasks:
    """The tasks in state.json. `by` names the agent; the default is the project's writer."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def give(self, task: str, expected_output: str = "", by: str = "") -> Document:
        """Add a task for another agent."""
        _check_lengths({"the task": task, "the expected output": expected_output})
        if not task.strip():
            raise Invalid("missing task", 'relay project task give "Write the tests"')

        def give(state: Document, now: str) -> Document:
            new = {
                "id": f"TASK-{last_task(state) + 1:03d}",
                "task": task,
                "expected_output": expected_output,
                "status": "given",
                "given_by": by or self._project.by,
                "given_at": now,
            }
            state["tasks"] = [*tasks_of(state), new][-LIST_ITEMS_MAX:]
            return new

        return self._change(give)

    def take(self, id: str = "", by: str = "") -> Document:
        """Take a task and return it. Without an id, take the oldest task that is not taken.

        Raises:
            NotFound: there is no such task; Conflict: the task is already taken.
        """

        def take(state: Document, now: str) -> Document:
            task = _find_task(state, id)
            if task.get("status") != "given":
                problem = f"{task.get('id')} is {task.get('status')} by {task.get('taken_by')}"
                raise Conflict(problem, "take another: relay project task list")
            task |= {"status": "taken", "taken_by": by or self._project.by, "taken_at": now}
            return task

        return self._change(take)

    def give_back(
        self, result: str, id: str = "", by: str = "", is_failed: bool = False
    ) -> Document:
        """Return the result of a task, by default of the only one that the agent has taken.

        Raises:
            NotFound: there is no such task; Invalid: the agent has taken several tasks.
            Conflict: the task is not taken, taken by another agent, or already returned.
        """
        _check_lengths({"the result": result})
        agent = by or self._project.by

        def give_back(state: Document, now: str) -> Document:
            task = _find_task(state, id) if id else _task_taken_by(state, agent)
            _check_taken(task, agent)
            task |= {"status": "failed" if is_failed else "done", "result": result}
            task |= {"returned_by": agent, "returned_at": now}
            return task

        return self._change(give_back)

    def list(self) -> list[Document]:
        """Return every task, oldest first."""
        return tasks_of(load_document(self._project.texts().state, STATE))

    def _change(self, change: Callable[[Document, str], Document]) -> Document:
        def make(state: Document) -> Document:
            state["last_update"] = now = self._project.now()
            return change(state, now)

        return self._project.change(lambda draft: make(draft.state))


def _check_lengths(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        if len(text) > PROJECT_FIELD_CHARS_MAX:
            limit = f"the limit is {PROJECT_FIELD_CHARS_MAX:,} characters"
            problem = f"{name} is too long: {len(text):,} characters"
            raise Invalid(problem, f"{limit}; push the text and note the ref")


def _find_task(state: Document, id: str) -> Document:
    for task in tasks_of(state):
        if str(task.get("id", "")).upper() == id.upper() if id else task.get("status") == "given":
            return task
    raise NotFound(f"task {id} not found" if id else "no task to take", _SEE_TASKS)


def _task_taken_by(state: Document, agent: str) -> Document:
    taken = [task for task in tasks_of(state) if task.get("status") == "taken"]
    own = [task for task in taken if task.get("taken_by") == agent]
    if len(own) == 1:
        return own[0]
    if own:
        ids = ", ".join(str(task.get("id")) for task in own[:_TASKS_SHOWN_MAX])
        raise Invalid(f"{agent} has taken {len(own)} tasks", f"pass --id with one of {ids}")
    some = taken[:_TASKS_SHOWN_MAX]
    others = ", ".join(f"{task.get('id')} by {task.get('taken_by')}" for task in some)
    hint = f"taken are {others}: pass your name with --by" if others else _SEE_TASKS
    raise NotFound(f"no task is taken by {agent}" if taken else "no task is taken", hint)


def _check_taken(task: Document, agent: str) -> None:
    id, status, taker = task.get("id"), task.get("status"), task.get("taken_by")
    if status in ("done", "failed"):
        raise Conflict(f"{id} is already {status}", "add a new task: relay project task give")
    if status != "taken":
        raise Conflict(f"{id} is not taken", f"take it first: relay project task take {id}")
    if taker != agent:
        hint = "pass your name with --by, or return your own task: relay project task list"
        raise Conflict(f"{id} is taken by {taker}, not by {agent}", hint)
