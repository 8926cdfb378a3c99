"""Asking agents elsewhere that stream: how tasks are named, what is shown, what is stored."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from msgspec.json import decode, encode

from contextrelay import Relay
from tests.cli.shell import Shell
from tests.core import served as raw_server
from tests.core.served import Served

CARD = "/.well-known/agent-card.json"
SSE = "Content-Type: text/event-stream\r\n"
DONE = {"state": "TASK_STATE_COMPLETED"}
WAITS = {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": [{"text": "which?"}]}}


@pytest.fixture
def server() -> Generator[Served]:
    """An agent that streams, by HTTP+JSON."""
    with raw_server.serving() as served:
        says_card(served, streaming=True)
        yield served


@pytest.fixture
def relay() -> Generator[Relay]:
    with Relay("memory:") as relay:
        yield relay


def says_card(server: Served, *, streaming: bool) -> None:
    interface = {"url": server.url(""), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    capabilities = {"streaming": streaming}
    card = {"name": "x", "supportedInterfaces": [interface], "capabilities": capabilities}
    server.says(CARD, encode(card))


def streams(server: Served, *updates: object) -> None:
    body = b"".join(b"data: %s\n\n" % encode(update) for update in updates)
    server.says("/message:stream", body, headers=SSE)


def status(state: dict[str, Any], task: str = "t1") -> dict[str, Any]:
    return {"statusUpdate": {"taskId": task, "contextId": "c1", "status": state}}


def piece(text: str, **fields: object) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": artifact, **fields}}


def task(state: dict[str, Any], *parts: object, id: str = "t1") -> bytes:
    made = [{"artifactId": "a", "parts": list(parts)}] if parts else []
    return encode({"id": id, "contextId": "c1", "status": state, "artifacts": made})


@pytest.mark.parametrize(
    "updates", [[status(DONE)], [piece("hello"), {}], [{}, piece("hello"), {"statusUpdate": {}}]]
)
def test_a_task_that_only_its_updates_name_is_found(
    server: Served, relay: Relay, updates: list[object]
) -> None:
    """Promise M2."""
    streams(server, *updates)
    server.says("/tasks/t1", task(DONE, {"text": "hello"}))

    answer = relay.new_thread("asking").send_to(server.url(""), "hi", on_words=lambda words: None)

    assert (answer.task, answer.state, answer.text) == ("t1", "completed", "hello")


def test_a_stream_that_names_no_task_goes_on_with_that_of_the_message(
    server: Served, relay: Relay
) -> None:
    """Promise M2."""
    thread, words = relay.new_thread("asking"), list[str]()
    streams(server, status(WAITS))
    server.says("/tasks/t1", task(WAITS))
    first = thread.send_to(server.url(""), "hi", on_words=words.append)
    streams(server, {})
    server.says("/tasks/t1", task(DONE, {"text": "that one"}))

    second = thread.send_to(server.url(""), "that one", on_words=words.append)

    assert (first.state, second.state, second.task) == ("input-required", "completed", "t1")
    assert words == ["which?", "that one"]


@pytest.mark.parametrize(
    ("code", "reason"), [("404 Not Found", "TASK_NOT_FOUND"), ("400 Bad", "UNSUPPORTED_OPERATION")]
)
def test_a_thread_whose_task_an_agent_forgot_goes_on_with_a_new_one(
    server: Served, relay: Relay, code: str, reason: str
) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    says_card(server, streaming=False)
    server.says("/message:send", b'{"task":%s}' % task(WAITS))
    assert thread.send_to(server.url(""), "hi").state == "input-required"
    error = encode({"error": {"message": "no", "details": [{"reason": reason}]}})
    head = f"HTTP/1.1 {code}\r\nContent-Length: {len(error)}\r\nConnection: close\r\n\r\n"
    found = encode({"task": decode(task(DONE, {"text": "anew"}, id="t2"))})
    ok = f"HTTP/1.1 200 OK\r\nContent-Length: {len(found)}\r\nConnection: close\r\n\r\n"

    def answer(sock: Any, over: object) -> None:
        is_old = b'"taskId"' in server.requests[-1]
        sock.sendall(head.encode() + error if is_old else ok.encode() + found)

    server.replies["/message:send"] = answer

    assert thread.send_to(server.url(""), "and now?").task == "t2"


def test_an_agent_that_answers_a_stream_by_one_document_is_understood(
    server: Served, relay: Relay
) -> None:
    """Promise M2."""
    server.says("/message:stream", b'{"task":%s}' % task(DONE, {"text": "hello"}))

    answer = relay.new_thread("asking").send_to(server.url(""), "hi", on_words=lambda words: None)

    assert (answer.task, answer.text) == ("t1", "hello")


@pytest.mark.parametrize("streaming", [True, False])
def test_an_answer_without_pieces_is_shown_by_stream_too(
    server: Served, shell: Shell, *, streaming: bool
) -> None:
    """Promise M2."""
    path = "/message:stream" if streaming else "/message:send"
    kind = SSE if streaming else ""
    message = {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": "hello"}]}
    said = {"state": "TASK_STATE_COMPLETED", "message": message}
    says_card(server, streaming=streaming)
    shown: list[str] = []
    for document in ({"message": message}, {"task": decode(task(said))}):
        body = encode(document)
        server.says(path, b"data: %s\n\n" % body if streaming else body, headers=kind)
        server.says("/tasks/t1", task(said))
        shown.append(shell.out("a2a", "send", server.url(""), "hi", "--stream"))

    assert shown == ["hello\n", "hello\n"]


def test_an_artifact_in_chunks_is_one_artifact(server: Served, relay: Relay) -> None:
    """Promise M2."""
    words = ["one ", "two ", "three ", "four ", "five"]
    updates = [piece(word, append=index > 0) for index, word in enumerate(words)]
    streams(server, *updates, status(DONE))
    texts = [{"text": word} for word in words]
    server.says("/tasks/t1", task(DONE, *texts))
    heard: list[str] = []

    answer = relay.new_thread("asking").send_to(server.url(""), "hi", on_words=heard.append)

    assert heard == words
    assert answer.text == "one two three four five"
    assert [relay.pull(ref) for ref in answer.refs] == [b"one two three four five"]


def test_parts_of_other_names_and_types_stay_apart(server: Served, relay: Relay) -> None:
    """Promise M2."""
    says_card(server, streaming=False)
    parts = [
        {"raw": "AAE=", "filename": "a.bin"},
        {"raw": "Ag==", "filename": "a.bin"},
        {"text": "x", "filename": "b.txt"},
        {"text": "y", "filename": "c.txt"},
        {"data": {"z": 1}},
        {"data": {"z": 1}},
    ]
    server.says("/message:send", b'{"task":%s}' % task(DONE, *parts))

    answer = relay.new_thread("asking").send_to(server.url(""), "hi")

    bodies = [relay.pull(ref) for ref in answer.refs]
    assert bodies == [b"\0\1\2", b"x", b"y", b'{"z":1}', b'{"z":1}']
