"""Live parts: a stream that says that a channel or a thread has news; the page then asks for them.

Rule: the stream carries numbers only. What is new is asked for as any page is, by who may see it.
"""

from __future__ import annotations

from contextrelay.client.transport.remote import AsyncRemote
from contextrelay.errors import Invalid
from contextrelay.limits import EVENTS_KEEPALIVE_S
from contextrelay.model.names import channel_log, thread_log
from contextrelay.server.request import Exchange
from contextrelay.server.streams.signals import resumed, stream
from contextrelay.verbs import ReadSignals, ShowThread


async def follow(exchange: Exchange, remote: AsyncRemote | None) -> None:
    """Say, as server-sent events, how far a channel or a thread is, whenever that changes."""
    query = resumed(exchange)
    channel, thread = query.get("channel"), query.get("thread")
    if channel is None and thread is None:
        raise Invalid("nothing to follow", "name a channel or a thread")
    log = channel_log(channel) if channel is not None else thread_log(thread or "")
    asking = remote or exchange.relay

    async def head() -> int:
        if channel is not None:
            return (await asking.ask(ReadSignals(channel))).head
        return (await asking.ask(ShowThread(thread or ""))).events

    given = query.get("after", "")
    seen = int(given) if given.isdecimal() and len(given) < 16 else await head()

    async def following() -> bytes:
        nonlocal seen
        while not exchange.door.hub.is_closing:
            newest = await head()
            if newest != seen:
                seen = newest
                return b"event: news\nid: %d\ndata: %d\n\n" % (seen, seen)
            if remote is not None:
                await remote.wait_for(log, seen, EVENTS_KEEPALIVE_S)
            else:
                stores = exchange.relay.stores
                await exchange.door.hub.wait_for(stores, log, seen, EVENTS_KEEPALIVE_S)
        return b""

    await stream(exchange, seen, following)
