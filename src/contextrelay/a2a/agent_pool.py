"""The threads in which agents work: a server that stops waits for them only for a short time.

The threads of a ThreadPoolExecutor are joined when the process ends, however long an agent takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class AgentPool:
    """A bounded pool of daemon threads."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads = 0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._open: set[Future[Any]] = set()
        self._lock = Lock()

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Call a function in a thread of the pool, as soon as one is free."""
        future: Future[Result] = Future()
        with self._lock:
            self._open.add(future)
            self._calls.put((future, call))
            if self._threads < min(len(self._open), self._threads_max):
                self._threads += 1
                Thread(target=self._work, name="relay-agent", daemon=True).start()
        return future

    def settle(self, seconds: float) -> None:
        """Wait until all calls have ended, at most this long."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            with self._lock:
                calls = tuple(self._open)
            if not calls:
                return
            wait(calls, left_s)

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # Its caller raises it.
                    future.set_exception(error)
            with self._lock:
                self._open.discard(future)
            del future, call  # A waiting thread keeps nothing alive.
