"""Subscriptions: notifications of new versions of a thread's header, and of new signals.

The two protocol versions subscribe in different ways: with `resources/subscribe` on a persistent
connection, or with `subscriptions/listen`, whose response is a stream of notifications.

Rule: a subscription uses only one task, which ends together with its connection or stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, get_args

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    event_to_notification,
)
from msgspec import Struct

from contextrelay.errors import RelayError
from contextrelay.limits import WAIT_S_MAX
from contextrelay.mcp import resources
from contextrelay.mcp.tools.tool import ToolVisit
from contextrelay.model.names import channel_log, thread_log
from contextrelay.verbs import ReadSignals, ShowThread

# The maximum number of subscriptions per client, and of notification streams per server.
MCP_SUBSCRIPTIONS_MAX = 32
MCP_STREAMS_MAX = 1_000
Asking = ServerRequestContext[Any, Any]
Subscribed = dict[str, asyncio.Task[None]]
_STATE = "contextrelay.subscriptions"


def connection_of(asking: Asking) -> Connection:
    """Return the connection of a request. The SDK does not give it to handlers."""
    return asking.session._connection  # pyright: ignore[reportPrivateUsage]


class Subscriptions:
    """The subscriptions of one server."""

    def __init__(self, visit_of: Callable[[Asking], ToolVisit]) -> None:
        self._visit_of = visit_of
        self._streams = 0

    # Subscriptions on a persistent connection

    async def subscribe(
        self, asking: Asking, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify this client of changes to a resource from now on."""
        uri = params.uri
        subscribed = _of_connection(asking)
        if uri not in subscribed:
            if len(subscribed) >= MCP_SUBSCRIPTIONS_MAX:
                raise _too_many()
            watched = await self._watched(asking, uri)

            async def notify() -> None:
                with suppress(RelayError):  # The thread was deleted, or the store was closed.
                    async for _ in watched.changes():
                        await asking.session.send_resource_updated(uri)

            subscribed[uri] = asyncio.get_running_loop().create_task(notify())
        return types.EmptyResult()

    async def unsubscribe(
        self, asking: Asking, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End a subscription of this client, if there is one."""
        task = _of_connection(asking).pop(params.uri, None)
        if task is not None:
            task.cancel()
        return types.EmptyResult()

    # Subscriptions as a separate stream

    async def listen(
        self, asking: Asking, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Stream notifications until the client disconnects or the resource is gone.

        The lists of tools and prompts never change, so subscriptions to them send nothing.
        """
        wanted = params.notifications.resource_subscriptions or []
        if len(wanted) > MCP_SUBSCRIPTIONS_MAX or self._streams >= MCP_STREAMS_MAX:
            raise _too_many()
        watched = {uri: await self._watched(asking, uri) for uri in wanted}
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: asking.request_id}

        async def send(message: types.ServerNotification) -> None:
            await asking.session.send_notification(message, related_request_id=asking.request_id)

        async def notify(uri: str) -> None:
            with suppress(RelayError):
                async for _ in watched[uri].changes():
                    await send(event_to_notification(ResourceUpdated(uri), meta))

        self._streams += 1
        try:
            honored = types.SubscriptionFilter(resource_subscriptions=list(watched))
            acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
                notifications=honored, _meta=meta
            )
            await send(types.SubscriptionsAcknowledgedNotification(params=acknowledged))
            if not watched:
                await anyio.sleep_forever()
            async with anyio.create_task_group() as group:
                for uri in watched:
                    group.start_soon(notify, uri)
        finally:
            self._streams -= 1
        return types.SubscriptionsListenResult(_meta=meta)

    async def _watched(self, asking: Asking, uri: str) -> _Watched:
        """Return the resource of a URI in its current state.

        Raises:
            MCPError: the resource never changes, or the caller may not read it.
        """
        visit = self._visit_of(asking)
        thread, channel = resources.header_of(uri), resources.channel_of(uri)
        try:
            if thread is not None:
                watched = _Watched(visit, thread_log(thread), thread=thread)
            elif channel is not None:
                watched = _Watched(visit, channel_log(channel), channel=channel)
            else:
                raise MCPError(types.INVALID_PARAMS, _NOTHING_ELSE)
            await watched.look()
        except RelayError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error
        return watched


class _Watched(Struct):
    """A watched thread header or channel, and the position up to which it was read."""

    visit: ToolVisit
    log: str
    thread: str = ""
    channel: str = ""
    seq: int = 0
    """The sequence number of the last event or signal that was read."""
    mark: int = 0
    """A number that changes with the resource: a version, or the number of the last signal."""

    async def look(self) -> bool:
        """Read the current position, and return True if the resource has changed."""
        before = self.mark
        ask = self.visit.relay.transport.ask
        if self.thread:
            view = await ask(ShowThread(self.thread))
            self.seq, self.mark = view.events, view.version
        else:
            page = await ask(ReadSignals(self.channel, limit=1))
            self.seq = self.mark = page.head
        return self.mark != before

    async def changes(self) -> AsyncIterator[None]:
        """Yield None after every change of the resource."""
        while True:
            await self.visit.relay.transport.wait_for(self.log, self.seq, WAIT_S_MAX)
            if await self.look():
                yield


_NOTHING_ELSE = (
    "cannot subscribe to this resource: use ctx://thread/<id>/header or ctx://channel/<name>"
)


def _of_connection(asking: Asking) -> Subscribed:
    """Return the subscriptions of a connection. They end when the connection ends."""
    connection = connection_of(asking)
    if _STATE not in connection.state:
        subscribed: Subscribed = {}
        connection.state[_STATE] = subscribed

        def end() -> None:
            for task in subscribed.values():
                task.cancel()

        connection.exit_stack.callback(end)
    return connection.state[_STATE]


def _too_many() -> MCPError:
    problem = f"subscription limit reached ({MCP_SUBSCRIPTIONS_MAX})"
    return MCPError(types.INVALID_PARAMS, f"{problem}: unsubscribe from another resource first")


_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""The log levels, from the least to the most severe."""
_LEVEL_STATE = "contextrelay.log_level"
_LOGGER = "contextrelay"


async def set_log_level(asking: Asking, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Set the lowest level of log messages that are sent to this client."""
    connection_of(asking).state[_LEVEL_STATE] = params.level
    return types.EmptyResult()


async def send_log_message(asking: Asking, level: types.LoggingLevel, data: dict[str, Any]) -> None:
    """Send a log message to a client, if the client requested messages of this level."""
    wanted = dict(asking.meta or {}).get(types.LOG_LEVEL_META_KEY)
    wanted = wanted or connection_of(asking).state.get(_LEVEL_STATE)
    if wanted in _LEVELS and _LEVELS.index(level) >= _LEVELS.index(wanted):
        params = types.LoggingMessageNotificationParams(level=level, logger=_LOGGER, data=data)
        notification = types.LoggingMessageNotification(params=params)
        await asking.session.send_notification(notification, related_request_id=asking.request_id)
