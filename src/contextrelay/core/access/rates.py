"""Rates: how often a key may ask, of one process, or of all servers over one engine together.

The bucket that servers share is a row, changed by compare-and-set: the head of its log moves with
it. A server takes some requests out at a time where many are allowed, and uses them one by one.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from msgspec.json import decode, encode

from contextrelay.access import Bucket, spend
from contextrelay.core.schema import RATES, Kind
from contextrelay.core.stores import Stores
from contextrelay.errors import Unavailable
from contextrelay.limits import DAY_S, RATE_SLICES, RETRIES_MAX
from contextrelay.model.key import Key
from contextrelay.store.ledger import ONLY, Row, Stale, Write

_TRIM_EVERY = 100


def rate_of(stores: Stores, key: Key) -> Rate | SharedRate | None:
    """What counts the requests of a key; None where as many are allowed as come."""
    if key.requests_per_minute is None:
        return None
    if stores.engine.is_shared:
        return SharedRate(stores, key.id, key.requests_per_minute)
    return Rate(key.requests_per_minute)


class Rate:
    """The requests of a key in one process."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._bucket: Bucket | None = None

    def take(self, now_ms: int) -> float:
        """Take one; the seconds to wait if none is left."""
        self._bucket, wait_s = spend(self._bucket, self._per_minute, now_ms)
        return wait_s


class SharedRate:
    """The requests of a key through all servers. Taking one may wait for the engine."""

    def __init__(self, stores: Stores, key_id: str, per_minute: int) -> None:
        self._ledger = stores.ledger
        self._log = f"{RATES}{key_id}"
        self._per_minute = per_minute
        self._amount = max(1, per_minute // RATE_SLICES)
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, now_ms: int) -> float:
        """Take one; the seconds to wait if none is left.

        Raises:
            Unavailable: others keep taking.
        """
        with self._lock:
            if self._taken:
                self._taken -= 1
                return 0.0
        for _ in range(RETRIES_MAX):
            with suppress(Stale):
                wait_s = self._try(now_ms)
                if not wait_s:
                    with self._lock:
                        self._taken += self._amount - 1
                return wait_s
        raise Unavailable("others keep asking with this key", "ask again")

    def _try(self, now_ms: int) -> float:
        head = self._ledger.last(self._log)
        found = self._ledger.get(self._log, Kind.BUCKET, ONLY)
        before = None if found is None else decode(found, type=Bucket)
        bucket, wait_s = spend(before, self._per_minute, now_ms, self._amount)
        if not wait_s:
            row = Row(Kind.BUCKET, ONLY, encode(bucket), due_ms=now_ms + DAY_S * 1000)
            self._ledger.commit(Write(self._log, (b"",), (row,), expect=head))
            if head % _TRIM_EVERY == 0:
                self._ledger.trim(self._log, head + 1)
        return wait_s
