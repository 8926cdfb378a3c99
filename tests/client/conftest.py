"""Legs: one test body runs blocking and awaited, on every embedded engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from contextrelay import AsyncRelay, Relay, Settings
from contextrelay.client.thread import AsyncThread
from tests.store.engines import Servers, new_prefix, url_of


class Driven:
    """Something awaited that can be used as if it blocked: each call is run to its end."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._driven(found) if callable(found) else found

    def _driven(self, method: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            async def run() -> Any:
                reply = method(*args, **named)
                if inspect.isasyncgen(reply):
                    return iter([each async for each in cast("AsyncIterator[Any]", reply)])
                return await reply

            reply = self._loop.run_until_complete(run())
            return Driven(reply, self._loop) if isinstance(reply, AsyncThread) else reply

        return call


class Awaited(Driven):
    """An AsyncRelay, driven on a loop of its own."""

    def __init__(self, address: str, settings: Settings | None) -> None:
        super().__init__(AsyncRelay(address, settings=settings), asyncio.new_event_loop())

    def end(self) -> None:
        self._loop.run_until_complete(self._target.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


LEGS = (
    "blocking memory",
    "blocking sqlite",
    "blocking redis",
    "blocking redis-cluster",
    "awaited memory",
    "awaited sqlite",
    "awaited redis",
)


@pytest.fixture(params=LEGS)
def leg(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Any]:
    """Make relays of one leg; all are closed at the end."""
    way, engine = request.param.split()
    opened: list[Any] = []
    prefix = new_prefix()

    def make(place: str = "one", settings: Settings | None = None) -> Any:
        address = {"sqlite": str(tmp_path / place), "memory": "memory:"}.get(engine)
        if address is None:
            address = f"{url_of(engine, servers)}?prefix={prefix}{place}"
        relay = (
            Awaited(address, settings) if way == "awaited" else Relay(address, settings=settings)
        )
        opened.append(relay)
        return relay

    yield make
    for relay in opened:
        relay.end() if isinstance(relay, Awaited) else relay.close()


@pytest.fixture
def relay(leg: Any) -> Relay:
    """One relay of each leg; typed as the blocking one, which has the same verbs."""
    return leg()
