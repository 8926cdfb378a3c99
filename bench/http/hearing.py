"""Hearing: from a push to the callback of who subscribed, through the SDK, one push at a time."""

from __future__ import annotations

import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.http.listening import CHANNEL
from bench.http.servers import relay, started
from bench.measure import ROUNDS, Curve, Result, within
from contextrelay import ContextRelay

PUSHES = 50
ASKED_MS = 3.0
HEARD_S_MAX = 10
# The first pushes may come before the subscription is there.
FIRST_S_MAX = 0.2
TRIES_MAX = 100

Heard = tuple[int, str]
"""When a callback was called, by the machine's clock in nanoseconds, and with which URL."""
Hear = Callable[[float], Heard]
"""The next of them; raises queue.Empty if there is none for some seconds."""


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    with relay(folder / "served") as served:
        with listening_here(served.url) as hear:
            yield heard("push to callback, server, two threads", served.url, hear)
        with listening_apart(served.url) as hear:
            yield heard("push to callback, server, two processes", served.url, hear)
    store = str(folder / "local")
    with listening_apart(store) as hear:
        yield heard("push to callback, local store, two processes", store, hear)


def heard(name: str, address: str, hear: Hear, asked_ms: float = ASKED_MS) -> Result:
    """How long after a push at an address it is heard."""
    with ContextRelay(address) as pusher:
        _until_heard(pusher, hear)
        medians = [
            statistics.median(_once(pusher, hear, number) for number in range(PUSHES))
            for _ in range(ROUNDS)
        ]
    return within(f"{name} / {asked_ms:.0f} ms", statistics.median(medians), asked_ms, "ms", 1)


def _once(pusher: ContextRelay, hear: Hear, number: int) -> float:
    begun_ns = time.monotonic_ns()
    url = pusher.push(f"news {number} of {begun_ns}", CHANNEL)
    heard_ns, heard = hear(HEARD_S_MAX)
    assert _ref(heard) == _ref(url), "not what was pushed"
    return (heard_ns - begun_ns) / 1e6


def _until_heard(pusher: ContextRelay, hear: Hear) -> None:
    """Push until the subscription is there, and has reported all that it received."""
    for number in range(TRIES_MAX):
        url = pusher.push(f"warm {number}", CHANNEL)
        try:
            while _ref(hear(FIRST_S_MAX)[1]) != _ref(url):
                pass
        except queue.Empty:
            continue
        return
    raise TimeoutError("nothing was heard")


def _ref(url: str) -> str:
    """What is pushed on one server has another URL on the next."""
    return url.rpartition("/")[2]


@contextmanager
def listening_here(address: str) -> Generator[Hear]:
    """`ContextRelay.subscribe`, in a thread of this process."""
    heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()

    def called(url: str) -> None:
        heard.put((time.monotonic_ns(), url))

    with ContextRelay(address) as subscriber:
        thread = threading.Thread(target=subscriber.subscribe, args=(CHANNEL, called))
        thread.start()
        yield lambda seconds: heard.get(timeout=seconds)
    thread.join(HEARD_S_MAX)


@contextmanager
def listening_apart(address: str) -> Generator[Hear]:
    """The same in another process, whose lines a thread of this one reads."""
    heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
    with started(sys.executable, "-m", "bench.http.listening", address) as running:

        def read() -> None:
            assert running.stdout is not None
            for line in running.stdout:
                at_ns, url = line.decode().split()
                heard.put((int(at_ns), url))

        thread = threading.Thread(target=read)
        thread.start()
        yield lambda seconds: heard.get(timeout=seconds)
        running.terminate()
        thread.join(HEARD_S_MAX)
