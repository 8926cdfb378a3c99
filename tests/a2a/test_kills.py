"""A server that is killed in the middle of streaming tasks: nothing that was seen is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from contextrelay import Relay
from contextrelay.client.bridge.bridge import CORRELATION
from tests.a2a.asking import HEADERS, Document, events, message, words
from tests.rigs import length, rig
from tests.server.serving import Apart, serving_apart
from tests.store.engines import free_port, until

AGENTS = ("endless=py:tests.a2a.agents:endless", "far=bridge:tasks:done")
KILLS = length(2, 10, 50)
"""For each of the two kinds of agents."""


@contextmanager
def server(store: Path, port: int) -> Generator[Apart]:
    with suppress(ProcessLookupError), serving_apart(store, port=port, a2a=AGENTS) as served:
        yield served


def client(port: int) -> httpx2.Client:
    """One that keeps no connection: it would be to a server that is gone."""
    return httpx2.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers=HEADERS,
        timeout=60,
        limits=httpx2.Limits(max_keepalive_connections=0),
    )


def begun(web: httpx2.Client, agent: str, kill: Callable[[], None], pieces: int) -> Document:
    """Stream a task, and kill the server after some pieces; the task with the words that came."""
    said = ""
    task: Document = {}
    is_killed = False
    with (
        suppress(httpx2.HTTPError),
        web.stream("POST", f"/a2a/{agent}/message:stream", json=message("go")) as response,
    ):
        for each in events(response):
            task = each.get("task", task)
            if "artifactUpdate" in each:
                said += each["artifactUpdate"]["artifact"]["parts"][0]["text"]
                pieces -= 1
            if pieces <= 0 and not is_killed:
                kill()
                is_killed = True
    return {"id": task["id"], "said": said}


@rig
def test_a_task_whose_agent_died_fails_with_the_reason_and_keeps_all_that_was_seen(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise M2."""
    port = free_port()
    pieces = 0
    with client(port) as web:
        for kill in range(KILLS):
            with server(tmp_path / "store", port) as served:
                seen = begun(web, "endless", served.kill, 3 + kill % 5)
            with server(tmp_path / "store", port):
                refused = web.post(f"/a2a/endless/tasks/{seen['id']}:subscribe")
                task = web.get(f"/a2a/endless/tasks/{seen['id']}").json()

            assert refused.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
            assert task["status"]["state"] == "TASK_STATE_FAILED"
            assert "ended" in task["status"]["message"]["parts"][0]["text"]
            numbers = words(task).split()
            assert numbers == [str(each) for each in range(len(numbers))]
            assert words(task).startswith(seen["said"])
            pieces += len(numbers)
    record_property("kills", KILLS)
    record_property("pieces", pieces)


def answer(relay: Relay, task: str) -> None:
    """Do a task as the agent behind the bridge does."""
    for signal in relay.signals("tasks", after=0, limit=500).signals:
        assert signal.ref is not None
        correlation = str(relay.peek(signal.ref).metadata[CORRELATION])
        if correlation.startswith(task):
            relay.push(f"done {task}", channel="done", metadata={CORRELATION: correlation})


@rig
def test_a_task_of_an_agent_elsewhere_goes_on_and_each_update_comes_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise M2."""
    port = free_port()
    store = tmp_path / "store"
    with (
        Relay(store) as relay,
        client(port) as web,
    ):
        for _ in range(KILLS):
            with server(store, port) as served:
                seen = begun(web, "far", served.kill, 0)
            with (
                server(store, port),
                web.stream("GET", f"/a2a/far/tasks/{seen['id']}:subscribe") as response,
            ):
                came = events(response)
                snapshot = next(came)["task"]
                until(lambda task=seen["id"]: _is_asked(relay, task), "the task on the channel")
                threading.Thread(target=answer, args=(relay, seen["id"])).start()
                rest = list(came)

            assert snapshot["status"]["state"] == "TASK_STATE_WORKING"
            said = [each["artifactUpdate"] for each in rest if "artifactUpdate" in each]
            texts = [each["artifact"]["parts"][0]["text"] for each in said]
            assert "".join(texts) == f"done {seen['id']}"
            last = rest[-1]["statusUpdate"]["status"]["state"]
            assert last == "TASK_STATE_COMPLETED"
        asked = relay.signals("tasks", after=0, limit=500).signals
    assert len(asked) == KILLS
    record_property("kills", KILLS)


def _is_asked(relay: Relay, task: str) -> bool:
    """Whether the agent behind the bridge was sent a task."""
    signals = relay.signals("tasks", after=0, limit=500).signals
    every = [relay.peek(each.ref).metadata[CORRELATION] for each in signals if each.ref]
    return any(str(each).startswith(task) for each in every)
