"""Stores: the dependencies of every verb as one argument: engine, clock, randomness, settings."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct, field

from contextrelay.core.memory_cache import BodyCache, LiveStateCache
from contextrelay.errors import Full, Invalid
from contextrelay.identity import user_name
from contextrelay.limits import LABEL_CHARS_MAX, LOCK_TRUSTED_S
from contextrelay.model.key import caller_name, qualified_name
from contextrelay.model.ref import new_ref
from contextrelay.model.settings import Settings
from contextrelay.store.blobs import Blobs
from contextrelay.store.engine import Engine
from contextrelay.store.file_errors import locked
from contextrelay.store.ledger import UNLOCKED, Ledger, Stale, Write

if TYPE_CHECKING:
    from contextrelay.core.access import Caller, Quota
    from contextrelay.core.idempotency import Once

Done = TypeVar("Done")


class Closeable(Protocol):
    """An object with a close method."""

    def close(self) -> None: ...


Service = TypeVar("Service", bound=Closeable)


class Services:
    """Services over the ledger, opened on first use: search index, savings counters.

    All views of the same stores share them; they are closed with the stores.
    """

    def __init__(self) -> None:
        self._opened: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Service]) -> Service:
        """Return the service with a name; create the service if needed."""
        found = self._opened.get(name)
        if found is None:
            with self._lock:
                found = self._opened.get(name)
                if found is None:
                    found = self._opened[name] = make()
        return found

    def has(self, name: str) -> bool:
        return name in self._opened

    def close(self) -> None:
        """Close all services. A service that is requested later is created again."""
        with self._lock:
            opened, self._opened = self._opened, {}
        for service in opened.values():
            service.close()


class Count:
    """A counter that several operating system threads add to."""

    def __init__(self) -> None:
        self.number = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.number += 1


class LockCheck:
    """Keeps verbs out of a store that is locked for a restore, because its content is incomplete.

    After a check, the store is trusted to be unlocked for LOCK_TRUSTED_S, so that reads do not get
    slower; a restore waits that long before its first change. The ledger checks every write.
    """

    def __init__(self) -> None:
        self._trusted_until_s = 0.0

    def refuse_locked(self, ledger: Ledger) -> None:
        now_s = time.monotonic()
        if now_s < self._trusted_until_s:
            return
        if ledger.locked_by() != UNLOCKED:
            raise locked()
        self._trusted_until_s = now_s + LOCK_TRUSTED_S


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Stores(Struct, frozen=True):
    """An opened engine with the owner's settings, and the sources of time and randomness."""

    engine: Engine
    settings: Settings = Settings()
    now_ms: Callable[[], int] = clock_ms
    random_bytes: Callable[[int], bytes] = os.urandom
    body_cache: BodyCache = field(default_factory=BodyCache)
    live_states: LiveStateCache = field(default_factory=LiveStateCache)
    cache_hits: Count = field(default_factory=Count)
    """The number of capability cache hits since the stores were opened."""
    once: Once | None = None
    """The idempotency record of the current request, if it has a key. Ids are derived from it."""
    tenant: str | None = None
    """The tenant that this space belongs to; None for the store's own space."""
    caller: Caller | None = None
    """The caller of the request; None for the owner."""
    agent: str = ""
    """The name that the client gave; "" if it gave none."""
    user: str = field(default_factory=user_name)
    """The name recorded for a client that gave no name and has no key."""
    quota: Quota | None = None
    """The quota that stored bodies are charged to, if the request's key has one."""
    is_counted: bool = True
    """Whether reads count in the savings; what people view does not count."""
    services: Services = field(default_factory=Services)

    lock_check: LockCheck = field(default_factory=LockCheck)

    def close(self) -> None:
        """Close everything; a second call does nothing."""
        self.services.close()
        self.engine.close()

    @property
    def ledger(self) -> Ledger:
        return self.engine.ledger

    @property
    def blobs(self) -> Blobs:
        return self.engine.blobs

    @property
    def root(self) -> Stores:
        """Return the stores of the owner, for any caller."""
        return self if self.caller is None else self.caller.root

    @property
    def space(self) -> Stores:
        """Return the tenant's whole space, including content that the caller's key cannot see."""
        return self if self.caller is None else self.caller.space

    @property
    def is_limited(self) -> bool:
        """Return True if the caller's key is limited to some threads and channels."""
        return self.caller is not None and self.caller.key.is_limited

    def new_ref(self) -> str:
        return self.new_refs(1)[0]

    def new_refs(self, count: int) -> list[str]:
        """Return new refs from a single random draw, because each draw may switch OS threads."""
        drawn = self.random_bytes(16 * count)
        return [new_ref(drawn[start : start + 16]) for start in range(0, len(drawn), 16)]

    def request_ms(self) -> int:
        """Return the time in ms when the request was first received, or now."""
        return self.now_ms() if self.once is None else self.once.at_ms


_DEFAULT_OF_EARLIER_CLIENTS = "you"


def author_name(stores: Stores, given: str = "") -> str:
    """Return the name to record: the name given in the request, or else that of the client, or else
    that of the user. The name of the caller's key comes first: `ci-bot/planner`.

    Raises:
        Invalid: the name is too long.
    """
    claimed = stores.agent if given in ("", _DEFAULT_OF_EARLIER_CLIENTS) else given
    if stores.caller is None:
        return claimed or stores.user
    author = qualified_name(caller_name(stores.caller.key), claimed)
    if len(author) > LABEL_CHARS_MAX:
        raise Invalid(
            f"the name {author!r} is too long",
            f"use a shorter agent name: key and agent have at most {LABEL_CHARS_MAX} characters",
        )
    return author


def commit_each(ledger: Ledger, groups: list[list[Write]]) -> list[bool]:
    """Commit groups of writes, skipping stale groups; return which were committed."""
    stale: set[int] = set()
    while fresh := [each for index, each in enumerate(groups) if index not in stale]:
        try:
            ledger.commit(*chain.from_iterable(fresh))
            break
        except Stale as found:
            stale |= {
                index
                for index, group in enumerate(groups)
                if any(each.log == found.log and each.expect is not None for each in group)
            }
    return [index not in stale for index in range(len(groups))]


def with_reserve(stores: Stores, act: Callable[[], Done]) -> Done:
    """Call a function that frees space. If the disk is full, release the reserve and call again."""
    try:
        return act()
    except Full:
        if stores.engine.reserve is None or not stores.engine.reserve.free():
            raise
        return act()
