"""Verbs that may take long, each in a thread of its own, so that they hold up nobody else.

Those that go through the whole store are refused where too many run; those that look into bodies,
which end soon (bounded/bodies.py), wait their turn.

Rule: they are few at once, and a server that ends does not wait for them: the threads end with it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

from contextrelay.client.transport.local import AsyncLocal
from contextrelay.errors import Unavailable
from contextrelay.verbs import Body, Verb

# Requests that take long: capabilities, backups, whole-store checks; and that look into bodies.
SLOW_AT_ONCE_MAX = 16
LOOKS_AT_ONCE_MAX = 8


class SlowPool:
    """The long requests of one server."""

    def __init__(self) -> None:
        self._long = asyncio.Semaphore(SLOW_AT_ONCE_MAX)
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)

    async def look(self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str) -> Any:
        """Answer a verb that looks into bodies, as soon as there are not too many others."""
        return await self._in_own_thread(relay, verb, body, key, self._looks)

    async def ask(self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str) -> Any:
        """Answer a verb that goes through the whole store.

        Raises:
            Unavailable: too many such requests are being answered.
        """
        if self._long.locked():
            raise Unavailable(
                f"{SLOW_AT_ONCE_MAX} requests that take long are being answered", "ask again later"
            )
        return await self._in_own_thread(relay, verb, body, key, self._long)

    async def _in_own_thread(
        self, relay: AsyncLocal, verb: Verb[Any], body: Body, key: str, turns: asyncio.Semaphore
    ) -> Any:
        await turns.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def give(reply: Any, error: BaseException | None) -> None:
            turns.release()  # Only now: the thread works on where its client has left.
            if future.done():
                return  # Its client is gone, or the server ends.
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
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(give, reply, error)

        threading.Thread(target=work, name="relay-slow", daemon=True).start()
        return await future
