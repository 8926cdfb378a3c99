"""Pushing: small bodies that arrive side by side are stored side by side, in one commit.

One thread works while there is work: what arrives during one sync to disk goes into the next, so
under load a push costs neither a thread's turn nor a sync of its own.

Rule: a push is answered when it is stored, and gets its own answer, whoever shared its commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

from contextrelay.client.local import AsyncLocal
from contextrelay.limits import PUSHES_TOGETHER_MAX, ROW_BODY_BYTES_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.wire.verbs import Body, Push

Waiting = tuple[Push, bytes, "asyncio.Future[Artifact]"]


class Pushing:
    """The pushes of one server."""

    def __init__(self, relay: AsyncLocal) -> None:
        self._relay = relay
        self._waiting: list[Waiting] = []
        self._is_working = False
        self._lock = threading.Lock()

    async def push(self, verb: Push, body: Body, key: str) -> Artifact:
        """Store a body. Large ones, and those told to a thread or done once, go by themselves."""
        if (
            key
            or verb.thread is not None
            or verb.source_refs
            or not isinstance(body, bytes)
            or len(body) > ROW_BODY_BYTES_MAX
        ):
            return await self._relay.ask(verb, body, key=key)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Artifact] = loop.create_future()
        with self._lock:
            self._waiting.append((verb, body, future))
            is_idle, self._is_working = not self._is_working, True
        if is_idle:
            loop.run_in_executor(None, self._work, loop)
        return await future

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                batch = self._waiting[:PUSHES_TOGETHER_MAX]
                del self._waiting[:PUSHES_TOGETHER_MAX]
                if not batch:
                    self._is_working = False
                    return
            answers: Sequence[Artifact | BaseException]
            try:
                answers = self._relay.answer_pushes([(verb, body) for verb, body, _ in batch])
            except Exception as error:
                answers = [error] * len(batch)
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(_give, batch, answers)


def _give(batch: list[Waiting], answers: Sequence[Artifact | BaseException]) -> None:
    for (_, _, future), answer in zip(batch, answers, strict=True):
        if future.done():
            continue  # Its client is gone.
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
