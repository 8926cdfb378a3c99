"""Several processes on one store: what one began, another cancels, sends on or ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode

from contextrelay import Relay
from contextrelay.core.schema import RowKind, thread_index
from contextrelay.model.names import tenant_log
from contextrelay.model.settings import Settings
from tests.a2a.asking import HEADERS, Document, message
from tests.core import served as hook_server
from tests.core.keyed import stores_of
from tests.server.serving import Apart, Served, serving, serving_apart
from tests.store.engines import Servers, new_prefix, until, url_of

AGENTS = tuple(f"{name}=py:tests.a2a.agents:{name}" for name in ("holds", "echo", "asks_back"))
ALLOWED = Settings(fetch_private=True)
AT_ONCE = {"configuration": {"returnImmediately": True}}
DOWN = b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def post(served: Served | Apart, path: str, body: Document | None = None) -> Document:
    """Ask on a connection of its own: processes of one server take turns by connections."""
    answer = httpx2.post(f"{served.url}{path}", json=body or {}, headers=HEADERS, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def was_stopped(relay: Relay, task: str) -> bool:
    return "test.stopped" in [each.event.type for each in relay.thread(task).events(limit=100)]


# Cancel


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_task_is_worked_on_by_one_server_and_looked_at_and_canceled_by_another(
    kind: str, tmp_path: Path, servers: Servers
) -> None:
    """Promise M2: on every engine; the agent, which says nothing, is stopped."""
    store = str(tmp_path / "store")
    if kind != "sqlite":
        store = f"{url_of(kind, servers)}?prefix={new_prefix()}"
    with (
        serving(store, a2a=AGENTS) as one,
        serving(store, a2a=AGENTS) as other,
        Relay(store) as relay,
    ):
        task = post(one, "/a2a/holds/message:send", message("go", **AT_ONCE))["task"]["id"]
        listed = httpx2.get(f"{other.url}/a2a/holds/tasks", headers=HEADERS).json()
        canceled = post(other, f"/a2a/holds/tasks/{task}:cancel")
        until(lambda: was_stopped(relay, task), "the agent to be stopped")
        seen = httpx2.get(f"{one.url}/a2a/holds/tasks/{task}", headers=HEADERS).json()
        done = post(other, "/a2a/echo/message:send", message("hello"))["task"]

    assert [each["id"] for each in listed["tasks"]] == [task]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert seen["status"] == canceled["status"]
    assert done["artifacts"][0]["parts"] == [{"text": "hello"}]


def test_of_two_messages_to_a_task_that_waits_one_is_taken(tmp_path: Path) -> None:
    """Promise M2: at whichever server they come; the other is refused."""
    store = tmp_path / "store"
    with serving(store, a2a=AGENTS) as one, serving(store, a2a=AGENTS) as other:
        for _ in range(5):
            task = post(one, "/a2a/asks_back/message:send", message("which?"))["task"]["id"]
            sent = message("this one", taskId=task)

            def send(served: Served, sent: Document = sent) -> int:
                place = f"{served.url}/a2a/asks_back/message:send"
                return httpx2.post(place, json=sent, headers=HEADERS, timeout=60).status_code

            with ThreadPoolExecutor() as pool:
                assert sorted(pool.map(send, (one, other, one))) == [200, 400, 400]


def test_a_cancel_at_any_process_of_a_server_reaches_the_agent(tmp_path: Path) -> None:
    """Promise M2: `relay serve --workers`."""
    with (
        serving_apart(tmp_path / "store", workers=2, a2a=AGENTS) as served,
        Relay(tmp_path / "store") as relay,
    ):
        go = message("go", **AT_ONCE)
        made = [post(served, "/a2a/holds/message:send", go)["task"]["id"] for _ in range(6)]
        for task in made:
            post(served, f"/a2a/holds/tasks/{task}:cancel")
        until(lambda: all(was_stopped(relay, task) for task in made), "the agents to be stopped")


# Notifications


class Hook:
    """A webhook that is down until it is up."""

    def __init__(self, hook: hook_server.Served) -> None:
        self._hook = hook
        self.url = hook.url("/hook")
        self.is_up = threading.Event()
        self._answered = 0
        hook.replies["/hook"] = self._reply

    def _reply(self, sock: socket.socket, over: threading.Event) -> None:
        if self.is_up.is_set():
            sock.sendall(OK)
            self._answered += 1
        else:
            sock.sendall(DOWN)

    @property
    def asked(self) -> int:
        return len(self._hook.requests)

    def taken(self) -> list[Document]:
        """What it was sent since it is up."""
        if not self._answered:
            return []
        bodies = [each.partition(b"\r\n\r\n")[2] for each in self._hook.requests]
        return [decode(each) for each in bodies[-self._answered :]]


@contextmanager
def killable(store: Path, **options: Any) -> Generator[Apart]:
    with suppress(ProcessLookupError), serving_apart(store, a2a=AGENTS, **options) as served:
        yield served


def is_sent(relay: Relay) -> bool:
    """Whether nothing waits to be sent."""
    ledger, log = stores_of(relay).ledger, thread_index("task")
    logs = (log, tenant_log("acme", log))
    return not any(ledger.rows(each, RowKind.HOOK, "", 10) for each in logs)


def test_what_a_killed_server_did_not_send_the_next_one_sends_once(tmp_path: Path) -> None:
    """Promise M2: by one of its processes, also what a tenant asked for."""
    store = tmp_path / "store"
    with hook_server.serving() as served_hook, Relay(store) as relay:
        hook = Hook(served_hook)
        token = relay.new_key(name="peer", scope="write", tenant="acme").token
        keyed = {**HEADERS, "authorization": f"Bearer {token}"}
        with killable(store, settings=ALLOWED) as served:
            asked = {"taskPushNotificationConfig": {"url": hook.url, "token": "secret"}}
            sent = message("go", configuration=asked)
            answer = httpx2.post(f"{served.url}/a2a/echo/message:send", json=sent, headers=keyed)
            task = answer.json()["task"]["id"]
            until(lambda: hook.asked > 0, "the first notification")
            served.kill()
        assert not is_sent(relay)
        hook.is_up.set()
        with killable(store, settings=ALLOWED, workers=2):
            until(lambda: is_sent(relay), "the notifications")

        kinds = [next(iter(each)) for each in hook.taken()]
        ids = {each[kind]["taskId"] for kind, each in zip(kinds, hook.taken(), strict=True)}
        assert (kinds, ids) == (["artifactUpdate", "statusUpdate"], {task})
        assert all(b"X-Relay-Signature: t=" in each for each in served_hook.requests)


def test_a_task_that_died_with_its_server_is_notified_of(tmp_path: Path) -> None:
    """Promise M2."""
    store = tmp_path / "store"
    with hook_server.serving() as served_hook, Relay(store) as relay:
        hook = Hook(served_hook)
        hook.is_up.set()
        with killable(store, settings=ALLOWED) as served:
            asked = {"taskPushNotificationConfig": {"url": hook.url}, "returnImmediately": True}
            post(served, "/a2a/holds/message:send", message("go", configuration=asked))
            served.kill()
        with killable(store, settings=ALLOWED):
            until(lambda: is_sent(relay), "the notification")

        (said,) = hook.taken()
        assert said["statusUpdate"]["status"]["state"] == "TASK_STATE_FAILED"


def test_a_hook_is_sent_what_another_server_does_to_a_task_that_waited(tmp_path: Path) -> None:
    """Promise M2."""
    store = tmp_path / "store"
    with (
        hook_server.serving() as served_hook,
        serving(store, settings=ALLOWED, a2a=AGENTS) as one,
        serving(store, settings=ALLOWED, a2a=AGENTS) as other,
        Relay(store) as relay,
    ):
        hook = Hook(served_hook)
        hook.is_up.set()
        asked = {"taskPushNotificationConfig": {"url": hook.url}}
        first = post(one, "/a2a/asks_back/message:send", message("which?", configuration=asked))
        until(lambda: len(hook.taken()) == 1, "that it waits")
        again = message("this one", taskId=first["task"]["id"])
        post(other, "/a2a/asks_back/message:send", again)
        until(lambda: is_sent(relay), "the rest")

    states = [
        each["statusUpdate"]["status"]["state"] for each in hook.taken() if "statusUpdate" in each
    ]
    assert states == [
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
    ]


def test_nothing_is_sent_for_a_key_that_was_revoked_meanwhile(tmp_path: Path) -> None:
    """Promise M2, Z1."""
    store = tmp_path / "store"
    with hook_server.serving() as served_hook, Relay(store) as relay:
        hook = Hook(served_hook)
        key = relay.new_key(name="peer", scope="write")
        keyed = {**HEADERS, "authorization": f"Bearer {key.token}"}
        with killable(store, settings=ALLOWED, needs_token=True) as served:
            asked = {"taskPushNotificationConfig": {"url": hook.url}}
            sent = message("go", configuration=asked)
            httpx2.post(f"{served.url}/a2a/echo/message:send", json=sent, headers=keyed)
            until(lambda: hook.asked > 0, "the first notification")
            served.kill()
        relay.revoke_key(key.key.id)
        hook.is_up.set()
        with killable(store, settings=ALLOWED, needs_token=True):
            until(lambda: is_sent(relay), "that nothing waits")

    assert hook.taken() == []
