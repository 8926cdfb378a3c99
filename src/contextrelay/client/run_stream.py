"""Streams of a model's answer: the text as it arrives, blocking or awaited, and then the result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from contextrelay.client.flow import Items, iterate, iterate_awaited, stop, stop_awaited
from contextrelay.model.run import RunResult


class RunStream(Iterator[str]):
    """An iterator over the text of an answer as it arrives.

    If the stream is closed early, by `close` or at the end of a `with`, the answer of the model
    ends there, and the text so far is stored. `result` is set after the last text.
    """

    def __init__(self, transport: Any, flow: Items[str | RunResult]) -> None:
        self.result: RunResult | None = None
        self._transport = transport
        self._flow = flow
        self._items = iterate(transport, flow)

    def __next__(self) -> str:
        try:
            while isinstance(item := next(self._items), RunResult):
                self.result = item
            return item
        except KeyboardInterrupt:
            self.close()
            raise

    def close(self) -> None:
        """End the answer now; a second call does nothing."""
        for item in stop(self._transport, self._flow):
            self.result = item if isinstance(item, RunResult) else self.result

    def whole(self) -> RunResult:
        """Read the rest of the text; return the result of the run."""
        for _ in self:
            pass
        assert self.result is not None
        return self.result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()


class AsyncRunStream(AsyncIterator[str]):
    """An asynchronous iterator over the text of an answer as it arrives; see `RunStream`."""

    def __init__(self, transport: Any, flow: Items[str | RunResult]) -> None:
        self.result: RunResult | None = None
        self._transport = transport
        self._flow = flow
        self._items = iterate_awaited(transport, flow)

    async def __anext__(self) -> str:
        from asyncio import CancelledError

        try:
            while isinstance(item := await anext(self._items), RunResult):
                self.result = item
            return item
        except CancelledError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """End the answer now; a second call does nothing."""
        for item in await stop_awaited(self._transport, self._flow):
            self.result = item if isinstance(item, RunResult) else self.result

    async def whole(self) -> RunResult:
        """Read the rest of the text; return the result of the run."""
        async for _ in self:
            pass
        assert self.result is not None
        return self.result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.aclose()
