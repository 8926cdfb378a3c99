"""The heartbeat: a scheduled run takes a few todos, runs a command for each, and keeps the results.

Rule: one heartbeat at a time; the lock ends with its process. A todo is in_progress before its
command starts, and completed right after: a run that dies leaves the rest untouched, and the next
run blocks the one that it died at. A todo that failed is blocked, with the reason.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

from msgspec import Struct

from contextrelay.documents.value_types import is_list
from contextrelay.errors import Invalid, RelayError
from contextrelay.limits import (
    HEARTBEAT_EXEC_S_DEFAULT,
    HEARTBEAT_FILES_BYTES_MAX,
    HEARTBEAT_FILES_MAX,
    HEARTBEAT_RESULT_CHARS_MAX,
    HEARTBEAT_TODOS_MAX,
    PROJECT_FILE_BYTES_MAX,
)
from contextrelay.model.project import TODOS, Todo, todo_of
from contextrelay.project import dependencies
from contextrelay.project import todo_list as todos
from contextrelay.project.files import confined
from contextrelay.project.files.json_text import read
from contextrelay.project.files.lock import alone
from contextrelay.project.project import Project

Document = dict[str, Any]


class Beat(Struct, frozen=True, rename={"text": "told"}):
    """What became of one todo."""

    id: str
    title: str
    status: str
    """completed, blocked, or in_progress where there is no command."""
    text: str
    """The result, or the reason."""


def beat(
    project: Project,
    command: str = "",
    limit: int = HEARTBEAT_TODOS_MAX,
    timeout_s: float = HEARTBEAT_EXEC_S_DEFAULT,
    by: str = "heartbeat",
) -> list[Beat]:
    """Take todos that are ready, and run a command for each; without one, take them only.

    The command gets JSON on its stdin: the todo, the files that it names, and the brief.

    Raises:
        Unavailable: another heartbeat is at work.
        Invalid: the limit is passed.
    """
    if not 1 <= limit <= HEARTBEAT_TODOS_MAX:
        raise Invalid(
            f"a heartbeat cannot take {limit} todos", f"the limit is {HEARTBEAT_TODOS_MAX}"
        )
    with alone(project.folder, "heartbeat", wait_s=0):
        done = _block_left(project, by) if command else []
        brief = project.brief().text if command else ""
        for item in _take(project, limit, by):
            if command:
                done.append(_done(project, item, command, brief, timeout_s))
            else:
                todo = todo_of(item)
                done.append(Beat(todo.id, todo.title, todo.status, todo.description))
        return done


def _block_left(project: Project, by: str) -> list[Beat]:
    """Block what an earlier heartbeat was at when it died: nobody knows how far it came."""
    reason = "a heartbeat ended while it was at this; see how far it came"
    left = [
        todo
        for todo in project.todos.list()
        if todo.status == "in_progress" and todo.assignee == by
    ]
    for todo in left:
        project.todos.block(todo.id, reason)
    return [Beat(todo.id, todo.title, "blocked", reason) for todo in left]


def _take(project: Project, limit: int, by: str) -> list[Document]:
    """Start the todos that are next and not assigned, in one change; returns their items."""
    taken: list[str] = []

    def make(document: Document) -> Document:
        taken.clear()
        every = todos.read_todos(document)
        ready = dependencies.next_todos(every, len(every))
        free = [each for each in ready if each.status == "pending" and each.assignee in ("", by)]
        for todo in free[:limit]:
            document = dependencies.started(document, todo.id, project.now())
            document = todos.changed(document, todo.id, assignee=by)
            taken.append(todo.id)
        return document

    _, after = project.change_json(TODOS, make)
    document = read(after.todos or "{}", TODOS)
    return [todos.found(document, id) for id in taken]


def _done(project: Project, item: Document, command: str, brief: str, timeout_s: float) -> Beat:
    todo = todo_of(item)
    try:
        document = {"todo": item, "files": _files(project, item), "brief": brief}
        result = _run(project, command, todo, json.dumps(document), timeout_s)
    except _Failed as error:
        reason = f"heartbeat failed: {error}"
        project.todos.block(todo.id, reason)
        return Beat(todo.id, todo.title, "blocked", reason)
    project.todos.done(todo.id, result)
    return Beat(todo.id, todo.title, "completed", result)


class _Failed(Exception):
    """A todo was not done; the text is the reason."""


def _files(project: Project, item: Document) -> dict[str, str]:
    """The contents of the files that a todo names."""
    names: Any = item.get("files") or []
    if not is_list(names):
        raise _Failed("its files are no list")
    contents: dict[str, str] = {}
    left_bytes = HEARTBEAT_FILES_BYTES_MAX
    for name in names[:HEARTBEAT_FILES_MAX]:
        path = os.path.normpath(str(name))
        if os.path.isabs(path) or path.startswith(".."):
            shown = path.encode(errors="backslashreplace").decode()[:HEARTBEAT_RESULT_CHARS_MAX]
            raise _Failed(f"{shown} is outside the project")
        try:
            content = confined.read(project.folder, path, min(left_bytes, PROJECT_FILE_BYTES_MAX))
        except RelayError as error:
            raise _Failed(error.message[:HEARTBEAT_RESULT_CHARS_MAX]) from error
        if content is None:
            raise _Failed(f"there is no file {path}")
        left_bytes -= len(content)
        contents[path] = content.decode(errors="replace")
    return contents


def _run(project: Project, command: str, todo: Todo, document: str, timeout_s: float) -> str:
    env = {**os.environ, "RELAY_PROJECT": str(project.folder), "RELAY_TODO": todo.id}
    try:
        running = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=project.folder,
            env={**env, "RELAY_TODO_TITLE": todo.title},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _Failed(str(error)) from error
    try:
        out, err = running.communicate(document.encode(), timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _Failed(f"took over {timeout_s:g} s") from error
    finally:
        if running.poll() is None:
            # With every process that the command started.
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    if running.returncode:
        reason = _cut(err) or _cut(out)
        raise _Failed(f"exit {running.returncode}{f': {reason}' if reason else ''}")
    return _cut(out)


def _cut(output: bytes) -> str:
    """The end of what a command printed."""
    text = output.decode(errors="replace").strip()
    is_long = len(text) > HEARTBEAT_RESULT_CHARS_MAX
    return f"…{text[-HEARTBEAT_RESULT_CHARS_MAX:]}" if is_long else text
