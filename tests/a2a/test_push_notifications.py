"""Push notifications: kept, sent, signed, tried again; and never to where they may not go."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode

from contextrelay import Relay
from contextrelay.model.settings import Settings
from tests.a2a import agents as own
from tests.a2a.asking import HEADERS, Document, agents_served, message
from tests.core import served as hook_server
from tests.server.serving import Served
from tests.store.engines import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def answering(*first: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """Answer the first notifications as said, and take the others."""
    replies = list(first)

    def reply(sock: socket.socket, over: threading.Event) -> None:
        sock.sendall(replies.pop(0) if replies else OK)

    return reply


def send(web: httpx2.Client, agent: str, hook: Document, **fields: Any) -> Document:
    configuration = {"taskPushNotificationConfig": hook, **fields}
    answer = web.post(f"/a2a/{agent}/message:send", json=message("go", configuration=configuration))
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def notices(hook: hook_server.Served) -> list[tuple[dict[str, str], Document]]:
    """The notifications: their headers and what they say."""
    found: list[tuple[dict[str, str], Document]] = []
    for request in hook.requests:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")[1:]
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        found.append((headers, decode(body)))
    return found


def test_updates_are_sent_with_what_the_client_asked_for_and_signed(web: httpx2.Client) -> None:
    """Promise M2."""
    with hook_server.serving() as hook:
        hook.says("/hook")
        asked = {
            "url": hook.url("/hook"),
            "token": "our secret",
            "authentication": {"scheme": "Bearer", "credentials": "abc"},
        }
        task = send(web, "echo", asked)
        until(lambda: any("statusUpdate" in said for _, said in notices(hook)), "the last notice")
        raw = next(each for each in hook.requests if b"statusUpdate" in each)

    headers, said = next(each for each in notices(hook) if "statusUpdate" in each[1])
    assert said["statusUpdate"]["taskId"] == task["id"]
    assert headers["authorization"] == "Bearer abc"
    assert headers["x-a2a-notification-token"] == "our secret"
    time, _, signed = headers["x-relay-signature"].partition(",")
    body = raw.partition(b"\r\n\r\n")[2]
    text = time.removeprefix("t=").encode() + b"." + body
    assert signed == "v1=" + hmac.new(b"our secret", text, "sha256").hexdigest()


def test_a_hook_that_fails_is_tried_again(web: httpx2.Client) -> None:
    """Promise M2."""
    with hook_server.serving() as hook:
        busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        hook.replies["/hook"] = answering(busy)
        send(web, "echo", {"url": hook.url("/hook")})
        until(lambda: any("statusUpdate" in said for _, said in notices(hook)), "the last notice")

    assert len(hook.requests) >= 3


def test_hooks_are_listed_read_and_forgotten_and_no_other_door_shows_them(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    own.GOES_ON.clear()
    task = web.post(
        "/a2a/waits/message:send", json=message("go", configuration={"returnImmediately": True})
    ).json()["task"]["id"]
    place = f"/a2a/waits/tasks/{task}/pushNotificationConfigs"
    made = web.post(place, json={"url": "https://example.org/h", "token": "t0ps3cret"}).json()

    assert web.get(f"{place}/{made['id']}").json() == made
    assert web.get(place).json()["configs"] == [made]
    with Relay(agents.url) as relay:
        said = repr(relay.thread(task).events(limit=500)) + repr(relay.thread(task).state())
    assert "t0ps3cret" not in said
    assert web.delete(f"{place}/{made['id']}").json() == {}
    assert web.delete(f"{place}/{made['id']}").json() == {}
    assert web.get(f"{place}/{made['id']}").status_code == 404
    own.GOES_ON.set()


def test_a_key_that_may_only_read_neither_makes_nor_sees_nor_forgets_a_hook(
    agents: Served, web: httpx2.Client
) -> None:
    """Promise M2."""
    own.GOES_ON.clear()
    with Relay(agents.url) as owner:
        token = owner.new_key(name="reader", scope="read").token
    task = web.post(
        "/a2a/waits/message:send", json=message("go", configuration={"returnImmediately": True})
    ).json()["task"]["id"]
    place = f"/a2a/waits/tasks/{task}/pushNotificationConfigs"
    made = web.post(place, json={"url": "https://example.org/h", "token": "t0ps3cret"}).json()
    reader = {"Authorization": f"Bearer {token}"}

    assert web.get(f"/a2a/waits/tasks/{task}", headers=reader).status_code == 200
    refused = [
        web.post(place, json={"url": "https://example.org/mine"}, headers=reader),
        web.get(place, headers=reader),
        web.get(f"{place}/{made['id']}", headers=reader),
        web.delete(f"{place}/{made['id']}", headers=reader),
    ]
    assert [each.status_code for each in refused] == [403] * 4
    assert "t0ps3cret" not in "".join(each.text for each in refused)
    assert web.get(place).json()["configs"] == [made]
    own.GOES_ON.set()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "http://169.254.169.254/latest/",
        "http://user:pass@example.org/",
        "http:// example.org/",
        "gopher://x/",
        "",
    ],
)
def test_a_hook_is_refused_where_its_url_is_none_or_never_reached(
    web: httpx2.Client, url: str
) -> None:
    """Promise M2."""
    asked = message("go", configuration={"taskPushNotificationConfig": {"url": url}})

    assert web.post("/a2a/echo/message:send", json=asked).status_code == 400


def test_a_private_hook_is_not_called_unless_the_owner_allows_it(tmp_path: Path) -> None:
    """Promise M2."""
    with (
        hook_server.serving() as hook,
        agents_served(tmp_path / "store", settings=Settings()) as served,
        httpx2.Client(base_url=served.url, headers=HEADERS) as web,
    ):
        send(web, "echo", {"url": hook.url("/hook")})
        send(web, "echo", {"url": f"http://localhost:{hook.port}/hook"})

    assert hook.requests == []


def test_a_hook_that_leads_elsewhere_is_not_followed(web: httpx2.Client) -> None:
    """Promise M2."""
    with hook_server.serving() as inward, hook_server.serving() as hook:
        inward.says("/secret")
        hook.says(
            "/hook", status="307 Over there", headers=f"Location: {inward.url('/secret')}\r\n"
        )
        send(web, "echo", {"url": hook.url("/hook")})
        until(lambda: any(b"statusUpdate" in each for each in hook.requests), "the last notice")

    assert inward.requests == []
