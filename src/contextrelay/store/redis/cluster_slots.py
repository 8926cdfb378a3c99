"""Slots of a cluster: which node has which, found out in a time that has an end.

redis-py asks node after node, each until its time is over, and all who need the answer wait. With
several nodes behind a cut that is longer than a caller may wait. So one thread looks, and those who
need it wait for it no longer than LOOK_S_MAX; what it finds later serves the next try.
"""

from __future__ import annotations

import threading
from typing import Any

from redis import exceptions as foreign

LOOK_S_MAX = 1.0


class Lookout:
    """Takes the place of `initialize` of redis-py's manager of nodes."""

    def __init__(self, manager: Any) -> None:
        self._initialize = manager.initialize
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._problem: BaseException | None = None
        manager.initialize = self.look

    def look(self, *args: Any, **options: Any) -> None:
        """Look, or wait for who does.

        Raises:
            ConnectionError: it takes longer, or no node answered.
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
            raise foreign.ConnectionError("who has which slots is not known yet")
        if self._problem is not None:
            raise self._problem

    def _run(self, args: Any, options: Any) -> None:
        self._problem = None
        try:
            self._initialize(*args, **options)
        except (foreign.RedisError, foreign.RedisClusterException, OSError) as error:
            self._problem = error
