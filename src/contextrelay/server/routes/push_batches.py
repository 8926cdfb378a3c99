"""Batched pushes: bodies that arrive at the same time are stored in one commit.

A few threads do this. Pushes that arrive while a commit is synced to disk are prepared and join the
next commit. Under load, a push therefore needs neither a thread switch nor a sync of its own.
Bodies too large for a row have a separate queue, so that small ones do not wait for their files.

Rule: a push is answered only after it is stored, and gets its own answer even in a shared commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from contextrelay.client.transport.local import AsyncLocal
from contextrelay.limits import INLINE_BODY_BYTES_MAX, KEEPERS_MAX, ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import Body, Push

PUSHES_TOGETHER_MAX = 256
# The number of threads for small pushes: one prepares a batch while the batch of another is synced.
SMALL_PUSHERS_MAX = 2
# The number of threads for pushes too large for a row: one hashes while the files of another are
# synced.
LARGE_PUSHERS_MAX = 2


Waiting = tuple[AsyncLocal, Push, bytes, "asyncio.Future[Artifact]"]


class Pushing:
    """The queues of pushes of one server."""

    def __init__(self) -> None:
        self._small = _Lane(SMALL_PUSHERS_MAX, PUSHES_TOGETHER_MAX)
        self._large = _Lane(LARGE_PUSHERS_MAX, KEEPERS_MAX)

    async def push(self, relay: AsyncLocal, verb: Push, body: Body, key: str) -> Artifact:
        """Store a body. Streams, pushes into a thread, and pushes with an idempotency key are not
        batched.
        """
        if (
            not isinstance(body, bytes)
            or len(body) > INLINE_BODY_BYTES_MAX
            or not relay.can_share_commit(verb, key)
        ):
            return await relay.ask(verb, body, key=key)
        lane = self._small if len(body) <= ROW_BODY_BYTES_MAX else self._large
        return await lane.push(relay, verb, body)


class _Lane:
    """A queue of pushes, and the threads that store them."""

    def __init__(self, pushers_max: int, together_max: int) -> None:
        self._threads = ThreadPoolExecutor(pushers_max, "relay-push")
        self._pushers_max = pushers_max
        self._together_max = together_max
        self._pushers = 0
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()

    async def push(self, relay: AsyncLocal, verb: Push, body: bytes) -> Artifact:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Artifact] = loop.create_future()
        with self._lock:
            self._waiting.append((relay, verb, body, future))
            is_short = self._pushers < self._pushers_max
            self._pushers += is_short
        if is_short:
            # Start the batch only after the requests that have already arrived, so that they share
            # the commit.
            loop.call_soon(lambda: self._threads.submit(self._work, loop))
        return await future

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                batch = self._waiting[: self._together_max]
                del self._waiting[: self._together_max]
                if not batch:
                    self._pushers -= 1
                    return
            replies: Sequence[Artifact | BaseException]
            try:
                asked = [(relay.stores, verb, body) for relay, verb, body, _ in batch]
                replies = batch[0][0].answer_pushes(asked)
            except Exception as error:
                replies = [error] * len(batch)
            # The event loop is closed, and nobody waits for the result.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_give, batch, replies)


def _give(batch: list[Waiting], answers: Sequence[Artifact | BaseException]) -> None:
    for (_, _, _, future), answer in zip(batch, answers, strict=True):
        if future.done():
            continue  # The client disconnected.
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
