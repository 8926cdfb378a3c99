"""Legs: one test body runs blocking and awaited, on engines and over HTTP.

A leg over HTTP has a server of its own for each store, in a thread of this process. What only holds
in the process of the store asks `is_far` first.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from contextrelay import AsyncRelay, Relay, Settings
from contextrelay.client.thread import AsyncThread
from tests.rigs import LENGTH
from tests.server.serving import serving
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
                return await reply if inspect.isawaitable(reply) else reply

            reply = self._loop.run_until_complete(run())
            is_handle = isinstance(reply, AsyncThread | AsyncRelay)
            return Driven(reply, self._loop) if is_handle else reply

        return call

    def together(self, act: Any, times: int) -> list[Any]:
        """What comes of asking several times at once."""

        async def run() -> list[Any]:
            return await asyncio.gather(*(act(self._target) for _ in range(times)))

        return self._loop.run_until_complete(run())


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
    "blocking postgres",
    "awaited memory",
    "awaited sqlite",
    "awaited redis",
    "blocking http",
    "awaited http",
)


def is_far(relay: Any) -> bool:
    """Whether there is a network between a relay and its store."""
    return str(relay.transport.url_of("")).startswith("http")


# Behaviour is the same on every leg by construction: these three differ most. The verbs' own file
# runs on all, and so does everything where the rigs run in full.
THREE_LEGS = ("blocking memory", "awaited sqlite", "blocking http")
ON_ALL_LEGS = "test_verbs.py"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    own = {each.args[0] for each in metafunc.definition.iter_markers("parametrize")}
    if "leg" in metafunc.fixturenames and "leg" not in own:
        is_on_all = metafunc.definition.path.name == ON_ALL_LEGS or LENGTH == "full"
        metafunc.parametrize("leg", LEGS if is_on_all else THREE_LEGS, indirect=True)


@pytest.fixture
def leg(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Any]:
    """Make relays of one leg; all are closed at the end."""
    way, engine = request.param.split()
    opened: list[Any] = []
    servers_here = ExitStack()
    prefix = new_prefix()

    @cache
    def server(place: str, settings: Settings | None) -> str:
        return servers_here.enter_context(serving(tmp_path / place, settings=settings)).url

    def make(place: str = "one", settings: Settings | None = None) -> Any:
        if engine == "http":
            address, settings = server(place, settings), None
        else:
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
    servers_here.close()


@pytest.fixture
def relay(leg: Any) -> Relay:
    """One relay of each leg; typed as the blocking one, which has the same verbs."""
    return leg()
