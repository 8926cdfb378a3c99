"""The project's thread: a copy of every version of the files, with one fact per field.

`project.<field>` is a field of state.json, `project.todo.<id>` a todo, `project.todos.<field>`
another field of todos.json, `project.decision.<id>` a section of decisions.md, and `project.about`
the text of PROJECT.md.

Rule: changes are copied from the files to the thread, as one patch. Only `restore` copies from the
thread to the files. If nothing changed since the last copy, no store is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from contextrelay.documents.values import is_equal, is_object
from contextrelay.errors import Conflict, Gone, NotFound, Unavailable
from contextrelay.limits import PROJECT_OWN_BYTES_MAX, RETRIES_MAX
from contextrelay.model.project import OWN_FOLDER, STATE, TODOS, ProjectTexts, todo_of
from contextrelay.project import confined
from contextrelay.project.files import locked, make_own_folder, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextrelay.client.relay import Relay
    from contextrelay.client.thread import Thread

PREFIX = "project."
THREAD_NAME = "project "
"""The text with which the names of projects' threads begin."""
_ABOUT, _TODO, _TODOS, _DECISION = (
    f"{PREFIX}{name}" for name in ("about", "todo.", "todos.", "decision.")
)
# In a fact, this field says that a todo is archived. It is not written to the file.
_LIST_FIELD = "_list"
_FILE = f"{OWN_FOLDER}/link.json"


def link_at(folder: str | os.PathLike[str], address: str, open_relay: Callable[[], Relay]) -> Link:
    """Return the link to the thread of a project, in the store at an address or relative path."""
    if "://" not in address and address != "memory:":
        address = str(Path(address).expanduser().absolute())
    return Link(Path(folder).absolute(), address, open_relay)


class Link:
    """The thread of a project, in the store at an address."""

    def __init__(self, folder: Path, address: str, open_relay: Callable[[], Relay]) -> None:
        self._folder = folder
        self._address = address
        self._open = open_relay

    @property
    def thread_id(self) -> str:
        """The id of the thread, or "" if there is none yet."""
        from contextrelay.model.ref import is_ref

        # Only an id is accepted, because the file may have come with a clone, and names of threads
        # can be guessed.
        known = str(self._known().get("thread", ""))
        return known if is_ref(known) else ""

    def update(self, read: Callable[[], ProjectTexts], name: str, by: str) -> None:
        """Copy the files to the thread if they have changed.

        Raises:
            Unavailable: the thread keeps changing.
        """
        if self._known().get("stamp") == stamp_of(read()):
            return
        with locked(self._folder, "link"):
            # The files are read under the lock, so that a second writer cannot copy older texts.
            texts = read()
            self._patch(texts, name, by)
            self._remember(stamp=stamp_of(texts))

    def facts(self, version: int | None) -> dict[str, Any]:
        """Return the facts of a version of the thread, by their keys.

        Raises:
            NotFound: there is no thread, or no such version.
        """
        if not self.thread_id:
            hint = "create the thread: relay project start"
            raise NotFound("this project has no thread yet", hint)
        state = self._open().thread(self.thread_id).state(version)
        return {fact["key"]: fact["value"] for fact in state["facts"]}

    def _patch(self, texts: ProjectTexts, name: str, by: str) -> None:
        from datetime import UTC, datetime

        from msgspec import to_builtins

        from contextrelay.documents.diff import diff_values

        facts = _facts_of(texts)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        thread = self._thread(name, by)
        for _ in range(RETRIES_MAX):
            state = thread.state()
            changed = _with_facts(state["facts"], facts, now)
            patch = [to_builtins(each) for each in diff_values(state["facts"], changed, "/facts")]
            if not patch:
                return
            with suppress(Conflict):
                thread.patch(patch, expected=state["version"], by=by)
                return
        raise Unavailable(f"thread {thread.id} keeps changing", "try again")

    def _thread(self, name: str, by: str) -> Thread:
        relay = self._open()
        if self.thread_id:
            with suppress(NotFound, Gone):
                thread = relay.thread(self.thread_id)
                if thread.show().status == "open":
                    return thread
        thread = relay.new_thread(f"{THREAD_NAME}{name}"[:100], by=by)
        self._remember(thread=thread.id)
        return thread

    def _known(self) -> dict[str, Any]:
        known: Any = self._read().get(self._address)
        return known if is_object(known) else {}

    def _read(self) -> dict[str, Any]:
        content = confined.read(self._folder, _FILE, PROJECT_OWN_BYTES_MAX)
        try:
            found: Any = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            return {}
        return found if is_object(found) else {}

    def _remember(self, **fields: str) -> None:
        document = {**self._read(), self._address: {**self._known(), **fields}}
        make_own_folder(self._folder)
        text = json.dumps(document, indent=2) + "\n"
        confined.write(self._folder, _FILE, text.encode(), is_durable=False)


def _facts_of(texts: ProjectTexts) -> dict[str, Any]:
    """Return every field of the files, by the key of its fact."""
    from contextrelay.project.decisions import read_decisions
    from contextrelay.project.documents import load_document
    from contextrelay.project.todos import TodoList

    facts: dict[str, Any] = {} if texts.about is None else {_ABOUT: texts.about}
    for decision in read_decisions(texts.decisions or ""):
        facts[f"{_DECISION}{decision.id}"] = decision.text
    todos = TodoList(load_document(texts.todos, TODOS))
    for name, value in todos.document.items():
        if name not in ("todos", "completed"):
            facts[f"{_TODOS}{name}"] = value
    for item in todos.items():
        facts[f"{_TODO}{todo_of(item).id}"] = item
    for item in todos.items("completed"):
        facts[f"{_TODO}{todo_of(item).id}"] = {**item, _LIST_FIELD: "completed"}
    state = load_document(texts.state, STATE)
    return facts | {f"{PREFIX}{name}": value for name, value in state.items()}


def _with_facts(
    known: list[dict[str, Any]], facts: dict[str, Any], at: str
) -> list[dict[str, Any]]:
    """Return the facts of a thread with those of the files replaced. Facts of others stay."""
    left = dict(facts)
    result: list[dict[str, Any]] = []
    for fact in known:
        key = fact["key"]
        if not key.startswith(PREFIX):
            result.append(fact)
        elif key in left:
            value = left.pop(key)
            is_same = is_equal(fact["value"], value)
            result.append(fact if is_same else {**fact, "value": value, "at": at})
    new = ({"id": key, "key": key, "value": value, "at": at} for key, value in left.items())
    return [*result, *new]


def restore_texts(facts: dict[str, Any], texts: ProjectTexts) -> ProjectTexts:
    """Return the files with the content of the facts of a version. Newer decisions are kept.

    Raises:
        Broken: a file that exists is invalid.
    """
    from contextrelay.project.decisions import append_section, read_decisions
    from contextrelay.project.documents import dump_document, load_document
    from contextrelay.project.state_file import last_task
    from contextrelay.project.todos import LAST_NUMBER, TodoList

    state: dict[str, Any] = {}
    todos: dict[str, Any] = {}
    decisions = texts.decisions
    known = {decision.id for decision in read_decisions(decisions or "")}
    for key, value in facts.items():
        if key.startswith(_DECISION):
            if key.removeprefix(_DECISION) not in known and isinstance(value, str):
                decisions = append_section(decisions, value)
        elif key.startswith(_TODO):
            if is_object(value):
                name = "completed" if value.get(_LIST_FIELD) == "completed" else "todos"
                item = {field: each for field, each in value.items() if field != _LIST_FIELD}
                todos.setdefault(name, []).append(item)
        elif key.startswith(_TODOS):
            # Anybody may write to a thread, so the lists are made only from the facts of todos.
            if (name := key.removeprefix(_TODOS)) not in ("todos", "completed"):
                todos[name] = value
        elif key.startswith(PREFIX) and key != _ABOUT:
            state[key.removeprefix(PREFIX)] = value
    if todos:
        items = sorted(todos.pop("todos", []), key=lambda item: todo_of(item).number)
        todos = {"todos": items, **todos}
        last = TodoList(load_document(texts.todos, TODOS)).last_number()
        if last > TodoList(todos).last_number():
            todos[LAST_NUMBER] = last
    if state and (last := last_task(load_document(texts.state, STATE))) > last_task(state):
        state[LAST_NUMBER] = last
    about = facts.get(_ABOUT)
    return ProjectTexts(
        about=about if isinstance(about, str) else texts.about,
        state=dump_document(state, texts.state) if state else texts.state,
        todos=dump_document(todos, texts.todos) if todos else texts.todos,
        decisions=decisions,
    )
