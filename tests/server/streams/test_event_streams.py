"""Streams of events and long-polls: signals for those without a WebSocket."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Client, RemoteProtocolError

from contextrelay.model.settings import Settings
from contextrelay.server.streams import signals
from tests.server.serving import Served, serving
from tests.store.engines import until

WAIT_S = 10
EVENTS = "/v1/channels/reviews/events"


@contextmanager
def asking(served: Served) -> Generator[Client]:
    with Client(base_url=served.url, timeout=WAIT_S, verify=False) as client:
        yield client


def publish(served: Served, *messages: Any) -> None:
    with asking(served) as client:
        for message in messages:
            reply = client.post("/v1/channels/reviews", json={"message": message})
            assert reply.status_code == 201, reply.text


def blocks(lines: Iterator[str]) -> Generator[dict[str, str]]:
    """The events of a stream, field by field; a comment has the field ""."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        elif fields:
            yield fields
            fields = {}


def messages(stream: Generator[dict[str, str]], count: int) -> list[Any]:
    signals = (json.loads(block["data"]) for block in stream if "data" in block)
    return [next(signals)["message"] for _ in range(count)]


def a_thread(client: Client) -> str:
    reply = client.post("/v1/threads", json={"name": "notes"})
    assert reply.status_code == 201, reply.text
    return reply.json()["thread_id"]


def one_more_event(client: Client, thread: str) -> None:
    event = {"type": "message.received", "detail": {"text": "hi"}}
    assert client.post(f"/v1/threads/{thread}/events", json=event).status_code == 201


# Streams


def test_a_stream_sends_what_a_websocket_sends(served: Served) -> None:
    """Promise S4."""
    with asking(served) as client, client.stream("GET", EVENTS) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        stream = blocks(reply.iter_lines())
        assert next(stream) == {"id": "0"}
        publish(served, {"x": 1})
        block = next(stream)

    assert block["id"] == "1"
    frame = json.loads(block["data"])
    assert frame.keys() == {"message", "ts", "seq", "from"}
    assert (frame["message"], frame["seq"]) == ({"x": 1}, 1)


def test_a_stream_resumes_where_its_client_was(served: Served) -> None:
    """Promise S4."""
    publish(served, *"abcd")
    with asking(served) as client:
        came_back = {"Last-Event-ID": "2"}
        with client.stream("GET", EVENTS, headers=came_back) as reply:
            assert messages(blocks(reply.iter_lines()), 2) == ["c", "d"]
        with client.stream("GET", EVENTS, params={"after": 3}) as reply:
            assert messages(blocks(reply.iter_lines()), 1) == ["d"]
        # The address stays that of the first time; the header is newer.
        with client.stream("GET", EVENTS, params={"after": 0}, headers=came_back) as reply:
            assert messages(blocks(reply.iter_lines()), 1) == ["c"]


def test_a_stream_shows_a_gap(tmp_path: Path) -> None:
    """Promise S4."""
    with serving(tmp_path / "store", settings=Settings(signals_kept_max=10)) as served:
        publish(served, *range(30))
        with asking(served) as client, client.stream("GET", f"{EVENTS}?after=2") as reply:
            stream = blocks(reply.iter_lines())
            next(stream)
            gap, first = next(stream), next(stream)

    assert gap["event"] == "gap"
    start, end = json.loads(gap["data"])["gap"]
    assert (start, str(end)) == (3, gap["id"])
    assert int(first["id"]) == end + 1


def test_an_idle_stream_says_that_it_is_there(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise S3."""
    monkeypatch.setattr(signals, "EVENTS_KEEPALIVE_S", 0.05)
    with asking(served) as client, client.stream("GET", EVENTS) as reply:
        stream = blocks(reply.iter_lines())

        assert [next(stream).keys() for _ in range(3)] == [{"id"}, {""}, {""}]


def test_a_stream_is_refused_like_any_request(served: Served) -> None:
    """Promise Z3."""
    with asking(served) as client:
        for query in ("after=x", "after=-1", "limit=3", "wait=3"):
            assert client.get(f"{EVENTS}?{query}").status_code == 400, query
        assert client.get(EVENTS, headers={"Last-Event-ID": "x"}).status_code == 400
        assert client.get("/v1/channels/a%00b/events").status_code == 400
        assert client.head(EVENTS).status_code == 200


def test_a_thread_has_a_stream_of_its_events(served: Served) -> None:
    """Promise T8."""
    with asking(served) as client, asking(served) as other:
        thread = a_thread(client)
        with client.stream("GET", f"/v1/threads/{thread}/events/stream?after=1") as reply:
            stream = (block for block in blocks(reply.iter_lines()) if "data" in block)
            second = json.loads(next(stream)["data"])
            one_more_event(other, thread)
            third = json.loads(next(stream)["data"])

    assert [second["seq"], third["seq"]] == [2, 3]
    assert third["event"]["type"] == "message.received"


# Long-polls


@pytest.mark.parametrize("after", ["after=1&", ""])
def test_a_long_poll_answers_when_something_comes(served: Served, after: str) -> None:
    """Promise S5."""
    publish(served, "a")
    with asking(served) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"/v1/channels/reviews?{after}wait=9")
        until(lambda: served.door.hub.listeners == 1, "the long-poll to wait")
        publish(served, "b")
        page = waiting.result(WAIT_S).json()

    assert [signal["message"] for signal in page["signals"]] == ["b"]
    assert page["head"] == 2


def test_a_long_poll_whose_time_is_up_brings_an_empty_page(served: Served) -> None:
    """Promise S5."""
    publish(served, "a")
    with asking(served) as client:
        page = client.get("/v1/channels/reviews?after=1&wait=0.05").json()

    assert page == {"signals": [], "head": 1, "gap": None}


@pytest.mark.parametrize("wait", ["-1", ""])
def test_a_long_poll_waits_for_a_bounded_time(served: Served, wait: str) -> None:
    """Promise Z3."""
    with asking(served) as client:
        assert client.get(f"/v1/channels/reviews?after=0&wait={wait}").status_code == 400


def test_events_of_a_thread_can_be_waited_for(served: Served) -> None:
    """Promise T8."""
    with asking(served) as client, asking(served) as other, ThreadPoolExecutor(1) as pool:
        thread = a_thread(client)
        path = f"/v1/threads/{thread}/events"
        last = client.get(path).json()["events"][-1]["seq"]
        waiting = pool.submit(client.get, f"{path}?after={last}&wait=9")
        until(lambda: served.door.hub.listeners == 1, "the long-poll to wait")
        one_more_event(other, thread)

        assert [event["seq"] for event in waiting.result(WAIT_S).json()["events"]] == [last + 1]


def test_a_client_and_a_follower_of_one_channel_wait_side_by_side(served: Served) -> None:
    """Promise S5."""
    publish(served, "a")
    with asking(served) as client, asking(served) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.get, "/v1/channels/reviews?after=1&wait=60")
        until(lambda: served.door.hub.listeners == 1, "the long-poll to wait")
        with client.stream("GET", EVENTS) as reply:
            publish(served, "b")

            assert messages(blocks(reply.iter_lines()), 1) == ["b"]
            assert waiting.result(WAIT_S).json()["signals"][0]["message"] == "b"


def test_a_server_that_closes_ends_every_wait_at_once(tmp_path: Path) -> None:
    """Promise S3."""
    with ThreadPoolExecutor(2) as pool:
        with serving(tmp_path / "store") as served:
            began_s = time.monotonic()
            polled = pool.submit(_get, served, "/v1/channels/reviews?after=0&wait=60")
            streamed = pool.submit(_get, served, EVENTS)
            until(lambda: served.door.hub.listeners == 2, "both to wait")
        took_s = time.monotonic() - began_s

        assert json.loads(polled.result())["signals"] == []
        assert streamed.result() == "id: 0\n\n"
    assert took_s < 40


def _get(served: Served, path: str) -> str:
    with Client(base_url=served.url, timeout=60, verify=False) as client:
        try:
            return client.get(path).text
        except RemoteProtocolError as error:
            return f"cut off: {error}"
