"""The operations of A2A, the same for every binding: they take values and return JSON documents."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from contextrelay.a2a.agents import AgentPlace, extended_card
from contextrelay.a2a.parts import Viewer, show_message, show_task, show_update
from contextrelay.a2a.push_notifications import Hooks
from contextrelay.a2a.record import TaskRecord
from contextrelay.a2a.schema import (
    INTERRUPTED,
    REFS_EXTENSION,
    VERSION,
    GetTask,
    NamedConfig,
    ProtocolError,
    PushConfig,
    SendMessage,
    TaskQuery,
    TaskState,
    request,
)
from contextrelay.a2a.tasks import Tasks
from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.verbs import NoteTask

Document = dict[str, Any]
Call = Callable[["AgentVisit", Any], Awaitable[Document]]
Stream = Callable[["AgentVisit", Any], AsyncIterator[Document]]
PAGE_BEGINS = re.compile(r"[0-9T:.-]{19,29}Z \S{1,100}")
"""Matches the start of a page: the time of a task's status, and the id of the task."""


class AgentVisit(Struct, frozen=True):
    """A request: its caller, the agent that it addresses, and the extensions of the client."""

    service: A2AService
    local: AsyncLocal
    """The store with the permissions of the caller."""
    agent: str
    place: AgentPlace
    extensions: frozenset[str] = frozenset()

    def viewer(self, history_length: int | None = None) -> Viewer:
        knows_refs = REFS_EXTENSION in self.extensions
        relay = AsyncRelay.over_transport(self.local)
        return Viewer(relay, self.place.origin, knows_refs, history_length)


class A2AService(Struct, frozen=True):
    """The A2A agents of one server process."""

    tasks: Tasks
    hooks: Hooks


def check_version(given: str) -> None:
    """Raise ProtocolError if the version in a request is not supported. None means 0.3."""
    version = ".".join(given.strip().split(".")[:2])
    if version != VERSION:
        problem = f"A2A {given.strip()[:20] or '0.3'} is not supported"
        hint = f"send the header A2A-Version: {VERSION}"
        raise ProtocolError("VersionNotSupported", problem, hint)


# Messages


async def send(visit: AgentVisit, asked: SendMessage) -> Document:
    """Send a message to an agent. Return its task when it ends or waits, or at once on request."""
    tasks, configuration = visit.service.tasks, asked.configuration
    record = await _taken(visit, asked)
    if not configuration.return_immediately:
        await tasks.done(visit.local, record)
    viewer = visit.viewer(configuration.history_length)
    if record.direct is not None:
        return {"message": await show_message(viewer, record, record.direct)}
    return {"task": await show_task(viewer, record)}


async def stream(visit: AgentVisit, asked: SendMessage) -> AsyncIterator[Document]:
    """Send a message to an agent. Yield the task, then the updates of the task."""
    record = await _taken(visit, asked)
    viewer = visit.viewer(asked.configuration.history_length)
    async for each in _followed(visit, viewer, record, INTERRUPTED):
        yield each


async def _taken(visit: AgentVisit, asked: SendMessage) -> TaskRecord:
    tasks, hooks = visit.service.tasks, visit.service.hooks
    hook = asked.configuration.task_push_notification_config
    if hook is None:
        record = await tasks.ask(visit.local, visit.agent, asked.message)
        if asked.message.task_id:
            await hooks.send_updates(visit.local, record)
        return record
    hooks.check(hook)
    # The iterator is created before the first update.
    add = partial(hooks.add, visit.local, hook=hook)
    return await tasks.ask(visit.local, visit.agent, asked.message, add)


async def _followed(
    visit: AgentVisit, viewer: Viewer, record: TaskRecord, until: frozenset[TaskState]
) -> AsyncIterator[Document]:
    yield {"task": await show_task(viewer, record)}
    async for update in visit.service.tasks.follow(visit.local, record, until):
        shown = await show_update(viewer, record, update)
        if shown is not None:
            yield shown


# Tasks


async def get_task(visit: AgentVisit, asked: GetTask) -> Document:
    """Return a task."""
    record = await visit.service.tasks.find(visit.local, visit.agent, asked.id)
    return await show_task(visit.viewer(asked.history_length), record)


async def list_tasks(visit: AgentVisit, asked: TaskQuery) -> Document:
    """Return tasks, newest status first, or if there are too many, those that were started last."""
    since = _moment(asked.status_timestamp_after)
    state = "" if asked.status == "TASK_STATE_UNSPECIFIED" else asked.status
    place, last = _page_of(asked.page_token)
    window = await visit.service.tasks.window(visit.local, place)
    found = [
        each
        for each in window.briefs
        if each.agent == visit.agent
        and asked.context_id in ("", each.context)
        and state in ("", each.state)
        and (since is None or each.at >= since)
    ]
    found.sort(key=lambda each: each.key, reverse=True)
    rest = [each for each in found if not last or each.key < last]
    page = rest[: asked.page_size]
    older = f"{window.next}|" if window.next else ""
    records = [await visit.service.tasks.read(visit.local, each.id) for each in page]
    viewer = visit.viewer(asked.history_length)
    return {
        "tasks": [
            await show_task(viewer, each, asked.include_artifacts)
            for each in records
            if each is not None
        ],
        "nextPageToken": f"{place}|{page[-1].key}" if len(rest) > len(page) else older,
        "pageSize": asked.page_size,
        "totalSize": len(found),
    }


def _page_of(token: str) -> tuple[str, str]:
    """Return the cursor of the tasks of a page, and the key after which the page starts."""
    place, bar, last = token.partition("|")
    if token and not (bar and (not last or PAGE_BEGINS.fullmatch(last))):
        hint = "use the nextPageToken of the previous page"
        raise ProtocolError("InvalidParams", f"invalid page token {token[:40]!r}", hint)
    return place, last


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ProtocolError("InvalidParams", f"invalid time {text[:40]!r}") from None
    if moment.tzinfo is None:
        hint = "add Z for UTC, for example 2026-05-01T12:00:00Z"
        raise ProtocolError("InvalidParams", f"missing time zone in {text[:40]!r}", hint)
    return moment


async def cancel(visit: AgentVisit, asked: GetTask) -> Document:
    """Cancel a task."""
    record = await visit.service.tasks.find(visit.local, visit.agent, asked.id)
    await visit.service.tasks.cancel(visit.local, record)
    await visit.service.hooks.send_updates(visit.local, record)
    return await show_task(visit.viewer(), record)


async def subscribe(visit: AgentVisit, asked: GetTask) -> AsyncIterator[Document]:
    """Yield a task, then the updates of the task until it ends."""
    record = await visit.service.tasks.find(visit.local, visit.agent, asked.id)
    if record.is_over:
        problem = f"task {record.id} has ended"
        raise ProtocolError("UnsupportedOperation", problem, "read the task with GetTask")
    async for each in _followed(visit, visit.viewer(), record, frozenset()):
        yield each


# Push notifications


async def create_hook(visit: AgentVisit, asked: PushConfig) -> Document:
    """Add a webhook for the updates of a task."""
    visit.service.hooks.check(asked)
    record = await _hooked(visit, asked.task_id)
    return to_builtins(await visit.service.hooks.add(visit.local, record, asked))


async def get_hook(visit: AgentVisit, asked: NamedConfig) -> Document:
    """Return one push configuration of a task."""
    for each in (await list_hooks(visit, asked))["configs"]:
        if each["id"] == asked.id:
            return each
    raise ProtocolError("TaskNotFound", f"the task has no push configuration {asked.id[:80]!r}")


async def list_hooks(visit: AgentVisit, asked: NamedConfig) -> Document:
    """Return all push configurations of a task."""
    record = await _hooked(visit, asked.task_id)
    every = await visit.service.hooks.of(visit.local, record.id)
    return {"configs": to_builtins(every), "nextPageToken": ""}


async def delete_hook(visit: AgentVisit, asked: NamedConfig) -> Document:
    """Delete a push configuration. If it does not exist, nothing happens."""
    record = await _hooked(visit, asked.task_id)
    await visit.service.hooks.remove(visit.local, record.id, asked.id)
    return {}


async def _hooked(visit: AgentVisit, task: str) -> TaskRecord:
    """Return a task to which the caller may write: its configurations contain secrets."""
    record = await visit.service.tasks.find(visit.local, visit.agent, task)
    if (caller := visit.local.stores.caller) is not None:
        caller.check_kind(NoteTask)
    return record


async def get_extended_card(visit: AgentVisit, asked: object) -> Document:
    """Return the extended card, for callers with a key."""
    return extended_card(visit.agent, visit.service.tasks.agents, visit.place)


class Nothing(Struct):
    """The type of a request without parameters."""


CALLS: dict[str, tuple[type[Struct], Call]] = {
    "SendMessage": (SendMessage, send),
    "GetTask": (GetTask, get_task),
    "ListTasks": (TaskQuery, list_tasks),
    "CancelTask": (GetTask, cancel),
    "CreateTaskPushNotificationConfig": (PushConfig, create_hook),
    "GetTaskPushNotificationConfig": (NamedConfig, get_hook),
    "ListTaskPushNotificationConfigs": (NamedConfig, list_hooks),
    "DeleteTaskPushNotificationConfig": (NamedConfig, delete_hook),
    "GetExtendedAgentCard": (Nothing, get_extended_card),
}
STREAMS: dict[str, tuple[type[Struct], Stream]] = {
    "SendStreamingMessage": (SendMessage, stream),
    "SubscribeToTask": (GetTask, subscribe),
}


async def call(visit: AgentVisit, method: str, params: object, is_text: bool = False) -> Document:
    """Run an operation and return its result. Raise ProtocolError if this is not possible."""
    kind, answer = CALLS[method]
    return await answer(visit, request(kind, params, is_text))


async def begin(
    visit: AgentVisit, method: str, params: object
) -> tuple[Document, AsyncIterator[Document]]:
    """Start an operation that streams. Return its first document, and the others as an iterator.

    Raises:
        ProtocolError: the operation is not possible; nothing was sent.
    """
    kind, answer = STREAMS[method]
    documents = answer(visit, request(kind, params))
    return await anext(documents), documents


def with_extensions(visit: AgentVisit, asked: str) -> AgentVisit:
    """Return a visit with the extensions that a request header names."""
    names = {each.strip() for each in asked[:4096].split(",")}
    return replace(visit, extensions=frozenset(names & {REFS_EXTENSION}))
