"""Tasks on the workers of a Dask cluster. Only refs are sent; the content is in a store that all
share.

Each worker opens the store by its address, with the key in the worker's environment, and polls the
store for a cancellation of the run. If a worker is lost, another worker runs its task with the same
key.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from threading import Event, Thread
from typing import Any

from msgspec.structs import replace

from contextrelay.client.relay import Relay
from contextrelay.client.transport.address import is_server
from contextrelay.errors import Invalid, RelayError, Unavailable
from contextrelay.limits import LIST_ITEMS_MAX, RUN_LOOK_S
from contextrelay.model.pipeline import StepView
from contextrelay.pipelines.record import CANCEL
from contextrelay.pipelines.run import Done
from contextrelay.pipelines.steps.kinds import TRIES
from contextrelay.pipelines.steps.python_pool import PythonPool
from contextrelay.pipelines.steps.task import Task, Workplace, perform
from contextrelay.verbs import CancelPipeline, ReadEvents, ShowThread

DASK_CONNECT_S_MAX = 10


SCHEME = "dask://"
_PASSWORD = re.compile(r"(?<=//)([^/?@:]*):[^/?@]*@")
_SHARED = ("redis:", "rediss:", "valkey:", "valkeys:", "postgres:", "postgresql:")


class Dask:
    """A runner that submits tasks to a Dask scheduler."""

    def __init__(self, relay: Relay, on: str, address: str | None) -> None:
        self._address = None if address is None else for_workers(address)
        """The address of the store for workers, without a password, because workers have passwords
        of their own.
        """
        if address is None or not (is_server(address) or address.startswith(_SHARED)):
            raise Invalid(
                f"workers of {on} cannot open {self._address or 'a store in memory'}",
                "use a store that they can reach: --store http://HOST:PORT, with relay serve",
            )
        try:
            from distributed import Client
        except ImportError as error:
            raise Invalid("Dask is not installed", "pip install 'contextrelay[dask]'") from error
        try:
            self._client: Any = Client(
                f"tcp://{on.removeprefix(SCHEME)}",
                timeout=DASK_CONNECT_S_MAX,
                set_as_default=False,
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise Unavailable(
                f"no Dask scheduler at {on}", "start a scheduler: dask scheduler"
            ) from error
        self._relay = relay
        self._futures: dict[str, Any] = {}
        self._thread = ""

    def submit(self, task: Task, done: Done) -> None:
        self._thread = task.thread
        sent = replace(task, address=self._address)
        future = self._client.submit(work, sent, pure=False)
        self._futures[future.key] = future

        def report(ended: Any) -> None:
            self._futures.pop(ended.key, None)
            done(_outcome(ended))

        future.add_done_callback(report)

    def stop(self) -> None:
        """Cancel tasks that have not started. Workers that run a task notice the cancellation in
        the store.
        """
        if self._futures:
            # The store may be the cause of the problem, so ignore its errors here.
            with suppress(RelayError):
                self._relay.transport.ask(CancelPipeline(thread=self._thread, by="pipeline"))

    def close(self) -> None:
        self._client.close()


def _outcome(future: Any) -> StepView | BaseException:
    if future.cancelled():
        return StepView(
            step="", kind="", status="cancelled", reason="the scheduler dropped the task"
        )
    try:
        return future.result()
    except RelayError as error:
        return error
    except Exception as error:
        return Unavailable(
            f"a worker failed to run its task: {type(error).__name__}: {error}"[:500],
            "resume with: relay pipeline resume RUN",
        )


def for_workers(address: str) -> str:
    """Return the address of a store without its password, because the password must not be sent
    over the network.
    """
    return _PASSWORD.sub(r"\1@", address)


# On a worker


def work(task: Task) -> StepView:
    """Run a task on a worker, and return the view of the step."""
    assert task.address is not None
    relay = _relay(task.address)
    stop, over = Event(), Event()
    watch = Thread(target=_watch, args=(relay, task.thread, stop, over), daemon=True)
    watch.start()
    try:
        return perform(Workplace(relay, _pool(), stop, is_elsewhere=True), task, TRIES)
    finally:
        over.set()


def _watch(relay: Relay, thread: str, stop: Event, over: Event) -> None:
    """Poll for a cancellation of the run until `over` is set, and then set `stop`."""
    after = 0
    while not over.wait(RUN_LOOK_S):
        with suppress(RelayError):
            after = after or max(0, relay.transport.ask(ShowThread(thread)).events - 1)
            page = relay.transport.ask(ReadEvents(thread, after, LIST_ITEMS_MAX)).events
            after = page[-1].seq if page else after
            if any(each.event.type == CANCEL for each in page):
                stop.set()


@cache
def _relay(address: str) -> Relay:
    return Relay(address)


@cache
def _pool() -> PythonPool:
    return PythonPool()
