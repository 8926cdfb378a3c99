"""Hostile requests: each is refused with the protocol's own error, and nothing breaks."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from contextrelay.limits import A2A_MESSAGE_BYTES_MAX
from tests.a2a.asking import HEADERS, message
from tests.server.serving import Served

SEND = "/a2a/echo/message:send"


def reason(answer: httpx2.Response) -> str:
    return answer.json()["error"]["details"][0]["reason"]


@pytest.mark.parametrize("version", ["", "0.3", "99.0", "1", "1.1", "one", "1.0x"])
def test_a_version_that_is_not_spoken_is_refused_by_its_name(
    web: httpx2.Client, version: str
) -> None:
    """Promise M2."""
    answer = web.post(SEND, json=message("hi"), headers={"A2A-Version": version})
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("hi")}
    by_rpc = web.post("/a2a/echo", json=asked, headers={"A2A-Version": version}).json()

    assert (answer.status_code, reason(answer)) == (400, "VERSION_NOT_SUPPORTED")
    assert (by_rpc["id"], by_rpc["error"]["code"]) == (1, -32009)
    assert web.post(SEND, json=message("hi"), headers={"A2A-Version": "1.0.7"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "multipart/form-data"])
def test_a_request_that_is_no_json_by_its_type_is_refused(web: httpx2.Client, kind: str) -> None:
    """Promise M2."""
    answer = web.post(SEND, content=b"{}", headers={"content-type": kind})

    assert (answer.status_code, reason(answer)) == (415, "CONTENT_TYPE_NOT_SUPPORTED")


def test_a_part_of_a_type_that_no_agent_takes_is_refused(web: httpx2.Client) -> None:
    """Promise M2: the error that the requirement CORE-SEND-003 of the kit names."""
    part = {"raw": "dGNr", "mediaType": "application/x-unsupported"}
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": message("", parts=[part]),
    }

    assert reason(web.post(SEND, json=message("", parts=[part]))) == "CONTENT_TYPE_NOT_SUPPORTED"
    assert web.post("/a2a/echo", json=asked).json()["error"]["code"] == -32005


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [{}],
        [{"text": "a", "url": "https://example.org"}],
        [{"text": 7}],
        [{"raw": "no base 64!"}],
        [{"url": "file:///etc/passwd"}],
        [{"url": "/etc/passwd"}],
        [{"url": "javascript:alert(1)"}],
        [{"text": "x"}] * 101,
        "text",
        None,
    ],
)
def test_parts_that_are_none_are_refused(web: httpx2.Client, parts: Any) -> None:
    """Promise M2."""
    answer = web.post(SEND, json=message("", parts=parts))

    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "fields",
    [
        {"messageId": ""},
        {"messageId": "x" * 200},
        {"role": "ROLE_AGENT"},
        {"role": "admin"},
        {"contextId": "x" * 200},
        {"contextId": "a\x07b"},
        {"metadata": {"a": "x" * 100_000}},
        {"extensions": ["x"] * 100},
    ],
)
def test_messages_past_a_bound_are_refused(web: httpx2.Client, fields: Any) -> None:
    """Promise M2."""
    assert web.post(SEND, json=message("hi", **fields)).status_code in (400, 413)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tasks/get"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"../x"}}', -32001),
        (b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":0}}', -32602),
    ],
)
def test_json_rpc_that_is_wrong_is_answered_with_its_code(
    web: httpx2.Client, body: bytes, code: int
) -> None:
    """Promise M2."""
    answer = web.post("/a2a/echo", content=body, headers={"content-type": "application/json"})

    assert answer.json()["error"]["code"] == code


def test_a_part_of_ten_megabytes_is_refused_before_it_is_read(web: httpx2.Client) -> None:
    """Promise M2."""
    answer = web.post(SEND, json=message("x" * (A2A_MESSAGE_BYTES_MAX + 1)))

    assert answer.status_code == 413


def test_a_ref_that_is_written_into_a_part_reads_nothing_of_others(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    secret = httpx2.post(f"{agents.url}/push", content=b"a secret of somebody else").text
    ref = secret.rpartition("/")[2][:36]
    part = {"text": "hi", "ref": ref, "kind": "text", "size": 9_999}
    answer = web.post(SEND, json=message("", parts=[part]))

    assert "somebody else" not in answer.text


def test_the_task_of_another_agent_or_a_plain_thread_is_no_task(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    task = web.post(SEND, json=message("hi")).json()["task"]["id"]
    thread = web.post("/threads", json={"name": "mine"}).json()["thread_id"]

    assert web.get(f"/a2a/long/tasks/{task}").status_code == 404
    assert web.get(f"/a2a/echo/tasks/{thread}").status_code == 404
    assert web.post(f"/a2a/echo/tasks/{task}:explode").status_code == 404
    assert HEADERS == {"A2A-Version": "1.0"}
