"""Runners: where tasks are done. The seam: `submit` a task, be called back with its outcome.

`Threads` does them in this process; `dask.py` does them on the workers of a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, local
from typing import Protocol

from contextrelay.client.relay import Relay
from contextrelay.model.pipeline import StepView
from contextrelay.pipelines.steps.kinds import TRIES
from contextrelay.pipelines.steps.leftovers import end_leftovers
from contextrelay.pipelines.steps.python_pool import PythonPool
from contextrelay.pipelines.steps.task import Place, Task, perform

Done = Callable[[StepView | BaseException], None]


class Runner(Protocol):
    """Does tasks, as many at once as it was made for."""

    def submit(self, task: Task, done: Done) -> None:
        """Begin a task; `done` is called with its outcome, in any thread."""
        ...

    def stop(self) -> None:
        """End what is under way: politely, then by force."""
        ...

    def close(self) -> None: ...


class Threads:
    """A thread for each task under way; commands and functions are processes of their own."""

    def __init__(self, relay: Relay, parallel: int) -> None:
        self._place = Place(relay, PythonPool(), Event())
        self._threads = ThreadPoolExecutor(parallel, "relay-step")
        self._next = local()
        """Of a thread that reports the end of a task: `jobs`, what it does then."""
        self._run: str | None = None

    def submit(self, task: Task, done: Done) -> None:
        self._run = task.thread
        jobs: list[tuple[Task, Done]] | None = getattr(self._next, "jobs", None)
        if jobs is not None and not jobs:
            jobs.append((task, done))  # Another thread would have to be woken first.
        else:
            self._threads.submit(self._work, task, done)

    def _work(self, task: Task, done: Done) -> None:
        jobs = [(task, done)]
        while jobs:
            task, done = jobs.pop()
            try:
                outcome: StepView | BaseException = perform(self._place, task, TRIES)
            except BaseException as error:
                outcome = error
            self._next.jobs = jobs
            done(outcome)
            self._next.jobs = None

    def stop(self) -> None:
        self._place.stop.set()

    def close(self) -> None:
        self._place.stop.set()
        self._threads.shutdown()
        self._place.pool.close()
        if self._run is not None:
            end_leftovers(self._run)
