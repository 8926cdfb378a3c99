"""Spaces: a tenant's part of the ledger, and the view of a limited key on it.

A tenant's logs are prefixed with `x/<tenant>/`, and so are its counters. So whatever a verb reads,
lists, finds or claims belongs to the tenant, without code in the verb. Only the logs `b/<hash>` are
shared: equal bytes are stored once, and a tenant cannot see whether others have them. Cached
outlines of them are per tenant.

A key that is limited to some threads and channels sees a thread by its name or id, a channel by its
name, and an artifact if it was put into such a thread, is held by one, or was sent to such a
channel. Everything else appears not to exist, also in indexes and listings. Unknown kinds of logs
are hidden.

Rule: a space only renames; maintenance of the whole store walks every space. A write to something
that the key cannot see is refused before any part of the commit is done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from contextrelay.access import sees_channel, sees_thread
from contextrelay.core.schema import (
    ARTIFACTS,
    BODIES,
    INDEXES,
    KEY_COUNTERS,
    LAST_USED,
    REQUESTS,
    RESULTS,
    THREAD_NAMES,
    RowKind,
    artifact_log,
    own_counters,
    tenants,
    walk_logs,
    walk_rows,
)
from contextrelay.core.stores import Count, Stores
from contextrelay.errors import Forbidden
from contextrelay.model.key import Key
from contextrelay.model.names import CHANNELS, THREADS, tenant_prefix, thread_log
from contextrelay.model.ref import is_ref
from contextrelay.store.ledger import ONLY, Fact, Ledger, Reads, Row, Stale, Write
from contextrelay.store.ledger.view import LedgerView


def space_of(stores: Stores, tenant: str | None) -> Stores:
    """Return the store as a tenant sees it; None means the store's own space."""
    if tenant is None:
        return stores
    prefix = tenant_prefix(tenant)
    engine = replace(stores.engine, ledger=_SpaceLedger(stores.ledger, prefix), home=None)
    live = stores.live_states.within(prefix)
    return replace(stores, engine=engine, live_states=live, cache_hits=Count(), tenant=tenant)


def views(view: Reads) -> Iterator[tuple[str | None, Reads]]:
    """Yield a read-only view of each space, with its tenant's name or None."""
    yield None, view
    for tenant in tenants(view):
        yield tenant, SpaceReads(view, tenant_prefix(tenant))


class SpaceReads:
    """The read-only view of a tenant."""

    def __init__(self, inner: Reads, prefix: str) -> None:
        self._reads = inner
        self._prefix = prefix

    def _full(self, log: str) -> str:
        return log if log.startswith(BODIES) else self._prefix + log

    def _own(self, log: str) -> str:
        return log.removeprefix(self._prefix)

    def last(self, log: str) -> int:
        return self._reads.last(self._full(log))

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return self._reads.read(self._full(log), after, limit)

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        return self._reads.get(self._full(log), kind, key)

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        return self._reads.get_each(list(map(self._full, logs)), kind, key)

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        return self._reads.rows(self._full(log), kind, after, limit)

    def kinds(self, log: str) -> list[str]:
        return self._reads.kinds(self._full(log))

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return names of the tenant's own logs; shared logs are never listed."""
        behind = self._prefix + after if after else ""
        return [self._own(log) for log in self._reads.logs(self._prefix + prefix, behind, limit)]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        """Return an empty list, because the sweep of the store walks all spaces."""
        return []


def is_charge(write: Write) -> bool:
    """Return True if a write only adds to the counters of a key."""
    return bool(write.adds) and write.log.startswith(KEY_COUNTERS) and not write.rows


class _SpaceLedger(SpaceReads, LedgerView):
    """The ledger as a tenant sees it."""

    def __init__(self, inner: Ledger, prefix: str) -> None:
        SpaceReads.__init__(self, inner, prefix)
        LedgerView.__init__(self, inner)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        named = [
            # The charge of a quota is counted in the store's own space, where the key is.
            write if is_charge(write) else replace(write, log=self._full(write.log))
            for write in writes
        ]
        try:
            return self._inner.commit(*named, id=id)
        except Stale as stale:
            raise self._renamed(stale) from stale

    def trim(self, log: str, before: int) -> None:
        self._inner.trim(self._full(log), before)

    def drop(self, log: str, expect: int) -> None:
        try:
            self._inner.drop(self._full(log), expect)
        except Stale as stale:
            raise self._renamed(stale) from stale

    def _renamed(self, stale: Stale) -> Stale:
        return Stale(self._own(stale.log), stale.head)

    def tally(self, name: str) -> dict[str, int]:
        return self._inner.tally(self._prefix + name)

    def listen(self, callback: Callable[[str | None], None]) -> Callable[[], None]:
        def heard(log: str | None) -> None:
            if log is None:
                callback(None)
            elif log.startswith(self._prefix):
                callback(self._own(log))

        return self._inner.listen(heard)

    @contextmanager
    def snapshot(self) -> Generator[Reads]:
        with self._inner.snapshot() as view:
            yield SpaceReads(view, self._prefix)

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        """Do nothing, because the store is closed as a whole."""


# The names of these logs reveal nothing: bodies, requests with a key, cached results, indexes.
_ANYBODYS = (BODIES, REQUESTS, RESULTS, INDEXES)
_REF_CHARS = 36


class _Place(Struct):
    """The part of an artifact's description that decides who can see the artifact."""

    thread: str | None = None
    channel: str | None = None


class _Named(Struct):
    name: str | None = None


_place = Decoder(_Place)
_named = Decoder(_Named)


class VisibleReads:
    """The read-only view of a limited key."""

    def __init__(self, inner: Reads, key: Key) -> None:
        self._reads = inner
        self._key = key

    # Visibility

    def visible_threads(self) -> Iterator[str]:
        """Yield the ids of the visible threads.

        They are found by name, so the time does not depend on other threads.
        """
        for start in self._key.threads:
            if is_ref(start) and self._has_thread(start):
                yield start
            for row in walk_rows(self._reads, THREAD_NAMES, RowKind.THREAD, start):
                if not row.key.startswith(start):
                    break
                yield row.key[-_REF_CHARS:]

    @property
    def visible_channels(self) -> tuple[str, ...]:
        """Return the visible channels, as prefixes of channel names."""
        return self._key.channels

    def _is_there(self, log: str) -> bool:
        if log.startswith(ARTIFACTS):
            return self._has_artifact(log)
        if log.startswith(THREADS):
            return self._has_thread(log.removeprefix(THREADS))
        if log.startswith(CHANNELS):
            return sees_channel(self._key, log.removeprefix(CHANNELS))
        return log.startswith(_ANYBODYS)

    def _has_thread(self, thread: str) -> bool:
        log = thread_log(thread)
        row = self._reads.get(log, RowKind.THREAD, ONLY) or self._reads.get(log, RowKind.GONE, ONLY)
        return row is not None and sees_thread(self._key, thread, _named.decode(row).name)

    def _has_artifact(self, log: str) -> bool:
        row = self._reads.get(log, RowKind.ARTIFACT, ONLY) or self._reads.get(
            log, RowKind.TOMBSTONE, ONLY
        )
        if row is None:
            return False
        place = _place.decode(row)
        if place.channel is not None and sees_channel(self._key, place.channel):
            return True
        if place.thread is not None and self._has_thread(place.thread):
            return True
        return any(self._has_thread(row.key) for row in walk_rows(self._reads, log, RowKind.HOLDER))

    def _is_row_there(self, log: str, row: Row) -> bool:
        """Return True if the thing that an index row or a relation row names is visible."""
        if log == LAST_USED:
            # A thread is checked when it is shown.
            if row.kind != RowKind.PUSHED:
                return True
            return self._has_artifact(artifact_log((row.body or b"").decode()))
        if log.startswith(INDEXES):
            # The key of the row ends with a ref.
            ref = row.key[-_REF_CHARS:]
            return self._has_artifact(artifact_log(ref)) or self._has_thread(ref)
        if row.kind == RowKind.DERIVED:
            return self._has_artifact(artifact_log(row.key))
        return True

    # Reading

    def last(self, log: str) -> int:
        return self._reads.last(log) if self._is_there(log) else 0

    def read(self, log: str, after: int, limit: int) -> list[Fact]:
        return self._reads.read(log, after, limit) if self._is_there(log) else []

    def get(self, log: str, kind: str, key: str) -> bytes | None:
        body = self._reads.get(log, kind, key)
        if body is None or not self._is_there(log):
            return None
        return body if self._is_row_there(log, Row(kind, key, body)) else None

    def get_each(self, logs: Sequence[str], kind: str, key: str) -> list[bytes | None]:
        return [self.get(log, kind, key) for log in logs]

    def rows(self, log: str, kind: str, after: str, limit: int) -> list[Row]:
        if not self._is_there(log):
            return []
        every = walk_rows(self._reads, log, kind, after, limit)
        return list(islice((row for row in every if self._is_row_there(log, row)), limit))

    def kinds(self, log: str) -> list[str]:
        return self._reads.kinds(log) if self._is_there(log) else []

    def logs(self, prefix: str, after: str, limit: int) -> list[str]:
        every = walk_logs(self._reads, prefix, after, limit)
        return list(islice(filter(self._is_there, every), limit))

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        """Return an empty list, because only the owner's sweep uses the due list."""
        return []


class VisibleLedger(VisibleReads, LedgerView):
    """The ledger as a limited key sees it."""

    def __init__(self, inner: Ledger, key: Key) -> None:
        VisibleReads.__init__(self, inner, key)
        LedgerView.__init__(self, inner)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        """Commit writes, and count in the key's own counters: others show what it cannot see."""
        made = {write.log for write in writes if write.expect == 0}
        named: list[Write] = []
        for write in writes:
            if write.adds and not is_charge(write):
                write = replace(write, log=own_counters(write.log, self._key.id))
            elif not write.adds and write.log not in made:
                self._check(write.log)
            named.append(write)
        return self._inner.commit(*named, id=id)

    def _check(self, log: str) -> None:
        """Raise Forbidden if an existing log would be changed that the key cannot see."""
        if self._is_there(log):
            return
        if log.startswith(CHANNELS) or self._inner.last(log) or self._inner.kinds(log):
            raise Forbidden(
                "this key may not change everything that this request would change",
                "use a key with more permissions",
            )

    def trim(self, log: str, before: int) -> None:
        self._check(log)
        self._inner.trim(log, before)

    def drop(self, log: str, expect: int) -> None:
        self._check(log)
        self._inner.drop(log, expect)

    def tally(self, name: str) -> dict[str, int]:
        return self._inner.tally(own_counters(name, self._key.id))

    @contextmanager
    def snapshot(self) -> Generator[Reads]:
        with self._inner.snapshot() as view:
            yield VisibleReads(view, self._key)

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        """Do nothing, because the store is closed as a whole."""
