"""Serving: cards, messages, streams and tasks, over JSON-RPC and HTTP+JSON."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode, encode

from contextrelay import Relay
from contextrelay.a2a.schema import REFS_EXTENSION
from contextrelay.errors import Invalid
from tests.a2a import agents as own
from tests.a2a.asking import (
    HEADERS,
    WITH_REFS,
    Document,
    agents_served,
    events,
    message,
    words,
)
from tests.cli.shell import Shell
from tests.server.serving import Served, serving, serving_apart


def send(web: httpx2.Client, agent: str, text: str, **fields: Any) -> Document:
    answer = web.post(f"/a2a/{agent}/message:send", json=message(text, **fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def rpc(web: httpx2.Client, agent: str, method: str, params: object, **headers: str) -> Document:
    asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return web.post(f"/a2a/{agent}", json=asked, headers=headers).json()


# Cards


def test_each_agent_has_a_card_and_the_first_one_is_at_the_well_known_place(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    first = web.get("/.well-known/agent-card.json")
    second = web.get("/a2a/counts/.well-known/agent-card.json")

    assert first.json()["name"] == "echo"
    assert second.json()["description"] == "Counts to three, word by word."
    assert first.headers["cache-control"] == "public, max-age=300"
    assert first.json()["supportedInterfaces"][0]["url"] == f"{agents.url}/a2a/echo"
    again = web.get(
        "/.well-known/agent-card.json", headers={"if-none-match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert web.get("/a2a/nobody/.well-known/agent-card.json").status_code == 404
    assert web.get("/a2a/counts").json() == web.get("/a2a/counts/").json() == second.json()
    assert web.get("/a2a/nobody").status_code == 404


def test_a_server_that_ends_with_an_agent_at_work_logs_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Promise M2."""
    agent = "endless=py:tests.a2a.agents:endless"
    with (
        suppress(httpx2.HTTPError),
        serving_apart(tmp_path / "store", a2a=(agent,)) as served,
        httpx2.stream(
            "POST",
            f"{served.url}/a2a/endless/message:stream",
            json=message("go"),
            headers=HEADERS,
            timeout=60,
        ) as response,
    ):
        came = events(response)
        while "artifactUpdate" not in next(came):
            pass
        served.running.send_signal(signal.SIGTERM)
        served.running.wait(60)

    assert "Traceback" not in capfd.readouterr().err


def test_a_server_ends_while_an_agent_blocks_its_thread_and_the_task_is_failed(
    tmp_path: Path,
) -> None:
    """Promise M2."""
    agent, shell = "stuck=py:tests.a2a.agents:stuck", Shell(tmp_path)
    shell.env["PYTHONPATH"] = str(Path(__file__).parents[2])
    task = ""
    with (
        suppress(httpx2.HTTPError),
        shell.started("a2a", "serve", "--agent", agent, "--port", "0", "--json") as server,
        httpx2.stream(
            "POST",
            f"{decode(server.line())['url']}/a2a/stuck/message:stream",
            json=message("go"),
            headers=HEADERS,
            timeout=60,
        ) as response,
    ):
        came = events(response)
        while "artifactUpdate" not in (update := next(came)):
            pass
        task = update["artifactUpdate"]["taskId"]
        server.ended(signal.SIGTERM)

    with (
        serving(shell.home / "store", a2a=(agent,)) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        found = web.get(f"/a2a/stuck/tasks/{task}").json()
    assert found["status"]["state"] == "TASK_STATE_FAILED"


def test_with_keys_the_card_is_open_and_says_so_and_all_else_needs_one(tmp_path: Path) -> None:
    """Promise M2."""
    with Relay(tmp_path / "store") as owner:
        token = owner.new_key(name="peer", scope="write").token
    with (
        agents_served(tmp_path / "store", needs_token=True) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        card = web.get("/.well-known/agent-card.json").json()
        keyed = {"authorization": f"Bearer {token}"}

        assert card["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]
        assert web.get("/a2a/echo/extendedAgentCard").status_code == 401
        assert web.post("/a2a/echo/message:send", json=message("hello")).status_code == 401
        extended = web.get("/a2a/echo/extendedAgentCard", headers=keyed).json()
        assert [each["id"] for each in extended["skills"]][:2] == ["echo", "counts"]
        sent = web.post("/a2a/echo/message:send", json=message("hello"), headers=keyed)
        assert words(sent.json()["task"]) == "hello"


@pytest.mark.parametrize(
    "spec",
    [
        "echo",
        "echo=",
        "Echo=model:echo",
        "a=cli:",
        "a=py:no.such:thing",
        "a=py::",
        "a=py:this:d",
        "a=py:tests.a2a.agents:nothing",
        "a=what:ever",
        "a/b=model:x",
    ],
)
def test_an_agent_that_cannot_be_had_is_refused_before_anything_is_served(
    tmp_path: Path, spec: str
) -> None:
    from contextrelay.a2a.agents import open_agents

    with pytest.raises(Invalid):
        open_agents((spec,))


# Messages


def test_a_message_becomes_a_task_which_is_a_thread_of_that_kind(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    task = send(web, "echo", "hello there", contextId="orders")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["contextId"] == "orders"
    assert words(task) == "hello there"
    assert task["history"][0]["parts"] == [{"text": "hello there"}]
    with Relay(agents.url) as relay:
        thread = relay.thread(task["id"])
        assert thread.show().kind == "task"
        assert [relay.pull(each.ref) for each in thread.artifacts()] == [b"hello there"]
        assert task["id"] not in [each.thread_id for each in relay.threads(limit=200).threads]


def test_json_rpc_and_http_json_answer_the_same(web: httpx2.Client) -> None:
    """Promise M2."""
    made = rpc(web, "echo", "SendMessage", message("twice"))["result"]["task"]

    got = rpc(web, "echo", "GetTask", {"id": made["id"]})["result"]
    assert got == web.get(f"/a2a/echo/tasks/{made['id']}").json() == made
    snake = rpc(web, "echo", "GetTask", {"id": made["id"], "history_length": 0})["result"]
    assert "history" not in snake


def test_words_are_streamed_and_are_one_artifact_in_the_end(web: httpx2.Client) -> None:
    """Promise M2."""
    with web.stream("POST", "/a2a/counts/message:stream", json=message("go")) as response:
        assert response.headers["content-type"] == "text/event-stream"
        came = list(events(response))

    assert "task" in came[0]
    pieces = [each["artifactUpdate"] for each in came if "artifactUpdate" in each]
    assert "".join(each["artifact"]["parts"][0]["text"] for each in pieces) == "one two three"
    assert [each.get("append", False) for each in pieces[:1]] == [False]
    assert pieces[-1]["lastChunk"] is True
    assert came[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = web.get(f"/a2a/counts/tasks/{came[0]['task']['id']}").json()
    assert [each["parts"] for each in task["artifacts"]] == [[{"text": "one two three"}]]


def test_an_agent_may_be_awaited(web: httpx2.Client) -> None:
    assert words(send(web, "awaited", "too")) == "awaited too"


@pytest.mark.parametrize(
    ("name", "said"), [("plain", "HELLO"), ("unmarked", "hellohello"), ("all_of_it", "1 hello")]
)
def test_a_function_is_given_words_unless_it_asks_for_all(name: str, said: str) -> None:
    """Promise M2: whether it is typed or not."""
    with (
        serving("memory:", a2a=(f"it=py:tests.a2a.agents:{name}",)) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        assert words(send(web, "it", "hello")) == said


def test_what_an_agent_raises_is_why_its_task_failed(web: httpx2.Client) -> None:
    """Promise M2."""
    task = send(web, "fails", "order 7")

    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "there is no such order" in task["status"]["message"]["parts"][0]["text"]


def test_a_task_that_waits_for_its_user_goes_on_with_the_next_message(web: httpx2.Client) -> None:
    """Promise M2."""
    first = send(web, "asks_back", "which?")
    assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    second = send(web, "asks_back", "this one", taskId=first["id"])

    assert (second["id"], second["contextId"]) == (first["id"], first["contextId"])
    assert words(second) == "so: this one"
    texts = [each["parts"][0]["text"] for each in second["history"]]
    assert texts == ["which?", "this one"]
    refused = web.post("/a2a/asks_back/message:send", json=message("more", taskId=first["id"]))
    assert refused.status_code == 400
    assert refused.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


# Refs


def test_a_long_answer_is_a_ref_to_those_who_know_refs_and_plain_to_others(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    task = send(web, "long", "go")
    answer = web.get(f"/a2a/long/tasks/{task['id']}", headers=WITH_REFS)

    part = answer.json()["artifacts"][0]["parts"][0]
    described = part["metadata"][REFS_EXTENSION]
    assert words(task) == own.LONG_BODY
    assert answer.headers["a2a-extensions"] == REFS_EXTENSION
    assert len(answer.content) < 2_000 < len(own.LONG_BODY)
    assert described["size"] == len(own.LONG_BODY)
    assert described["preview"].startswith("a long line")
    assert web.get(part["url"]).text == own.LONG_BODY
    with web.stream(
        "POST", "/a2a/long/message:stream", json=message("go"), headers=WITH_REFS
    ) as response:
        came = encode(list(events(response)))
    assert b"/content" in came
    assert len(came) < 3_000


def test_a_long_part_that_comes_in_is_stored_once_and_comes_back_as_it_was(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    body = b"\x00\x01 binary" * 1_000
    part = {"raw": encode(body).decode()[1:-1], "filename": "../../etc/x.bin"}
    task = send(web, "hashes", "", parts=[part])

    assert task["history"][0]["parts"] == [part]
    with Relay(agents.url) as relay:
        kept = [each for each in relay.thread(task["id"]).artifacts() if each.name == "x.bin"]
        assert [relay.pull(each.ref) for each in kept] == [body]


# Tasks


def test_tasks_are_listed_by_context_and_state_newest_first_page_by_page(
    web: httpx2.Client,
) -> None:
    """Promise M2."""
    made = [send(web, "echo", f"{n}", contextId="listed")["id"] for n in range(3)]
    send(web, "echo", "another", contextId="other")

    pages: list[Document] = []
    token = ""
    while not pages or token:
        query = {"contextId": "listed", "pageSize": 2, "pageToken": token}
        pages.append(web.get("/a2a/echo/tasks", params=query).json())
        token = pages[-1]["nextPageToken"]

    assert [each["id"] for page in pages for each in page["tasks"]] == made[::-1]
    assert pages[0]["totalSize"] == 3
    assert "artifacts" not in pages[0]["tasks"][0]
    query = {"contextId": "listed", "status": "TASK_STATE_FAILED"}
    assert web.get("/a2a/echo/tasks", params=query).json()["tasks"] == []
    assert web.get("/a2a/echo/tasks", params={"pageSize": 101}).status_code == 400
    for wrong in ("nonsense", "|nonsense", f"{made[0]}|{made[0]}"):
        refused = web.get("/a2a/echo/tasks", params={"pageToken": wrong})
        assert refused.status_code == 400
        assert "nextPageToken" in refused.text


def test_tasks_behind_those_that_are_looked_through_at_once_are_on_later_pages(
    web: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise M2: all are listed, each once."""
    made = [send(web, "echo", f"{n}", contextId="many")["id"] for n in range(5)]
    monkeypatch.setattr("contextrelay.core.threads.events.LIST_ITEMS_MAX", 2)
    monkeypatch.setattr("contextrelay.a2a.tasks.LIST_ITEMS_MAX", 2)
    monkeypatch.setattr("contextrelay.a2a.tasks.A2A_TASKS_LISTED_MAX", 4)

    found: list[str] = []
    query = {"contextId": "many", "pageSize": 3}
    while token := (page := web.get("/a2a/echo/tasks", params=query).json())["nextPageToken"]:
        found += [each["id"] for each in page["tasks"]]
        query["pageToken"] = token
    found += [each["id"] for each in page["tasks"]]

    assert found == made[::-1]


def test_a_task_that_is_canceled_ends_its_stream_and_takes_no_more(web: httpx2.Client) -> None:
    """Promise M2."""
    own.GOES_ON.clear()
    with web.stream("POST", "/a2a/waits/message:stream", json=message("go")) as response:
        came = events(response)
        task = next(came)["task"]["id"]
        until_word = next(each for each in came if "artifactUpdate" in each)
        canceled = web.post(f"/a2a/waits/tasks/{task}:cancel").json()
        last = list(came)[-1]

    assert until_word["artifactUpdate"]["artifact"]["parts"][0]["text"] == "first "
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    again = web.post(f"/a2a/waits/tasks/{task}:cancel")
    assert again.json()["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"
    own.GOES_ON.set()


def test_who_subscribes_gets_all_so_far_and_then_each_update(web: httpx2.Client) -> None:
    """Promise M2."""
    own.GOES_ON.clear()
    configuration = {"returnImmediately": True}
    task = send(web, "waits", "go", configuration=configuration)["id"]
    with web.stream("GET", f"/a2a/waits/tasks/{task}:subscribe") as first:
        came = events(first)
        while not words(snapshot := next(came).get("task", {})):
            if next(came).get("artifactUpdate"):
                break
        with web.stream("POST", f"/a2a/waits/tasks/{task}:subscribe") as response:
            later = events(response)
            snapshot = next(later)["task"]
            own.GOES_ON.set()
            rest = list(later)

    assert words(snapshot) == "first "
    pieces = [each["artifactUpdate"] for each in rest if "artifactUpdate" in each]
    assert "".join(each["artifact"]["parts"][0]["text"] for each in pieces) == "second"
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_task_is_there_after_a_restart_and_one_whose_agent_died_has_failed(
    tmp_path: Path,
) -> None:
    """Promise M2."""
    own.GOES_ON.clear()
    with (
        agents_served(tmp_path / "store") as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        done = send(web, "echo", "kept")
        left = send(web, "waits", "go", configuration={"returnImmediately": True})
    with (
        agents_served(tmp_path / "store") as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        assert web.get(f"/a2a/echo/tasks/{done['id']}").json() == done
        status = web.get(f"/a2a/waits/tasks/{left['id']}").json()["status"]

    assert status["state"] == "TASK_STATE_FAILED"
    assert "stopped" in status["message"]["parts"][0]["text"]
    own.GOES_ON.set()
