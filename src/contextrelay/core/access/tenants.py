"""Spaces: each tenant has a part of the ledger to itself, and does not see that there is more.

A tenant's logs are those of the store with `x/<tenant>/` before their names, its counters likewise.
So whatever a verb reads, lists, finds or claims is the tenant's own, without a line about it. The
logs `b/<hash>` alone are shared: the same bytes are kept once, and nothing shows a tenant whether
somebody else has them. What was found out about them by looking is each tenant's own.

Rule: a space only renames. What looks after the whole store (sweeps, checks, backups) works on the
store itself and goes through every space.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from contextrelay.core.schema import BODIES, tenants
from contextrelay.core.stores import Count, Stores
from contextrelay.model.names import tenant_prefix
from contextrelay.store.ledger import Fact, Ledger, Reads, Row, Stale, Write
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
