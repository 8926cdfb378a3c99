"""Writers that go on whatever happens to their engine, and what they were promised meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from contextrelay import Relay, Unconfirmed
from contextrelay.errors import Unavailable
from contextrelay.store.ledger import Write
from contextrelay.store.redis.ledger import RedisLedger
from tests.store.waiting import WAIT_S_MAX

Put = Callable[[str], int]
"""Writes a name, and gives the number that it got."""


class Writers:
    """One thread for each way to write; each name is written once, and never again."""

    def __init__(self, name: str, puts: Sequence[Put], begin: Begin | None = None) -> None:
        self.promised: list[tuple[int, str]] = []
        self.waits_s: list[float] = []
        self.refused = 0
        self._name = name
        self._new: queue.Queue[tuple[int, str]] = queue.Queue()
        self._stopped = threading.Event()
        self._wrong: list[BaseException] = []
        self._threads = [
            (begin or _begin)(lambda number=number, put=put: self._run(number, put))
            for number, put in enumerate(puts)
        ]

    @property
    def longest_s(self) -> float:
        return max(self.waits_s, default=0.0)

    def more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        for _ in range(count):
            self._take(WAIT_S_MAX)

    def stop(self) -> None:
        """Let what is under way end, and take the last of it."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(WAIT_S_MAX)
            assert not thread.is_alive(), "a writer does not end"
        while not self._new.empty():
            self._take(0)
        if self._wrong:
            raise self._wrong[0]

    def forget(self) -> None:
        """Count what is acknowledged from here on."""
        while not self._new.empty():
            self._take(0)

    def _take(self, wait_s: float) -> None:
        try:
            self.promised.append(self._new.get(timeout=wait_s))
        except queue.Empty as empty:
            self._stopped.set()
            if self._wrong:
                raise self._wrong[0] from empty
            raise AssertionError(f"{self._name}: nothing is acknowledged") from empty

    def _run(self, writer: int, put: Put) -> None:
        number = 0
        while not self._stopped.is_set():
            name = f"{self._name}.{writer}.{number}"
            number += 1
            began_s = time.monotonic()
            try:
                self._new.put((put(name), name))
            except (Unavailable, Unconfirmed):
                self.refused += 1  # It may have been done or not: nobody was promised anything.
            except BaseException as error:
                self._wrong.append(error)
                return
            finally:
                self.waits_s.append(time.monotonic() - began_s)


Begin = Callable[[Callable[[], None]], threading.Thread]


def _begin(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def putting_facts(ledger: RedisLedger, log: str) -> Put:
    """Facts of a log; each gets its number in it."""
    return lambda name: ledger.commit(Write(log, (name.encode(),)))[0]


def patching(relay: Relay, thread_id: str) -> Put:
    """Facts in the state of a thread; each gets a version."""
    thread = relay.thread(thread_id)

    def put(name: str) -> int:
        fact = {"id": name, "key": "n", "value": name}
        return thread.patch([{"op": "add", "path": "/facts/-", "value": fact}]).version

    return put


def check_facts(promised: Sequence[tuple[int, str]], ledger: RedisLedger, log: str) -> None:
    """See that all that was promised is there, under its number, and nothing twice."""
    found = [(fact.seq, fact.body.decode()) for fact in ledger.read(log, 0, 10**6)]
    assert set(promised) <= set(found), sorted(set(promised) - set(found))[:5]
    assert len({name for _, name in found}) == len(found)


def check_versions(promised: Sequence[tuple[int, str]], relay: Relay, thread_id: str) -> None:
    """See that all that was promised is there, once, and that no version was given twice."""
    thread = relay.thread(thread_id)
    names = [str(fact["id"]) for fact in thread.state()["facts"]]
    assert {name for _, name in promised} <= set(names)
    assert len(set(names)) == len(names)
    versions = [version for version, _ in promised]
    assert len(set(versions)) == len(versions)
    assert len(list(thread.history())) == len(names) + 1
