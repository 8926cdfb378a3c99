"""The heartbeat: a scheduled run that works on the next todos, with one command for each todo.

Rule: only one heartbeat runs at a time. A todo is in progress before its command starts. If a
heartbeat dies, the next one blocks this todo, because it is not known how much the command has
done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from tempfile import TemporaryFile
from typing import IO, Any

from msgspec import Struct

from contextrelay.documents.values import is_list
from contextrelay.errors import Failed, Invalid, RelayError
from contextrelay.limits import (
    HEARTBEAT_EXEC_S_DEFAULT,
    HEARTBEAT_TODOS_MAX,
    MIB,
    PROJECT_FILE_BYTES_MAX,
)
from contextrelay.model.project import Todo, todo_of
from contextrelay.project import confined
from contextrelay.project.files import locked
from contextrelay.project.project import Project

HEARTBEAT_RESULT_CHARS_MAX = 2_000
HEARTBEAT_FILES_MAX = 20
HEARTBEAT_FILES_BYTES_MAX = 16 * MIB


class Beat(Struct, frozen=True, rename={"text": "told"}):
    """The result of a heartbeat for one todo."""

    id: str
    title: str
    status: str
    """The status of the todo: completed, blocked, or in_progress if no command was given."""
    text: str
    """The output of the command, or the reason why the todo is blocked."""


def run_heartbeat(
    project: Project,
    command: str = "",
    limit: int = HEARTBEAT_TODOS_MAX,
    timeout_s: float = HEARTBEAT_EXEC_S_DEFAULT,
    by: str = "heartbeat",
) -> list[Beat]:
    """Start the next todos and run a command for each. Without a command, only start the todos.

    The command gets JSON on its stdin: the todo, the files that the todo names, and the brief.

    Raises:
        Unavailable: another heartbeat is running; Invalid: the limit is out of range.
    """
    if not 1 <= limit <= HEARTBEAT_TODOS_MAX:
        raise Invalid(f"invalid limit {limit}", f"pass 1 to {HEARTBEAT_TODOS_MAX}")
    done: list[Beat] = []

    def block(todo: Todo, reason: str) -> None:
        project.todos.block(todo.id, reason)
        done.append(Beat(todo.id, todo.title, "blocked", reason))

    with locked(project.folder, "heartbeat", wait_s=0):
        if command:
            reason = "a heartbeat died while it worked on this todo; check how much was done"
            for todo in project.todos.list():
                if todo.assignee == by and todo.status == "in_progress":
                    block(todo, reason)
        brief = project.brief().text if command else ""
        for _ in range(limit):
            item = project.todos.take_next(by)
            if item is None:
                break
            todo = todo_of(item)
            if not command:
                done.append(Beat(todo.id, todo.title, todo.status, todo.description))
                continue
            try:
                document = {"todo": item, "files": _read_files(project, item), "brief": brief}
                result = _run(project, command, todo, json.dumps(document), timeout_s)
            except RelayError as error:
                block(todo, f"heartbeat failed: {error.message[:HEARTBEAT_RESULT_CHARS_MAX]}")
            else:
                project.todos.done(todo.id, result)
                done.append(Beat(todo.id, todo.title, "completed", result))
    return done


def _read_files(project: Project, item: dict[str, Any]) -> dict[str, str]:
    """Return the contents of the files that a todo names, by their paths."""
    hint = "edit the files of the todo in todos.json"
    names: Any = item.get("files") or []
    if not is_list(names):
        raise Failed("/files is not a list", hint)
    contents: dict[str, str] = {}
    left_bytes = HEARTBEAT_FILES_BYTES_MAX
    for name in names[:HEARTBEAT_FILES_MAX]:
        path = os.path.normpath(str(name))
        content = confined.read(project.folder, path, min(left_bytes, PROJECT_FILE_BYTES_MAX))
        if content is None:
            raise Failed(f"file not found: {path}", hint)
        left_bytes -= len(content)
        contents[path] = content.decode(errors="replace")
    return contents


def _run(project: Project, command: str, todo: Todo, document: str, timeout_s: float) -> str:
    """Run a command and return the end of its output. Raise Failed with the reason."""
    hint = "run the command by hand"
    env = {"RELAY_PROJECT": str(project.folder), "RELAY_TODO": todo.id}
    # The output goes to files, and only the end is read, however much the command prints.
    with TemporaryFile() as out, TemporaryFile() as err:
        try:
            running = subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=project.folder,
                env={**os.environ, **env, "RELAY_TODO_TITLE": todo.title},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Failed(str(error), hint) from error
        try:
            running.communicate(document.encode(), timeout_s)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"exceeded the timeout of {timeout_s:g} s", hint) from error
        finally:
            if running.poll() is None:
                # The command may have started other processes, so kill the whole process group.
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        if running.returncode:
            reason = _end_of(err) or _end_of(out)
            raise Failed(f"exit {running.returncode}{f': {reason}' if reason else ''}", hint)
        return _end_of(out)


def _end_of(output: IO[bytes]) -> str:
    # A character has up to 4 bytes. Read twice as many, because white space at the end is cut.
    size_bytes = output.seek(0, os.SEEK_END)
    output.seek(max(0, size_bytes - 8 * HEARTBEAT_RESULT_CHARS_MAX))
    text = output.read().decode(errors="replace").strip()
    is_long = len(text) > HEARTBEAT_RESULT_CHARS_MAX
    return f"…{text[-HEARTBEAT_RESULT_CHARS_MAX:]}" if is_long else text
