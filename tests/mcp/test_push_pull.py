"""Push, peek and pull by models, under the names of seed 000."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ResourceLink, TextContent, TextResourceContents

from contextrelay import Relay
from contextrelay.client.bridge.bridge import AgentBridge
from contextrelay.client.contextrelay import ContextRelay
from contextrelay.content.tokens import count_tokens
from contextrelay.mcp.tools.push_pull import MCP_PREVIEW_CHARS
from tests.mcp.connecting import (
    LEGS,
    Era,
    Place,
    Transport,
    bad,
    connecting,
    good,
    unfenced,
)

# The only test on every way to connect with real processes: a start takes seconds.
PROCESSES: list[tuple[Transport, Era]] = [
    ("process", "legacy"),
    ("process", "modern"),
    ("process-url", "modern"),
]


@pytest.mark.parametrize(("transport", "era"), [*LEGS, *PROCESSES])
def test_what_is_pushed_is_peeked_at_and_pulled(
    transport: Transport, era: Era, tmp_path: Path
) -> None:
    """Promise M1."""
    text = 'héllo wörld ✓ 日本語 🙂\n\t"quoted" \\ \u2028'

    async def act(client: Client) -> tuple[Any, str, str]:
        pushed = await client.call_tool("push_context", {"data": text, "summary": "a greeting"})
        url = {"url": good(pushed)}
        peeked = await client.call_tool("peek_context", url)
        return pushed, good(peeked), good(await client.call_tool("pull_context", url))

    with connecting(tmp_path / "store", transport, era) as place:
        pushed, peeked, pulled = place.run(act)

    if transport == "http":
        # Nobody knows there which requests are of one client, so all that is read is foreign.
        assert unfenced(pulled) == text.replace("\u2028", "<U+2028>")
    else:
        assert pulled == text
    about = json.loads(peeked)
    assert about["summary"] == "a greeting"
    assert about["size"] == len(text.encode())
    assert about["created_by"] == "mcp"
    assert "preview" not in about
    assert pushed.structured_content["url"] == good(pushed)


def test_a_long_text_comes_as_a_preview_and_a_link_to_it(place: Place) -> None:
    """Promise M1."""
    text = "".join(f"line {index}\n" for index in range(20_000))
    with Relay(place.store) as relay:
        ref = relay.push(text, name="log.txt", metadata={"summary": "a log"}).ref

    async def act(client: Client) -> tuple[Any, Any]:
        pulled = await client.call_tool("pull_context", {"url": ref})
        link = pulled.content[1]
        assert isinstance(link, ResourceLink)
        return pulled, (await client.read_resource(link.uri)).contents[0]

    pulled, content = place.run(act)

    shown, link = pulled.content
    assert isinstance(shown, TextContent)
    assert len(shown.text) < 4_000
    assert "line 0\n" in shown.text
    assert "BEGIN UNTRUSTED DATA" in shown.text
    assert "relay_get" in shown.text
    # What some clients show in place of the text must not stand in its way.
    assert pulled.structured_content is None
    assert (link.uri, link.name, link.size) == (f"ctx://{ref}", "log.txt", len(text))
    assert link.description == "a log"
    assert isinstance(content, TextResourceContents)
    assert content.text == text


def test_what_is_counted_as_read_is_what_the_model_saw(place: Place) -> None:
    """Promise L5."""
    text = "one line of a log\n" * 100
    with Relay(place.store) as relay:
        short = relay.push(text, metadata={"summary": "a log"})
        long = relay.push("one line of a log\n" * 5_000)

    async def act(client: Client) -> None:
        good(await client.call_tool("pull_context", {"url": short.ref}))
        good(await client.call_tool("peek_context", {"url": short.ref}))
        good(await client.call_tool("pull_context", {"url": long.ref}))
        good(await client.call_tool("peek_context", {"url": long.ref}))

    place.run(act)

    with Relay(place.store) as relay:
        # A server writes its counts once a second.
        deadline_s = time.monotonic() + 20
        while (saved := relay.savings()).answers < 2 and time.monotonic() < deadline_s:
            time.sleep(0.1)
    # The short one was pulled whole, and its summary read; of the long one two previews.
    assert (saved.pulls, saved.answers) == (1, 2)
    assert saved.pulled_back.tokens == pytest.approx(count_tokens(text), rel=0.4)
    previews = long.preview.text + long.preview.text[:MCP_PREVIEW_CHARS]
    assert saved.sent.tokens == pytest.approx(count_tokens(previews), rel=0.4)


def test_a_sealed_text_is_opened_by_its_url_alone(place: Place) -> None:
    """Promise M1. Promise E1."""
    secret = "the launch code is 0000"

    async def act(client: Client) -> list[Any]:
        pushed = await client.call_tool("push_context", {"data": secret, "encrypted": True})
        url = good(pushed)
        keys = (url, url[:-4] + "AAA=", url.partition("#")[0])
        pulled = [await client.call_tool("pull_context", {"url": each}) for each in keys]
        return [url, *pulled, await client.call_tool("peek_context", {"url": url})]

    url, opened, wrong, keyless, peeked = place.run(act)

    _, _, key = url.partition("#key=")
    assert (unfenced(good(opened)) if place.transport == "http" else good(opened)) == secret
    assert bad(wrong).startswith("Error pulling context: Failed to decrypt: Invalid or missing key")
    assert json.loads(good(peeked))["encrypted"] is True
    assert "preview" not in json.loads(good(peeked))
    assert "is sealed and no key was given" in bad(keyless)
    for path in place.store.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
            assert key.encode() not in path.read_bytes()


def test_a_long_sealed_text_is_cut_and_read_on_in_parts(stdio: Place) -> None:
    """Promise M1."""
    secret = "".join(f"secret {index}\n" for index in range(10_000))
    url = good(stdio.call("push_context", data=secret, encrypted=True))

    shown = good(stdio.call("pull_context", url=url))

    assert len(shown) < 4_000
    assert unfenced(shown).startswith("secret 0\n")
    assert f"{len(secret):,} bytes" in shown
    assert unfenced(good(stdio.call("relay_get", url=url, bytes="9:18"))) == "secret 1"


def test_a_binary_body_comes_as_a_link_to_its_bytes(stdio: Place) -> None:
    """Promise M1."""
    with Relay(stdio.store) as relay:
        ref = relay.push(bytes(range(256)), media_type="application/octet-stream").ref

    async def act(client: Client) -> tuple[Any, Any]:
        pulled = await client.call_tool("pull_context", {"url": ref})
        return pulled, (await client.read_resource(f"ctx://{ref}")).contents[0]

    pulled, content = stdio.run(act)

    assert pulled.content[1].uri == f"ctx://{ref}"
    assert content.blob.startswith("AAECAwQF")


def test_a_task_goes_over_a_bridge_and_its_answer_comes_back(place: Place) -> None:
    """Promise M1."""
    hub = ContextRelay(place.address)
    bridge = AgentBridge(hub, dispatcher=lambda task: f"done: {task}")
    is_open = threading.Event()
    working = threading.Thread(target=bridge.start, kwargs={"on_open": is_open.set}, daemon=True)
    with hub:
        working.start()
        assert is_open.wait(20)
        answer = good(place.call("bridge_task", task="write the tests", timeout=30))
    working.join(20)

    assert unfenced(answer) == "done: write the tests"
    assert not working.is_alive()


def test_a_task_that_nobody_takes_is_given_up_and_says_where_it_is(stdio: Place) -> None:
    """Promise M1."""
    answer = bad(stdio.call("bridge_task", task="alone", timeout=1))

    assert answer.startswith("Error bridging task: no answer within 1 s. Next: ")
    assert "relay:///pull/" in answer


def test_a_push_may_name_and_type_its_content_and_is_listed(place: Place) -> None:
    """Promise M1."""
    good(place.call("push_context", data="other", summary="not this one"))
    good(place.call("push_context", data="a,b", name="orders.csv", type="csv", summary="orders"))

    page = json.loads(good(place.call("relay_artifact_list", name="orders", limit=5)))

    (found,) = page["artifacts"]
    assert (found["name"], found["type"], found["summary"]) == ("orders.csv", "csv", "orders")
    assert "written by others" in page["untrusted"]
    assert json.loads(good(place.call("relay_artifact_list", type="pdf")))["artifacts"] == []
