"""Listings: the current status of an agent's tasks, without their history.

Rule: a finished task never changes, so it is read only once. Other tasks are read each time.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from contextrelay.a2a.record import TaskRecord
from contextrelay.a2a.schema import TERMINAL, TaskState
from contextrelay.cache import BoundedCache
from contextrelay.client.transport.local import Local
from contextrelay.errors import Gone, NotFound
from contextrelay.limits import LIST_ITEMS_MAX
from contextrelay.model.artifact import format_time
from contextrelay.verbs import ListTasks, ReadEvents, ReadTask

# The number of tasks that one listing reads and counts, newest first. The next page may start after
# them. The status of at most this many finished tasks is cached.
A2A_TASKS_LISTED_MAX = 10_000


BY = "a2a/"
"""The beginning of the author name of an agent's tasks. The name of the agent follows."""


class Brief(Struct, frozen=True):
    """The status of a task, and the time of that status."""

    id: str
    agent: str
    context: str
    state: TaskState
    at: datetime

    @property
    def key(self) -> str:
        """Return the sort key of a task: the time of the status, then the id."""
        return f"{format_time(self.at)} {self.id}"


class Window(Struct, frozen=True):
    """A page of tasks in the order of their start. `next` is the cursor of the page with older
    tasks, or "".
    """

    briefs: list[Brief]
    next: str


class TaskListPage:
    """Lists the tasks of all agents of a server."""

    def __init__(self) -> None:
        self._ended: BoundedCache[str, Brief] = BoundedCache(A2A_TASKS_LISTED_MAX)

    def window(self, local: Local, after: str = "") -> Window:
        """Return a page of the tasks after a cursor, newest first. This blocks."""
        briefs: list[Brief] = []
        for _ in range(A2A_TASKS_LISTED_MAX // LIST_ITEMS_MAX):
            page = local.ask(ListTasks(after))
            every = (self._ended.get(id) or self._read(local, id) for id in page.ids)
            briefs += [each for each in every if each is not None]
            after = page.next
            if not after:
                break
        return Window(briefs, after)

    def _read(self, local: Local, id: str) -> Brief | None:
        record = read_task(local, id)
        if record is None or record.status is None:
            return None
        brief = Brief(id, record.agent, record.context, record.status.state, record.status.at)
        if brief.state in TERMINAL:
            self._ended.keep(id, brief)
        return brief


def read_task(local: Local, id: str) -> TaskRecord | None:
    """Return the record of a task, or None if the caller may not see such a task. This blocks."""
    with suppress(NotFound, Gone):
        log = local.ask(ReadTask(id))
        agent = log.record.created_by.removeprefix(BY)
        record = TaskRecord(id, log.record.name or "", agent)
        page = log.events
        while page:
            for each in page:
                record.take(each)
            if len(page) < LIST_ITEMS_MAX:
                break
            page = local.ask(ReadEvents(id, record.seq, LIST_ITEMS_MAX)).events
        is_task = log.record.kind == "task" and log.record.created_by.startswith(BY)
        if is_task and record.status is not None:
            return record
    return None
