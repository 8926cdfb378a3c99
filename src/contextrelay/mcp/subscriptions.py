"""Subscriptions: notifications of new versions of a thread's header, and of signals on a channel.

Two versions of the protocol subscribe in two ways: `resources/subscribe`, on a connection that
stays, and `subscriptions/listen`, whose reply is a stream of notifications.

Rule: a subscription holds a task and nothing else; it ends with its connection or stream.
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

# Of one client; and streams of news to clients of one server.
MCP_SUBSCRIPTIONS_MAX = 32
MCP_STREAMS_MAX = 1_000


Asking = ServerRequestContext[Any, Any]
Subscribed = dict[str, asyncio.Task[None]]
_STATE = "contextrelay.subscriptions"


def connection_of(asking: Asking) -> Connection:
    """The connection of a request; the SDK gives its handlers no other way to it."""
    return asking.session._connection  # pyright: ignore[reportPrivateUsage]


class Subscriptions:
    """The subscriptions of one server."""

    def __init__(self, visit_of: Callable[[Asking], ToolVisit]) -> None:
        self._visit_of = visit_of
        self._streams = 0

    # On a connection that stays

    async def subscribe(
        self, asking: Asking, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify this client of changes from now on."""
        uri = params.uri
        subscribed = _of_connection(asking)
        if uri not in subscribed:
            if len(subscribed) >= MCP_SUBSCRIPTIONS_MAX:
                raise _too_many()
            watched = await self._watched(asking, uri)

            async def notify() -> None:
                with suppress(RelayError):  # The thread or the store is gone.
                    async for _ in watched.changes():
                        await asking.session.send_resource_updated(uri)

            subscribed[uri] = asyncio.get_running_loop().create_task(notify())
        return types.EmptyResult()

    async def unsubscribe(
        self, asking: Asking, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End a subscription, if there is one."""
        task = _of_connection(asking).pop(params.uri, None)
        if task is not None:
            task.cancel()
        return types.EmptyResult()

    # As a stream of its own

    async def listen(
        self, asking: Asking, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Answer with notifications until the client leaves, or what it listens to is gone.

        Lists of tools and prompts never change here: who listens to them alone hears nothing.
        """
        wanted = params.notifications.resource_subscriptions or []
        if len(wanted) > MCP_SUBSCRIPTIONS_MAX or self._streams >= MCP_STREAMS_MAX:
            raise _too_many()
        watched = {uri: await self._watched(asking, uri) for uri in wanted}
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: asking.request_id}

        async def send(notification: types.ServerNotification) -> None:
            await asking.session.send_notification(
                notification, related_request_id=asking.request_id
            )

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
        """What a URI stands for, as it is now.

        Raises:
            MCPError: nothing of this name changes, or the caller may not read it.
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
    """A thread's header, or a channel, and how far it was seen."""

    visit: ToolVisit
    log: str
    thread: str = ""
    channel: str = ""
    seq: int = 0
    """The last fact of its log that was seen."""
    mark: int = 0
    """What is another one when the resource is another one: a version, or the last signal."""

    async def look(self) -> bool:
        """See how far it is now; whether it changed."""
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
        """Yield whenever it has changed."""
        while True:
            await self.visit.relay.transport.wait_for(self.log, self.seq, WAIT_S_MAX)
            if await self.look():
                yield


_NOTHING_ELSE = (
    "only headers of threads and channels change here:"
    " subscribe to ctx://thread/<id>/header or ctx://channel/<name>"
)


def _of_connection(asking: Asking) -> Subscribed:
    """The subscriptions of the connection; they end with it."""
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
    return MCPError(
        types.INVALID_PARAMS, f"there are {MCP_SUBSCRIPTIONS_MAX} subscriptions already; end one"
    )


_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From the least to the most severe."""
_LEVEL_STATE = "contextrelay.log_level"
_LOGGER = "contextrelay"


async def set_log_level(asking: Asking, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Send this client what is as severe as a level, from now on."""
    connection_of(asking).state[_LEVEL_STATE] = params.level
    return types.EmptyResult()


async def send_log_message(asking: Asking, level: types.LoggingLevel, data: dict[str, Any]) -> None:
    """Send a message to a client that asked for such."""
    wanted = dict(asking.meta or {}).get(types.LOG_LEVEL_META_KEY)
    wanted = wanted or connection_of(asking).state.get(_LEVEL_STATE)
    if wanted in _LEVELS and _LEVELS.index(level) >= _LEVELS.index(wanted):
        params = types.LoggingMessageNotificationParams(level=level, logger=_LOGGER, data=data)
        notification = types.LoggingMessageNotification(params=params)
        await asking.session.send_notification(notification, related_request_id=asking.request_id)
