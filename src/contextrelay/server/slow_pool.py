"""Slow verbs, each in a thread of its own, so that they do not delay other requests.

A verb that scans the whole store is refused if too many of them are running. A verb that searches
bodies is short (see bounded/bodies.py), so it waits until fewer are running.

Rule: the number of these threads is limited, and a server that stops does not wait for them.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Unavailable
from contextrelay.verbs import Body, Verb

# Maximum numbers of concurrent requests: those that run capabilities, make backups or scan the
# store, and those that search bodies.
SLOW_AT_ONCE_MAX = 16
LOOKS_AT_ONCE_MAX = 8


class SlowPool:
    """Runs the slow requests of one server, each in a thread."""

    def __init__(self) -> None:
        self._long = asyncio.Semaphore(SLOW_AT_ONCE_MAX)
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)

    async def look(self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str) -> Any:
        """Run a verb that searches bodies, as soon as few enough others are running, and return its
        reply.
        """
        return await self._in_own_thread(relay, verb, body, key, self._looks)

    async def ask(self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str) -> Any:
        """Run a verb that scans the whole store, and return its reply.

        Raises:
            Unavailable: too many such requests are running.
        """
        if self._long.locked():
            raise Unavailable(
                f"{SLOW_AT_ONCE_MAX} slow requests are already running", "retry later"
            )
        return await self._in_own_thread(relay, verb, body, key, self._long)

    async def _in_own_thread(
        self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str, turns: asyncio.Semaphore
    ) -> Any:
        await turns.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def give(reply: Any, error: BaseException | None) -> None:
            # Release the slot only now, because the thread keeps working after its client has
            # disconnected.
            turns.release()
            if future.done():
                return  # The client disconnected, or the server is stopping.
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(reply)

        def work() -> None:
            reply = error = None
            try:
                reply = relay.answer(verb, body, key)
            except Exception as raised:
                error = raised
            # The event loop is closed, and nobody waits for the result.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(give, reply, error)

        threading.Thread(target=work, name="relay-slow", daemon=True).start()
        return await future
