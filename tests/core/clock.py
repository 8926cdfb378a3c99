"""A clock that stands until it is moved, for stores under test."""

from __future__ import annotations

import time

from contextrelay.client.transport.local import Local
from contextrelay.core.stores import Stores
from contextrelay.model.settings import Settings
from contextrelay.store.engine import Engine, open_engine

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Clock:
    """Milliseconds that pass by hand, from now on: blobs bear the time of the machine."""

    def __init__(self) -> None:
        self.at_ms = time.time_ns() // 1_000_000

    def __call__(self) -> int:
        return self.at_ms

    def pass_ms(self, ms: int) -> None:
        self.at_ms += ms


def local(clock: Clock, engine: Engine | None = None, settings: Settings | None = None) -> Local:
    """A core on an engine (memory by default) that lives by a given clock."""
    return Local(Stores(engine or open_engine("memory:"), settings or Settings(), clock))
