"""Tasks for sub-agents: handed over through state.json, the only thing that a child can read.

    parent   give      task, expected output         status given
    child    take      by whom                       status taken
    child    return    result                        status done, or failed

Rule: a task is taken once and returned once. All of them stay in the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from contextrelay.errors import Conflict, Invalid, NotFound
from contextrelay.limits import LIST_ITEMS_MAX, PROJECT_FIELD_CHARS_MAX
from contextrelay.model.project import STATE
from contextrelay.project.progress import last_task, tasks_of

if TYPE_CHECKING:
    from contextrelay.project.project import Project

Document = dict[str, Any]
Change = Callable[[Document], Document]


class Tasks:
    """The list under `tasks` in state.json."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def give(self, task: str, expected_output: str = "", by: str = "") -> Document:
        """Leave a task for a child."""
        _check(task, expected_output)
        if not task.strip():
            raise Invalid("there is no task", 'relay project task give "Write the tests"')
        given: list[Document] = []

        def make(state: Document) -> Document:
            known = tasks_of(state)
            new = {
                "id": f"TASK-{last_task(state) + 1:03d}",
                "task": task,
                "expected_output": expected_output,
                "status": "given",
                "given_by": by or self._project.by,
                "given_at": self._project.now(),
            }
            given[:] = [new]
            return self._with(state, [*known, new])

        self._project.change_json(STATE, make)
        return given[0]

    def take(self, id: str = "", by: str = "") -> Document:
        """Take a task, or the oldest that nobody took.

        Raises:
            NotFound: there is none; Conflict: another one has it.
        """

        def change(task: Document) -> Document:
            if task.get("status") != "given":
                raise Conflict(
                    f"{task.get('id')} is {task.get('status')} by {task.get('taken_by')}",
                    "take another: relay project task list",
                )
            taken = {"status": "taken", "taken_by": by or self._project.by}
            return {**taken, "taken_at": self._project.now()}

        return self._changed(lambda state: _chosen(state, id, "given"), change)

    def give_back(
        self, result: str, id: str = "", by: str = "", is_failed: bool = False
    ) -> Document:
        """Return the result of a task that oneself took; without an id the only such one.

        Raises:
            NotFound: there is none; Invalid: there are several.
            Conflict: another one took it, nobody did, or it is returned already.
        """
        _check(result)
        who = by or self._project.by

        def change(task: Document) -> Document:
            _check_taken(task, who)
            fields = {"status": "failed" if is_failed else "done", "result": result}
            return fields | {"returned_by": who, "returned_at": self._project.now()}

        def find(state: Document) -> Document:
            return _chosen(state, id, "taken") if id else _taken_by(state, who)

        return self._changed(find, change)

    def list(self) -> list[Document]:
        """Every task, oldest first."""
        from contextrelay.project.files.json_text import read

        text = self._project.texts().state
        return tasks_of({} if text is None else read(text, STATE))

    def _with(self, state: Document, tasks: list[Document]) -> Document:
        return {**state, "tasks": tasks[-LIST_ITEMS_MAX:], "last_update": self._project.now()}

    def _changed(self, find: Callable[[Document], Document], change: Change) -> Document:
        changed: list[Document] = []

        def make(state: Document) -> Document:
            task = find(state)
            changed[:] = [{**task, **change(task)}]
            tasks = [changed[0] if each is task else each for each in tasks_of(state)]
            return self._with(state, tasks)

        self._project.change_json(STATE, make)
        return changed[0]


def _chosen(state: Document, id: str, status: str) -> Document:
    for task in tasks_of(state):
        if str(task.get("id", "")).upper() == id.upper() if id else task.get("status") == status:
            return task
    problem = f"there is no task {id}" if id else f"no task is {status}"
    raise NotFound(problem, _LIST)


def _taken_by(state: Document, who: str) -> Document:
    """The one task that somebody has taken."""
    taken = [task for task in tasks_of(state) if task.get("status") == "taken"]
    own = [task for task in taken if task.get("taken_by") == who]
    if len(own) == 1:
        return own[0]
    if own:
        some = ", ".join(str(task.get("id")) for task in own[:_NAMED])
        raise Invalid(f"{len(own)} tasks are taken by {who}", f"say which: --id, one of {some}")
    others = ", ".join(f"{task.get('id')} by {task.get('taken_by')}" for task in taken[:_NAMED])
    hint = f"taken are {others}: say who you are with --by" if others else _LIST
    raise NotFound(f"no task is taken by {who}" if taken else "no task is taken", hint)


def _check_taken(task: Document, who: str) -> None:
    """Let a task be returned only once, and only by who took it."""
    id, status = task.get("id"), task.get("status")
    if status in ("done", "failed"):
        raise Conflict(f"{id} is {status} already", "give a new one")
    if status != "taken":
        raise Conflict(f"nobody has taken {id}", f"take it first: relay project task take {id}")
    if task.get("taken_by") != who:
        raise Conflict(
            f"{id} was taken by {task.get('taken_by')}, not by {who}",
            "say who you are with --by, or return your own: relay project task list",
        )


_NAMED = 5
_LIST = "see: relay project task list"


def _check(*texts: str) -> None:
    if any(len(text) > PROJECT_FIELD_CHARS_MAX for text in texts):
        most = f"the limit is {PROJECT_FIELD_CHARS_MAX:,} characters"
        raise Invalid("the text is too long", f"{most}; push it, and name the ref instead")
