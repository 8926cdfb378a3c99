"""Subscriptions: notifications when the header of a thread changes; artifacts never do.

Two versions of the protocol subscribe in two ways: `resources/subscribe`, on a connection that
stays, and `subscriptions/listen`, whose reply is a stream of notifications.

Rule: a subscription holds a task and nothing else; it ends with its connection or stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    event_to_notification,
)

from contextrelay.core.schema import thread_log
from contextrelay.doors.mcp import resources
from contextrelay.doors.mcp.tools.tool import Visit
from contextrelay.errors import RelayError
from contextrelay.limits import MCP_STREAMS_MAX, MCP_SUBSCRIPTIONS_MAX, WAIT_S_MAX
from contextrelay.model.thread import ThreadView
from contextrelay.wire.verbs import ShowThread

Asking = ServerRequestContext[Any, Any]


class Headers:
    """The subscriptions of one server."""

    def __init__(self, visit_of: Callable[[Asking], Visit]) -> None:
        self._visit_of = visit_of
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._streams = 0

    # On a connection that stays

    async def subscribe(
        self, asking: Asking, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify this client of changes from now on."""
        uri = params.uri
        thread = _thread_of(uri)
        if uri not in self._tasks:
            if len(self._tasks) >= MCP_SUBSCRIPTIONS_MAX:
                raise _too_many()
            visit, head = await self._begun(asking, thread)

            async def notify() -> None:
                with suppress(RelayError):  # The thread or the store is gone.
                    async for _ in _changes(visit, thread, head):
                        await asking.session.send_resource_updated(uri)

            self._tasks[uri] = asyncio.get_running_loop().create_task(notify())
        return types.EmptyResult()

    async def unsubscribe(
        self, asking: Asking, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End a subscription, if there is one."""
        task = self._tasks.pop(params.uri, None)
        if task is not None:
            task.cancel()
        return types.EmptyResult()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    # As a stream of its own

    async def listen(
        self, asking: Asking, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Answer with notifications until the client leaves, or the threads are gone.

        Lists of tools and prompts never change here: who listens to them alone hears nothing.
        """
        wanted = params.notifications.resource_subscriptions or []
        if len(wanted) > MCP_SUBSCRIPTIONS_MAX or self._streams >= MCP_STREAMS_MAX:
            raise _too_many()
        threads = {uri: _thread_of(uri) for uri in wanted}
        begun = {uri: await self._begun(asking, thread) for uri, thread in threads.items()}
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: asking.request_id}

        async def send(notification: types.ServerNotification) -> None:
            await asking.session.send_notification(
                notification, related_request_id=asking.request_id
            )

        async def notify(uri: str) -> None:
            visit, head = begun[uri]
            with suppress(RelayError):
                async for _ in _changes(visit, threads[uri], head):
                    await send(event_to_notification(ResourceUpdated(uri), meta))

        self._streams += 1
        try:
            honored = types.SubscriptionFilter(resource_subscriptions=list(threads))
            acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
                notifications=honored, _meta=meta
            )
            await send(types.SubscriptionsAcknowledgedNotification(params=acknowledged))
            if not threads:
                await anyio.sleep_forever()
            async with anyio.create_task_group() as group:
                for uri in threads:
                    group.start_soon(notify, uri)
        finally:
            self._streams -= 1
        return types.SubscriptionsListenResult(_meta=meta)

    async def _begun(self, asking: Asking, thread: str) -> tuple[Visit, ThreadView]:
        visit = self._visit_of(asking)
        try:
            return visit, await visit.relay.transport.ask(ShowThread(thread))
        except RelayError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error


async def _changes(visit: Visit, thread: str, head: ThreadView) -> AsyncIterator[None]:
    """Yield whenever the state of a thread has a new version."""
    transport = visit.relay.transport
    while True:
        await transport.wait_for(thread_log(thread), head.events, WAIT_S_MAX)
        now = await transport.ask(ShowThread(thread))
        if now.version != head.version:
            yield
        head = now


_ONLY_HEADERS = "only headers of threads change here: subscribe to ctx://thread/<id>/header"


def _thread_of(uri: str) -> str:
    thread = resources.header_of(uri)
    if thread is None:
        raise MCPError(types.INVALID_PARAMS, _ONLY_HEADERS)
    return thread


def _too_many() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS, f"there are {MCP_SUBSCRIPTIONS_MAX} subscriptions already; end one"
    )
