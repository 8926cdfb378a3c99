"""Spaces: a tenant's part of the ledger, and of that what a limited key sees.

A tenant's logs are those of the store with `x/<tenant>/` before their names, its counters likewise.
So whatever a verb reads, lists, finds or claims is the tenant's own, without a line about it. The
logs `b/<hash>` alone are shared: the same bytes are kept once, and nothing shows a tenant whether
somebody else has them. What was found out about them by looking is each tenant's own.

For a key that is only for some threads and channels, a thread is there by its name or id, a channel
by its name, and an artifact if it was put into such a thread, is held by one, or was sent to such a
channel. All else reads as if it had never been, in indexes and listings too, and so does any kind
of log that is not known here.

Rule: a space only renames; what looks after the whole store goes through every space. What is not
there cannot be written to: it is refused before anything of the commit is done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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
    """The store as a tenant has it; None for the store's own space."""
    if tenant is None:
        return stores
    prefix = tenant_prefix(tenant)
    engine = replace(stores.engine, ledger=_SpaceLedger(stores.ledger, prefix), home=None)
    live = stores.live.within(prefix)
    return replace(stores, engine=engine, live=live, cache_hits=Count(), tenant=tenant)


def views(view: Reads) -> Iterator[tuple[str | None, Reads]]:
    """A store's own space and those of its tenants, to be read."""
    yield None, view
    for tenant in tenants(view):
        yield tenant, SpaceReads(view, tenant_prefix(tenant))


class SpaceReads:
    """What a tenant reads."""

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
        """Names of the tenant's own logs; the shared ones are listed to nobody."""
        behind = self._prefix + after if after else ""
        return [self._own(log) for log in self._reads.logs(self._prefix + prefix, behind, limit)]

    def due(self, now_ms: int, limit: int) -> list[tuple[str, Row]]:
        """Nothing: the store's sweep goes through all spaces."""
        return []


class _SpaceLedger(SpaceReads, LedgerView):
    """The ledger as a tenant has it."""

    def __init__(self, inner: Ledger, prefix: str) -> None:
        SpaceReads.__init__(self, inner, prefix)
        LedgerView.__init__(self, inner)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        named = [replace(write, log=self._full(write.log)) for write in writes]
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

    def tally(self, name: str, amounts: Mapping[str, int]) -> dict[str, int]:
        return self._inner.tally(self._prefix + name, amounts)

    def tally_all(self, sums: Mapping[str, Mapping[str, int]]) -> None:
        self._inner.tally_all({self._prefix + name: amounts for name, amounts in sums.items()})

    def listen(self, hear: Callable[[str | None], None]) -> Callable[[], None]:
        def heard(log: str | None) -> None:
            if log is None:
                hear(None)
            elif log.startswith(self._prefix):
                hear(self._own(log))

        return self._inner.listen(heard)

    @contextmanager
    def still(self) -> Generator[Reads]:
        with self._inner.still() as view:
            yield SpaceReads(view, self._prefix)

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing: it is the store that is closed."""


# Bodies, requests that have a key, cached results, indexes: they reveal nothing by themselves.
_ANYBODYS = (BODIES, REQUESTS, RESULTS, INDEXES)
_REF_CHARS = 36


class _Place(Struct):
    """Where an artifact belongs: the part of its description that matters here."""

    thread: str | None = None
    channel: str | None = None


class _Named(Struct):
    name: str | None = None


_place = Decoder(_Place)
_named = Decoder(_Named)


class VisibleReads:
    """What a limited key reads."""

    def __init__(self, inner: Reads, key: Key) -> None:
        self._reads = inner
        self._key = key

    # What is there

    def seen_threads(self) -> Iterator[str]:
        """The threads that are there, by id; found by their names, whatever else there is."""
        for start in self._key.threads:
            if is_ref(start) and self._has_thread(start):
                yield start
            for row in walk_rows(self._reads, THREAD_NAMES, RowKind.THREAD, start):
                if not row.key.startswith(start):
                    break
                yield row.key[-_REF_CHARS:]

    @property
    def seen_channels(self) -> tuple[str, ...]:
        """How the names of channels begin that are there."""
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
        return self._is_held(log)

    def _is_held(self, log: str) -> bool:
        return any(self._has_thread(row.key) for row in walk_rows(self._reads, log, RowKind.HOLDER))

    def _is_row_there(self, log: str, row: Row) -> bool:
        """Whether a row of an index, or between two things, names what is there."""
        if log == LAST_USED:
            ref = (row.body or b"").decode()
            is_pushed = row.kind == RowKind.PUSHED
            return self._has_artifact(artifact_log(ref)) if is_pushed else self._has_thread(ref)
        if log.startswith(INDEXES):
            # The ref of what is meant ends the key.
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
        """Nothing: the store's sweep is the owner's."""
        return []


class VisibleLedger(VisibleReads, LedgerView):
    """The ledger as a limited key has it."""

    def __init__(self, inner: Ledger, key: Key) -> None:
        VisibleReads.__init__(self, inner, key)
        LedgerView.__init__(self, inner)

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        made = {write.log for write in writes if write.expect == 0}
        for write in writes:
            if write.log not in made:
                self._check(write.log)
        return self._inner.commit(*writes, id=id)

    def _check(self, log: str) -> None:
        """Refuse to change what is not there for the key; what is nowhere yet may be made."""
        if self._is_there(log):
            return
        if log.startswith(CHANNELS) or self._inner.last(log) or self._inner.kinds(log):
            raise Forbidden("this key is not for all that this would change", "use a key that is")

    def trim(self, log: str, before: int) -> None:
        self._check(log)
        self._inner.trim(log, before)

    def drop(self, log: str, expect: int) -> None:
        self._check(log)
        self._inner.drop(log, expect)

    def tally(self, name: str, amounts: Mapping[str, int]) -> dict[str, int]:
        """Counters of the key's own: what others have done, also unseen, is in the space's."""
        return self._inner.tally(own_counters(name, self._key.id), amounts)

    def tally_all(self, sums: Mapping[str, Mapping[str, int]]) -> None:
        key = self._key.id
        self._inner.tally_all({own_counters(name, key): each for name, each in sums.items()})

    @contextmanager
    def still(self) -> Generator[Reads]:
        with self._inner.still() as view:
            yield VisibleReads(view, self._key)

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing: it is the store that is closed."""
