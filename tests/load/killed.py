"""Killing a server under load: real clients go on by themselves, and keep what was acknowledged.

Rule: an act counts as acknowledged when its client returned, and only then. What was asked but not
answered may have happened, once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from contextrelay import ContextRelay, Relay
from contextrelay.client.thread import Thread
from contextrelay.errors import Unavailable
from tests.server.serving import serving_apart
from tests.store.engines import free_port, until

CHANNEL = "news"
PUSHERS = 3
PATCHERS = 2
ACTS_MIN, ACTS_MAX = 5, 60
REST_S = 0.02


class Clients:
    """Those who push, patch and listen while the server comes and goes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: dict[str, bytes] = {}
        """What was pushed, by ref."""
        self.facts: dict[str, list[str]] = {}
        """The facts that were added, by thread, in their order."""
        self.heard: list[str] = []
        """The refs that the subscriber was called back with."""
        self.failed: list[BaseException] = []
        self.lost = 0
        """How often a client gave up on a request."""
        self._ended = threading.Event()
        self._stack = ExitStack()
        self._relays: list[Relay] = []
        self._threads: list[threading.Thread] = []

    @property
    def acknowledged(self) -> int:
        return len(self.bodies) + sum(map(len, self.facts.values()))

    def start(self) -> None:
        """Begin; the server is there."""
        subscriber = self._stack.enter_context(ContextRelay(self.url))
        opened = threading.Event()
        hearing = subscriber.hearing(CHANNEL, max_reconnect_delay=0.1)
        self._begin(
            lambda: hearing.run(lambda frame: self.heard.append(_ref(frame["url"])), opened.set)
        )
        assert opened.wait(10), "the subscriber did not get through"
        for number in range(PUSHERS):
            relay = self._stack.enter_context(Relay(self.url))
            self._begin(lambda relay=relay, number=number: self._push(relay, number))
        for _ in range(PATCHERS):
            relay = self._stack.enter_context(Relay(self.url))
            thread = relay.new_thread()
            self.facts[thread.id] = []
            self._begin(lambda thread=thread: self._patch(thread))

    def _begin(self, act: Callable[[], None]) -> None:
        def run() -> None:
            try:
                act()
            except BaseException as error:
                self.failed.append(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _push(self, relay: Relay, number: int) -> None:
        chance = Random(number)
        while not self._ended.wait(chance.random() * REST_S):
            body = chance.randbytes(chance.choice((10, 5_000, 100_000)))
            try:
                made = relay.push(body, channel=CHANNEL)
            except Unavailable:
                self.lost += 1
            else:
                self.bodies[made.ref] = body

    def _patch(self, thread: Thread) -> None:
        for number in itertools.count():
            if self._ended.wait(REST_S / 2):
                return
            fact = {"id": f"fact-{number}", "key": f"fact-{number}", "value": number}
            try:
                thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
            except Unavailable:
                self.lost += 1
            else:
                self.facts[thread.id].append(f"fact-{number}")

    def end_work(self) -> None:
        """Let those who push and patch come to an end; the server is there."""
        self._ended.set()
        for thread in self._threads[1:]:
            thread.join(60)
            assert not thread.is_alive(), "a client does not end"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._stack.close()
        for thread in self._threads:
            thread.join(60)


def _ref(url: str) -> str:
    return url.rpartition("/")[2]


def kill_server(store: Path, rounds: int, seed: int) -> Clients:
    """Kill a server so often while its clients work, and check what is left."""
    chance = Random(seed)
    port = free_port()
    with Clients(f"http://127.0.0.1:{port}") as asking:
        for number in range(rounds):
            with serving_apart(store, port=port, workers=2 if number % 5 == 4 else 1) as served:
                if number == 0:
                    asking.start()
                wanted = asking.acknowledged + chance.randint(ACTS_MIN, ACTS_MAX)
                until(lambda w=wanted: asking.acknowledged >= w or bool(asking.failed), "acts")
                time.sleep(chance.random() * 0.02)  # So that death comes anywhere in an act.
                served.kill()
            assert not asking.failed, asking.failed
        with serving_apart(store, port=port) as served:
            asking.end_work()
            check(served.url, asking)
    return asking


def check(url: str, asked: Clients) -> None:
    """Compare what the server has with what was acknowledged."""
    with Relay(url) as relay:
        for ref, body in asked.bodies.items():
            assert relay.pull(ref) == body, f"{ref} is not what was pushed"
        signalled: list[str] = []
        while page := relay.signals(CHANNEL, len(signalled), 1000).signals:
            assert [each.seq for each in page] == list(
                range(len(signalled) + 1, len(signalled) + 1 + len(page))
            )
            signalled += [each.ref for each in page if each.ref is not None]
        assert len(set(signalled)) == len(signalled), "a push was signalled twice"
        assert not asked.bodies.keys() - set(signalled), "a signal is lost"
        until(lambda: len(asked.heard) >= len(signalled), "the subscriber")
        assert asked.heard == signalled, "the subscriber heard something else"
        for thread, facts in asked.facts.items():
            there = [each["id"] for each in relay.thread(thread).state()["facts"]]
            assert len(set(there)) == len(there), "a patch was done twice"
            acknowledged = [each for each in there if each in set(facts)]
            assert acknowledged == facts, "a patch is lost"
        assert relay.verify().problem_count == 0, "the store is not sound"
