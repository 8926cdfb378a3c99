"""A rolling upgrade: servers of the version before and of this one over one store, at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from tests.deploy.older import older_version
from tests.deploy.proxy import Nginx
from tests.rigs import rig, some
from tests.store.engines import Servers, new_prefix, url_of
from tests.store.failover.hearing import Hearing
from tests.store.failover.writing import Writers, check_versions, patching
from tests.store.waiting import free_port, until

END_S_MAX = 60
BETWEEN = 30
"""How many patches are acknowledged between two steps of the upgrade."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return older_version(tmp_path_factory.mktemp("older"))


class Server:
    """A server by its command line, of the version that PYTHONPATH names."""

    def __init__(self, store: str) -> None:
        self.port = free_port()
        self._store = store
        self._running: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, path: Path | None) -> None:
        environment = {**os.environ, "RELAY_HOME": self._store}
        environment.pop("PYTHONPATH", None)
        if path is not None:
            environment["PYTHONPATH"] = str(path)
        self._running = subprocess.Popen(
            [sys.executable, "-m", "contextrelay", "serve", "--port", str(self.port)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        until(self._is_ready, "a server")

    def end(self) -> None:
        if self._running is not None and self._running.poll() is None:
            self._running.send_signal(signal.SIGTERM)
            assert self._running.wait(END_S_MAX) == 0

    def _is_ready(self) -> bool:
        assert self._running is not None
        assert self._running.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@rig
@pytest.mark.parametrize("kind", some(["postgres", "redis", "redis-cluster"], thin=1))
def test_servers_of_two_versions_are_one_relay_while_one_replaces_the_other(
    kind: str,
    older: Path,
    servers: Servers,
    stack: ExitStack,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Promises G2, S4, T4."""
    store = f"{url_of(kind, servers)}?prefix={new_prefix()}"
    both = [Server(store), Server(store)]
    for server in both:
        stack.callback(server.end)
        server.start(older)
    relays = [stack.enter_context(Relay(server.url)) for server in both]
    thread_id = relays[0].new_thread("shared").id
    nginx = stack.enter_context(Nginx(tmp_path, *(server.port for server in both)))
    balanced = [stack.enter_context(Relay(nginx.url)) for _ in range(2)]
    heard = [Hearing(relay, "news") for relay in balanced]
    for each in heard:
        stack.callback(each.stop)
    writers = Writers("w", [patching(relay, thread_id) for relay in (*relays, *balanced)])
    stack.callback(writers.stop)
    kept: dict[str, bytes] = {}

    for server in both:
        writers.more(BETWEEN)
        see_each_other(both, relays, kept)
        server.end()
        server.start(None)
    writers.more(BETWEEN)
    see_each_other(both, relays, kept)
    writers.stop()

    check_versions(writers.promised, relays[0], thread_id)
    for relay in relays:
        assert {ref: relay.pull(ref) for ref in kept} == kept
    for each in heard:
        assert each.all(len(kept)) == [(number, ref) for number, ref in enumerate(kept, 1)]
    assert relays[1].verify().problems == []
    record_property("patches", len(writers.promised))
    record_property("refused", writers.refused)
    record_property("longest wait s", round(writers.longest_s, 1))


def see_each_other(both: list[Server], relays: list[Relay], kept: dict[str, bytes]) -> None:
    """See that what either server was given is there by the other, at once."""
    for server, here, there in zip(both[::-1], relays, relays[::-1], strict=True):
        for body in (f"heron {len(kept)}".encode(), os.urandom(100_000)):
            ref = here.push(body, channel="news").ref
            kept[ref] = body
            assert there.pull(ref) == body
        thread = here.new_thread("passed on")
        thread.patch([{"op": "add", "path": "/x", "value": 1}])
        assert there.thread(thread.id).state()["x"] == 1
        there.thread(thread.id).add_fact("by the other")
        key = here.new_key()
        with Relay(server.url, api_key=key.token) as known:
            assert known.list(limit=1).artifacts
