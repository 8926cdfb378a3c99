"""Slots of a cluster: which node has which slots, refreshed in bounded time.

redis-py asks node after node, each until its timeout, while all callers wait. With several
unreachable nodes that takes longer than a caller may wait. So one thread refreshes the map, and
callers wait for it no longer than LOOK_S_MAX; a later result serves the next attempt.
"""

from __future__ import annotations

import threading
from typing import Any

from redis import exceptions as foreign

LOOK_S_MAX = 1.0


class SlotRefresher:
    """A replacement for `initialize` of redis-py's node manager."""

    def __init__(self, manager: Any) -> None:
        self._initialize = manager.initialize
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._problem: BaseException | None = None
        manager.initialize = self.look

    def look(self, *args: Any, **options: Any) -> None:
        """Refresh the slot map, or wait for a refresh in progress.

        Raises:
            ConnectionError: the refresh takes too long, or no node answered.
        """
        with self._lock:
            if self._looking is None or not self._looking.is_alive():
                self._looking = threading.Thread(
                    target=self._run, args=(args, options), name="relay-lookout", daemon=True
                )
                self._looking.start()
            looking = self._looking
        looking.join(LOOK_S_MAX)
        if looking.is_alive():
            raise foreign.ConnectionError("the slot map is not known yet")
        if self._problem is not None:
            raise self._problem

    def _run(self, args: Any, options: Any) -> None:
        self._problem = None
        try:
            self._initialize(*args, **options)
        except (foreign.RedisError, foreign.RedisClusterException, OSError) as error:
            self._problem = error
