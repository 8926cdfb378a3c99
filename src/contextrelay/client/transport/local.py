"""The local transport: verbs answered in this process, by the engine at an address."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from copy import copy
from threading import Event
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from contextrelay import core
from contextrelay.client.flow import AsyncBody, in_thread, to_blocking_body
from contextrelay.core import Stores, answer, answer_pushes
from contextrelay.errors import RelayError
from contextrelay.identity import agent_name
from contextrelay.limits import CHUNK_BYTES, QUICK_SWEEP_ITEMS, SWEEP_EVERY_S
from contextrelay.model.artifact import Artifact
from contextrelay.model.key import Key
from contextrelay.model.ref import local_url
from contextrelay.model.settings import Settings
from contextrelay.verbs import (
    Body,
    Pull,
    Push,
    Stream,
    Sweep,
    Verb,
)

Reply = TypeVar("Reply")
Result = TypeVar("Result")

# The interval in seconds at which a log is checked, because notifications may be lost.
LISTEN_S_MAX = 1.0


def default_address() -> str:
    """Return RELAY_HOME or, if that is not set, ~/.relay."""
    return os.environ.get("RELAY_HOME") or "~/.relay"


def open_stores(
    address: str | os.PathLike[str] | None,
    settings: Settings | None,
    blobs: str | os.PathLike[str] | None = None,
    *,
    is_source: bool = False,
    agent: str | None = None,
) -> Stores:
    """Open the store at an address, by default at RELAY_HOME or ~/.relay.

    `blobs`: the address of the large bodies, by default RELAY_BLOBS or the store itself. `agent`:
    the name of the agent, by default RELAY_AGENT.
    """
    agent = agent_name(agent)
    stores = core.open_stores(
        default_address() if address is None else os.fspath(address),
        os.environ.get("RELAY_BLOBS", "") if blobs is None else os.fspath(blobs),
        settings,
        is_source=is_source,
    )
    if stores.engine.is_read_only:
        from logging import getLogger

        getLogger(__name__).warning(
            "%s is read-only: reads are not counted, and renew no leases",
            stores.engine.address,
        )
    return replace(stores, agent=agent) if agent else stores


class _Sweeps:
    """The time of the next sweep, shared by a transport and all views of it."""

    next_ms = 0


class _Answering:
    """A transport to a core in this process.

    There is no daemon, so pushes run small sweeps now and then.
    """

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.key = ""
        self._sweeps = _Sweeps()
        self._owner: _Answering = self

    def with_stores(self, stores: Stores) -> Self:
        """Return a copy of this transport that uses other stores."""
        view = copy(self)
        view.stores = stores
        return view

    def with_permissions_of(self, key: Key) -> Self:
        """Return a copy of this transport that sees the stores as a key does."""
        return self.with_stores(core.with_permissions_of(self.stores, key))

    def with_secret_of(self, key: Key) -> Self | None:
        """Return a copy that sees the stores as a key does, or None if the key is invalid."""
        stores = core.stores_of_key(self.stores, key)
        return None if stores is None else self.with_stores(stores)

    def spaces(self) -> list[Self]:
        """Return a transport for the store's own space, and one for each tenant's space."""
        return [self.with_stores(space) for space in core.tenant_spaces(self.stores)]

    def as_owner(self) -> Self:
        """Return a copy of this transport that sees the tenant's whole space."""
        return self.with_stores(self.stores.space)

    def can_share_commit(self, verb: Push, key: str) -> bool:
        """Return True if a push may be answered together with others."""
        return core.can_share_commit(self.stores, verb, key)

    def once(self, key: str) -> Self:
        """Return a copy of this transport that sends an idempotency key with every verb."""
        view = copy(self)
        view.key = key
        return view

    def url_of(self, ref: str) -> str:
        return local_url(ref)

    def answer(self, verb: Verb[Reply], body: Body, key: str) -> Reply:
        reply = answer(self.stores, verb, body, key or self.key)
        if verb.traits.sweeps:
            self.sweep_if_due()
        return reply

    def answer_pushes(self, asked: list[tuple[Stores, Push, bytes]]) -> list[Artifact | RelayError]:
        """Answer concurrent pushes; each is answered with the stores as its caller sees them."""
        replies = answer_pushes([(*each, "") for each in asked])
        self.sweep_if_due()
        return replies

    def sweep_if_due(self) -> None:
        """Run a small sweep if the last one was long enough ago."""
        left_ms = self._sweeps.next_ms - self.stores.now_ms()
        # If the time left is longer than the interval between sweeps, the clock was wrong the last
        # time.
        if not 0 < left_ms <= SWEEP_EVERY_S * 1000:
            self._sweeps.next_ms = self.stores.now_ms() + SWEEP_EVERY_S * 1000
            # The verb is already answered; the next sweep reports the error.
            with suppress(RelayError):
                answer(self._owner.stores, Sweep(QUICK_SWEEP_ITEMS, is_deep=False))


class Local(_Answering):
    """A blocking transport to a core in this process."""

    def ask(self, verb: Verb[Reply], body: Body = b"", key: str = "") -> Reply:
        return self.answer(verb, body, key)

    def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait until a log has facts after a seq; return False on a timeout."""
        news = Event()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        stop = self.stores.ledger.listen(lambda heard: news.set() if heard in (log, None) else None)
        try:
            while self.stores.ledger.last(log) <= after:
                left_s = LISTEN_S_MAX
                if deadline is not None:
                    left_s = min(left_s, deadline - time.monotonic())
                    if left_s <= 0:
                        return False
                news.wait(left_s)
                news.clear()
            return True
        finally:
            stop()

    def close(self) -> None:
        self.stores.close()


class AsyncLocal(_Answering):
    """An awaited transport to a core in this process, which blocks the event loop only briefly.

    Fast reads of a local engine run in the event loop, because a thread would take longer.
    """

    def blocking(self) -> Local:
        """Return a blocking transport over the same stores and with the same times of sweeps."""
        made = Local(self.stores)
        made._sweeps, made._owner = self._sweeps, self._owner
        return made

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"", key: str = "") -> Reply:
        if verb.traits.inline and not self.waits_for(verb):
            return answer(self.stores, verb)
        sent = to_blocking_body(body)
        return await in_thread(lambda: self.answer(verb, sent, key))

    def waits_for(self, verb: Verb[Any]) -> bool:
        """Return True if a read may wait: for a network, a write, or an inspection of a body."""
        renews = self.stores.settings.extend_on_read and isinstance(verb, Pull)
        return self.stores.ledger.reads_wait or renews or verb.looks_inside

    async def wait_for(self, log: str, after: int, timeout_s: float | None) -> bool:
        """Wait until a log has facts after a seq; return False on a timeout."""
        import asyncio

        news = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hear(heard: str | None) -> None:
            if heard in (log, None):
                with suppress(RuntimeError):  # The event loop is closed, so no caller is waiting.
                    loop.call_soon_threadsafe(news.set)

        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        ledger = self.stores.ledger
        stop = ledger.listen(hear)
        try:
            while (await in_thread(lambda: ledger.last(log))) <= after:
                left_s = LISTEN_S_MAX
                if deadline is not None:
                    left_s = min(left_s, deadline - time.monotonic())
                    if left_s <= 0:
                        return False
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left_s)
                news.clear()
            return True
        finally:
            stop()

    async def chunks(
        self, stream: Stream[object], chunk_bytes: int = CHUNK_BYTES
    ) -> AsyncIterator[bytes]:
        """Yield the chunks of a body, each read in a thread."""
        chunks = stream.open(chunk_bytes)
        while (chunk := await in_thread(lambda: next(chunks, None))) is not None:
            yield chunk

    async def whole(self, stream: Stream[object]) -> bytes:
        return await in_thread(stream.whole)

    async def close(self) -> None:
        await in_thread(self.stores.close)
