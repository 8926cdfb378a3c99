"""Seed 002's REST: threads, events and capabilities over HTTP."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from contextrelay.identity import user_name
from contextrelay.verbs.routes import FRAMED
from tests.server.replies import FACT, error_of, patch

# The whole story


def test_the_story_of_the_seed(web: httpx2.Client) -> None:
    """Promise T11."""
    made = web.post("/threads", json={"name": "my-first-run"})
    thread = made.json()["thread_id"]
    assert (made.status_code, made.json()["state_ref"]) == (201, "v1")
    assert made.headers["location"] == f"/threads/{thread}"

    patched = patch(web, thread, [FACT])
    assert patched.status_code == 200
    assert {"thread_id": thread, "version": 2, "state_ref": "v2"}.items() <= patched.json().items()

    notes = {"name": "notes.md", "type": "markdown", "mime": "text/markdown", "content": "# Notes"}
    put = web.post(f"/threads/{thread}/artifacts", json=notes)
    ref = put.json()["artifact_ref"]
    assert put.status_code == 201

    header = web.get(f"/threads/{thread}/state/header").json()
    assert header["version"] == 3
    assert [fact["value"] for fact in header["top_facts"]] == ["Friday"]
    assert header["artifact_refs"] == [ref]

    messages = web.post(f"/render/{thread}?format=openai").json()["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == web.get(f"/threads/{thread}/state/header").text
    assert messages[1]["content"].startswith(f"## Artifacts\n\n[artifact:{ref} | notes.md]\n")

    report = web.post(f"/reports/{thread}", json={"format": "md"}).json()
    assert "Friday" in web.get(f"/artifacts/{report['artifact_ref']}?raw=1").text

    events = web.get(f"/threads/{thread}/events").json()["events"]
    assert [event["type"] for event in events] == [
        "thread.created",
        "state.created",
        "state.patch.applied",
        "artifact.created",
        "state.patch.applied",
        "artifact.created",
        "report.generated",
        "state.patch.applied",
    ]


# Threads


@pytest.mark.parametrize("malformed", ["nope", "..%2f..%2fetc", "%00", "A" * 2000])
@pytest.mark.parametrize("is_known_form", [True, False])
def test_an_unknown_or_malformed_thread_is_not_found_anywhere(
    web: httpx2.Client, malformed: str, is_known_form: bool
) -> None:
    """Promise T11."""
    unknown = str(uuid4()) if is_known_form else malformed
    replies = [
        web.get(f"/threads/{unknown}"),
        web.get(f"/threads/{unknown}/state"),
        web.get(f"/threads/{unknown}/state/header"),
        web.get(f"/threads/{unknown}/events"),
        web.get(f"/threads/{unknown}/artifacts"),
        web.get(f"/threads/{unknown}/artifacts/{uuid4()}"),
        web.post(f"/threads/{unknown}/artifacts", json={"content": "a"}),
        web.post(f"/threads/{unknown}/artifacts", files={"file": b"a"}),
        patch(web, unknown, [FACT]),
        patch(web, unknown, [FACT], if_match='"v1"'),
        patch(web, unknown, {"operations": [FACT], "expected": 9}),
        web.post(f"/reports/{unknown}"),
        web.post(f"/render/{unknown}?format=openai"),
        web.post("/cap/invoke", json={"capability": "retrieval.search", "thread_id": "nope"}),
    ]

    assert [(each.status_code, error_of(each)) for each in replies] == [
        (404, "thread not found")
    ] * len(replies)


def test_a_wrong_method_is_answered_with_the_right_ones(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    reply = web.put(f"/threads/{thread}/state", json={})

    assert reply.status_code == 405
    assert "GET" in reply.headers["allow"]
    error_of(reply)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"name":7}',
        b'{"nome":"a"}',
        b'{"name":' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"name":"a\\u0007"}',
    ],
)
def test_what_cannot_be_understood_makes_no_thread(web: httpx2.Client, body: bytes) -> None:
    """Promise T11."""
    before = web.get("/threads?limit=1000").json()["threads"]

    reply = web.post("/threads", content=body)

    assert reply.status_code == 400, reply.text
    assert error_of(reply)
    assert web.get("/threads?limit=1000").json()["threads"] == before


@pytest.mark.parametrize("query", ["limit=0", "limits=5"])
def test_a_query_that_cannot_be_used_is_refused(web: httpx2.Client, query: str) -> None:
    """Promise T11."""
    assert web.get(f"/threads?{query}").status_code == 400


# Events


def test_events_come_after_the_one_with_an_id(web: httpx2.Client, thread: str) -> None:
    """Promise T8. Promise T11."""
    patch(web, thread, [FACT, FACT])
    put = web.post(f"/threads/{thread}/artifacts", json={"content": "abc"}).json()

    every = web.get(f"/threads/{thread}/events").json()["events"]
    after = web.get(f"/threads/{thread}/events?after={every[0]['id']}&limit=1").json()["events"]

    assert after == every[1:2]
    assert {tuple(sorted(event)) for event in every} == {
        ("id", "payload", "thread_id", "timestamp", "type")
    }
    assert all(isinstance(event["id"], str) for event in every)
    assert {event["thread_id"] for event in every} == {thread}
    assert [(event["type"], event["payload"]) for event in every] == [
        ("thread.created", {"name": "release"}),
        ("state.created", {"version": 1}),
        ("state.patch.applied", {"ops": 2, "version": 2}),
        ("artifact.created", {"ref": put["ref"], "type": "text", "size": 3}),
        ("state.patch.applied", {"ops": 1, "version": 3}),
    ]


def test_at_most_200_events_come_at_once(web: httpx2.Client, thread: str) -> None:
    """Promise T8."""
    for _ in range(200):
        web.post(f"/v1/threads/{thread}/events", json={"type": "a.b"})

    first = web.get(f"/threads/{thread}/events").json()["events"]
    rest = web.get(f"/threads/{thread}/events?after={first[-1]['id']}").json()["events"]

    assert (len(first), len(rest)) == (200, 2)


def test_events_are_streamed_only_where_a_stream_is_asked_for(
    web: httpx2.Client, thread: str
) -> None:
    """Promise T8."""
    headers = {"Accept": "text/event-stream"}
    place = f"/threads/{thread}/events"
    with web.stream("GET", place, params={"after": 1}, headers=headers) as reply:
        lines = reply.iter_lines()
        ids = [line for line in (next(lines) for _ in range(4)) if line.startswith("id")]
        patch(web, thread, [FACT])
        data = [json.loads(line[6:]) for line in (next(lines) for _ in range(4)) if "data" in line]

    assert reply.headers["content-type"] == "text/event-stream"
    assert ids == ["id: 1", "id: 2"]
    assert [each["type"] for each in data] == ["state.patch.applied"]
    plain = web.get(place, headers={"Accept": "application/json"})
    assert plain.headers["content-type"] == "application/json"


# Capabilities


def test_capabilities_are_listed_and_invoked(web: httpx2.Client, thread: str) -> None:
    """Promise C1. Promise C2."""
    web.post(f"/threads/{thread}/artifacts", json={"name": "a.md", "content": "about foxes"})
    asked = {"capability": "retrieval.search", "args": {"query": "foxes"}, "thread_id": thread}

    listed = web.get("/cap/list").json()["capabilities"]
    first = web.post("/cap/invoke", json=asked)
    again = web.post("/cap/invoke", json={**asked, "args": {"limit": 10, "query": "foxes"}})
    same = web.post("/cap/invoke", json={**asked, "args": {"query": "foxes", "limit": 10}})

    members = {"name", "description", "args_schema", "cacheable", "cache_ttl_sec"}
    assert {"retrieval.search", "http.fetch"} <= {each["name"] for each in listed}
    assert all(members <= set(each) for each in listed)
    assert first.status_code == 200
    assert {"capability", "preview", "artifact_ref", "cache_hit", "cache_key", "duration_ms"} == {
        *first.json()
    }
    assert same.json()["cache_key"] == again.json()["cache_key"]
    assert (first.json()["cache_hit"], same.json()["cache_hit"]) == (False, True)
    assert web.get(f"/artifacts/{first.json()['artifact_ref']}").status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ({"capability": "retrieval.search", "name": "http.fetch"}, 400)],
)
def test_what_cannot_be_invoked_is_refused(
    web: httpx2.Client, thread: str, body: Any, status: int
) -> None:
    """Promise C1."""
    body = {name: thread if value == "THREAD" else value for name, value in body.items()}
    reply = web.post("/cap/invoke", json=body)

    assert reply.status_code == status, reply.text
    assert error_of(reply) != "thread not found"


# Under /v1


@pytest.mark.parametrize("said", ["ann", ""])
def test_the_caller_is_taken_from_the_header_unless_the_verb_says(
    web: httpx2.Client, said: str
) -> None:
    headers = {"X-Relay-From": said} if said else {}
    name = said or user_name()
    thread = web.post("/v1/threads", json={"name": "a"}, headers=headers).json()["thread_id"]
    place = f"/v1/threads/{thread}/events"

    web.post(place, json={"type": "a.b", "by": "bob"}, headers=headers)
    signal = web.post("/v1/channels/who", json={"message": 1}, headers=headers).json()
    pushed = web.post("/v1/artifacts", content=b"x", headers=headers).json()
    many = web.post(
        "/v1/artifacts/many",
        content=b'{"items":[{},{"created_by":"bob"}],"sizes":[1,1]}\nab',
        headers={**headers, "content-type": FRAMED},
    ).json()

    events = web.get(place).json()["events"]
    assert [each["event"]["by"] for each in events] == [name, name, "bob"]
    assert signal["from"] == name
    assert [each["provenance"]["created_by"] for each in (pushed, *many)] == [name, name, "bob"]


@pytest.mark.parametrize("number", ["9007199254740992", "9" * 23, "9" * 400])
@pytest.mark.parametrize(
    "path",
    [
        "/threads/{thread}/events?after=",
        "/threads/{thread}/state?version=",
        "/v1/threads/{thread}/events?after=",
        "/v1/threads/{thread}/events/stream?after=",
        "/v1/threads/{thread}/state?version=",
        "/v1/threads/{thread}/diff?old_version=",
        "/v1/channels/a?after=",
        "/v1/channels/a?wait=",
        "/v1/channels/a/events?after=",
    ],
)
def test_a_number_that_is_too_large_is_refused(
    web: httpx2.Client, thread: str, path: str, number: str
) -> None:
    """Promise Z3."""
    reply = web.get(path.format(thread=thread) + number)

    assert reply.status_code == 400
