"""Tasks: create, find, follow and work on them. Each task is a thread of kind `task`.

Rule: everything is in the log of a task before anybody sees it, so a killed server loses nothing
that was visible. If a server dies, the tasks of its agents fail when they are read the next time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from contextrelay.a2a.output import Writer, agent_message
from contextrelay.a2a.parts import check_parts, store_message, stored_if_short
from contextrelay.a2a.record import ASKED, RUNS, STATUS, Claim, KeptMessage, TaskRecord, Update
from contextrelay.a2a.schema import (
    CANCELED,
    FAILED,
    INTERRUPTED,
    WORKING,
    AgentMessage,
    ProtocolError,
    TaskState,
)
from contextrelay.a2a.work import Agent, asked_of
from contextrelay.cache import BoundedCache
from contextrelay.client.flow import in_thread
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.thread import AsyncThread
from contextrelay.client.transport.local import AsyncLocal, Local
from contextrelay.errors import Gone, Limited, NotFound, Refused, RelayError
from contextrelay.limits import (
    A2A_TASK_S_MAX,
    A2A_TASKS_AT_ONCE_MAX,
    LIST_ITEMS_MAX,
    NUMBER_MAX,
    WAIT_S_MAX,
)
from contextrelay.model.artifact import format_time, from_ms
from contextrelay.model.names import thread_log
from contextrelay.model.ref import is_ref
from contextrelay.model.thread import Numbered
from contextrelay.pipelines.record import plain_runner
from contextrelay.verbs import BeginTask, ListTasks, NoteTask, ReadEvents, ReadTask

if TYPE_CHECKING:
    from contextrelay.server.streams.hub import Hub

A2A_MESSAGES_MAX = 1_000
# An agent that runs for more seconds is stopped at once when another process cancels its task.
A2A_WATCHED_AFTER_S = 0.2
# The number of tasks that one listing reads and counts, newest first. The next page may start after
# them. The status of at most this many finished tasks is cached.
A2A_TASKS_LISTED_MAX = 10_000
# The name of a key may come before it.
BY = "a2a/"
"""The beginning of the author name of an agent's tasks. The name of the agent follows."""
log = logging.getLogger("contextrelay.a2a")

Before = Callable[[TaskRecord], Awaitable[object]]
_DIED = "the server that worked on the task ended; send the message again"


class Tasks:
    """The tasks of one server process."""

    def __init__(self, hub: Hub, agents: dict[str, Agent]) -> None:
        self.hub = hub
        self.agents = agents
        self._ended: BoundedCache[str, Brief] = BoundedCache(A2A_TASKS_LISTED_MAX)
        """The finished tasks that were listed. They never change, so they are read only once."""
        self._working: dict[str, asyncio.Task[TaskRecord]] = {}

    # Finding

    async def find(self, local: AsyncLocal, agent: str, task: str) -> TaskRecord:
        """Return a task of an agent.

        Raises:
            ProtocolError: there is no such task, or the caller may not see it.
        """
        record = await self.read(local, task) if is_ref(task) else None
        if record is None or record.agent != agent:
            raise ProtocolError("TaskNotFound", f"unknown task {task[:80]!r}")
        await self._end_if_dead(local, record)
        return record

    async def read(self, local: AsyncLocal, task: str) -> TaskRecord | None:
        """Return the record of a task, or None if there is no such task that the caller may see."""
        if local.stores.ledger.reads_wait:
            return await in_thread(lambda: read_task(local.blocking(), task))
        return read_task(local.blocking(), task)

    async def window(self, local: AsyncLocal, after: str = "") -> Window:
        """Return a page with the status of tasks of all agents, newest first."""
        return await in_thread(lambda: self._window(local.blocking(), after))

    def _window(self, local: Local, after: str) -> Window:
        briefs: list[Brief] = []
        for _ in range(A2A_TASKS_LISTED_MAX // LIST_ITEMS_MAX):
            page = local.ask(ListTasks(after))
            every = (self._ended.get(id) or self._brief(local, id) for id in page.ids)
            briefs += [each for each in every if each is not None]
            after = page.next
            if not after:
                break
        return Window(briefs, after)

    def _brief(self, local: Local, id: str) -> Brief | None:
        record = read_task(local, id)
        if record is None or record.status is None:
            return None
        brief = Brief(id, record.agent, record.context, record.status.state, record.status.at)
        if record.is_over:
            self._ended.keep(id, brief)
        return brief

    # Receiving messages

    async def ask(
        self, local: AsyncLocal, agent: str, message: AgentMessage, before: Before | None = None
    ) -> TaskRecord:
        """Store a message, call `before`, start to work on the message, and return its task.

        Raises:
            ProtocolError: the task does not exist, or accepts no message now.
            Limited: too many tasks are running.
        """
        check_parts(message.parts)
        if message.role != "ROLE_USER":
            raise ProtocolError("InvalidParams", "the role of the message must be user")
        if len(self._working) >= A2A_TASKS_AT_ONCE_MAX:
            problem = f"too many tasks are running (limit {A2A_TASKS_AT_ONCE_MAX})"
            raise Limited(problem, "retry later")
        name = message.context_id or local.stores.new_ref()
        if message.task_id:
            record = await self._continued(local, agent, message)
        elif (kept := stored_if_short(message)) is not None:
            begin = BeginTask(name, _asked(kept), BY + agent)
            record = TaskRecord((await local.ask(begin)).thread_id, name, agent)
            await catch_up(local, record)
            return await self._begin(local, record, kept, before)
        else:
            view = await local.ask(BeginTask(name, by=BY + agent))
            record = TaskRecord(view.thread_id, name, agent)
        thread = AsyncThread(AsyncRelay.over_transport(local), record.id)
        kept = await store_message(thread, message, "a2a")
        turns = len(record.history)
        asked = await local.ask(NoteTask(record.id, ASKED, _asked(kept), BY + agent))
        await catch_up(local, record, asked.seq)
        # The log decides the order of concurrent messages, whichever process receives them.
        if record.is_over or len(record.history) > turns + 1:
            problem = "the task has ended, or has received another message"
            raise ProtocolError("UnsupportedOperation", problem, "read the task with GetTask")
        return await self._begin(local, record, kept, before)

    async def _begin(
        self, local: AsyncLocal, record: TaskRecord, kept: KeptMessage, before: Before | None
    ) -> TaskRecord:
        if before is not None:
            await before(record)
        self._start(local, record, kept)
        return record

    async def _continued(self, local: AsyncLocal, agent: str, message: AgentMessage) -> TaskRecord:
        record = await self.find(local, agent, message.task_id)
        if message.context_id not in ("", record.context):
            raise ProtocolError("InvalidParams", "the task belongs to another context")
        problem = hint = ""
        if record.is_over:
            problem, hint = f"task {record.id} has ended", "send the message without a task id"
        elif record.id in self._working or record.state == WORKING:
            problem = "the agent is still working on the last message"
            hint = "wait until the agent has answered"
        elif len(record.history) >= A2A_MESSAGES_MAX:
            problem = f"too many messages: the limit is {A2A_MESSAGES_MAX} per task"
        if problem:
            raise ProtocolError("UnsupportedOperation", problem, hint)
        return record

    def _start(self, local: AsyncLocal, record: TaskRecord, kept: KeptMessage) -> None:
        own = record.copy()
        working = asyncio.create_task(self._work(local, own, kept), name=f"task {record.id}")
        self._working[record.id] = working
        # Most tasks end before this check starts, so it usually costs nothing.
        loop = asyncio.get_running_loop()
        watch = loop.call_later(A2A_WATCHED_AFTER_S, self._watch, local, own, working)

        def end(done: asyncio.Task[TaskRecord]) -> None:
            self._working.pop(record.id, None)
            watch.cancel()

        working.add_done_callback(end)

    def _watch(self, local: AsyncLocal, own: TaskRecord, working: asyncio.Task[TaskRecord]) -> None:
        watching = asyncio.create_task(self._stop_if_canceled(local, own, working))
        working.add_done_callback(lambda done: watching.cancel())

    async def _stop_if_canceled(
        self, local: AsyncLocal, own: TaskRecord, working: asyncio.Task[TaskRecord]
    ) -> None:
        """Stop an agent when the log says that another process has cancelled its task."""
        seen = TaskRecord(own.id, own.context, own.agent)
        seen.seq = own.seq
        with suppress(RelayError):  # The next write of the agent notices the problem.
            async for _ in self.follow(local, seen):
                pass
        if seen.state == CANCELED:
            working.cancel()

    # Working

    async def _work(self, local: AsyncLocal, record: TaskRecord, kept: KeptMessage) -> TaskRecord:
        """Run the agent on a message, record its output, and return the record of the task."""
        agent = self.agents[record.agent]
        writer = Writer(local, record, BY + record.agent)
        try:
            if any(part.ref for part in kept.parts):
                asked = await in_thread(lambda: asked_of(local, record, kept))
            else:
                asked = asked_of(local, record, kept)
            async with asyncio.timeout(A2A_TASK_S_MAX), aclosing(agent.work(asked)) as made:
                async for each in made:
                    await writer.put(each)
            await writer.end()
        except asyncio.CancelledError:
            # The task was cancelled, as the log says, or the server is stopping.
            if not agent.lives_elsewhere:
                await self._fail(local, record, "the server was stopped")
            raise
        except TimeoutError:
            reason = f"the task exceeded its time limit of {A2A_TASK_S_MAX} s"
            await self._fail(local, record, reason)
        except RelayError as error:
            await self._fail(local, record, error.message)
        except Exception as error:
            log.exception("agent %s failed", record.agent)
            await self._fail(local, record, f"{type(error).__name__}: {error}")
        return record

    async def _fail(self, local: AsyncLocal, record: TaskRecord, why: str) -> None:
        try:
            await catch_up(local, record)
            if not record.is_over:
                await self._finish(local, record, FAILED, why[:500])
        except RelayError as error:
            log.warning("cannot record why a task failed: %s", error)

    async def done(self, local: AsyncLocal, record: TaskRecord) -> None:
        """Wait until a task ends or waits for its user, and update the record of the task."""
        working = self._working.get(record.id)
        if working is not None:
            await asyncio.wait([working])
            if not working.cancelled():
                record.become(working.result())
        async for _ in self.follow(local, record, until=INTERRUPTED):
            pass

    async def follow(
        self, local: AsyncLocal, record: TaskRecord, until: frozenset[TaskState] = frozenset()
    ) -> AsyncGenerator[Update]:
        """Yield the further updates of a task until it ends or reaches a state in `until`.

        During each iteration, the record includes exactly the updates yielded so far.
        """
        while not record.is_over:
            if page := await _read_on(local, record):
                for each in page:
                    if (update := record.take(each)) is not None:
                        yield update
            elif record.state in until or self.hub.is_closing:
                return
            elif not await self.hub.wait_for(
                local.stores, thread_log(record.id), record.seq, WAIT_S_MAX
            ):
                await self._end_if_dead(local, record)

    async def cancel(self, local: AsyncLocal, record: TaskRecord) -> None:
        """Cancel a task, and stop its agent if possible.

        Raises:
            ProtocolError: the task has ended.
        """
        if record.is_over:
            raise ProtocolError("TaskNotCancelable", f"task {record.id} has ended")
        await self._finish(local, record, CANCELED, "")
        working = self._working.get(record.id)
        if working is not None:
            working.cancel()

    # Ending

    async def _end_if_dead(self, local: AsyncLocal, record: TaskRecord) -> None:
        """Mark a task as failed if its agent died with its server. Await an agent elsewhere."""
        if record.state != WORKING or record.id in self._working or record.runner is None:
            return
        if not is_dead(local, record.runner):
            return
        if not self.agents[record.agent].lives_elsewhere:
            await self._finish(local, record, FAILED, _DIED)
            return
        # If several processes notice this, the first one in the log continues the task.
        detail = {"runner": runner(), "note": record.note}
        note = NoteTask(record.id, RUNS, detail, BY + record.agent)
        is_ours = await claim(local, note, f"a2a {record.id} {record.runner.seq}")
        await catch_up(local, record)
        # Another request of this process may have noticed this in the meantime.
        if is_ours and record.state == WORKING and record.id not in self._working:
            self._start(local, record, record.history[-1])

    async def _finish(
        self, local: AsyncLocal, record: TaskRecord, state: TaskState, why: str
    ) -> None:
        detail = {"state": state}
        if why:
            detail["message"] = to_builtins(agent_message(local.stores.new_ref(), why))
        await local.ask(NoteTask(record.id, STATUS, detail, BY + record.agent, is_over=True))
        await catch_up(local, record)

    async def resume(self, local: AsyncLocal) -> None:
        """Resume the tasks of servers that have ended, or mark them as failed."""
        try:
            for brief in (await self.window(local)).briefs:
                if brief.state == WORKING and brief.agent in self.agents:
                    with suppress(ProtocolError):  # The task was deleted in the meantime.
                        await self.find(local, brief.agent, brief.id)
        except RelayError as error:
            log.warning("cannot check the tasks of earlier servers: %s", error)

    async def stop(self) -> None:
        """Stop the work on all tasks. Call this in the event loop before the store is closed."""
        working = list(self._working.values())
        for each in working:
            each.cancel()
        if working:
            await asyncio.wait(working)


def _asked(kept: KeptMessage) -> dict[str, Any]:
    return {"message": to_builtins(kept), "runner": runner()}


@cache
def runner() -> dict[str, Any]:
    """Return the identity of this process, with which others can check whether it is alive."""
    return plain_runner()


def is_dead(local: AsyncLocal, claim: Claim) -> bool:
    """Return True if the process of a claim is gone."""
    is_embedded = local.stores.root.engine.home is not None
    return claim.is_dead(from_ms(local.stores.now_ms()), is_embedded)


async def claim(local: AsyncLocal, note: NoteTask, once: str) -> int:
    """Return the number of a claim in the log, or 0 if another process has claimed this before."""
    try:
        return (await local.ask(note, key=once)).seq
    except Refused:
        return 0


async def catch_up(local: AsyncLocal, record: TaskRecord, to: int = NUMBER_MAX) -> None:
    """Update a record by the new events in the task's log, up to a sequence number."""
    while record.seq < to and (page := await _read_on(local, record)):
        for each in page:
            if each.seq <= to:
                record.take(each)
        if len(page) < LIST_ITEMS_MAX:
            break


async def _read_on(local: AsyncLocal, record: TaskRecord) -> list[Numbered]:
    return (await local.ask(ReadEvents(record.id, record.seq, LIST_ITEMS_MAX))).events


# Listing


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
    """A page of tasks in the order of their start. `next` is the cursor of older ones, or ""."""

    briefs: list[Brief]
    next: str


def read_task(local: Local, id: str) -> TaskRecord | None:
    """Return the record of a task, or None if the caller may not see such a task. This blocks."""
    with suppress(NotFound, Gone):
        log = local.ask(ReadTask(id))
        agent = log.record.created_by.rpartition(BY)[2]
        record = TaskRecord(id, log.record.name or "", agent)
        page = log.events
        while page:
            for each in page:
                record.take(each)
            if len(page) < LIST_ITEMS_MAX:
                break
            page = local.ask(ReadEvents(id, record.seq, LIST_ITEMS_MAX)).events
        is_task = log.record.kind == "task" and BY in log.record.created_by
        if is_task and record.status is not None:
            return record
    return None
