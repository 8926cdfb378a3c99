"""Artifacts and headers as resources: listed, read in bounded parts, and subscribed to."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from contextrelay import Relay
from contextrelay.limits import MCP_RESOURCE_BYTES_MAX
from tests.mcp.connecting import Place, connecting, unfenced

MISSING = "00000000-0000-4000-8000-000000000000"
FACT = {"id": "f1", "key": "note", "value": "v2 ships on Friday"}


def test_artifacts_and_headers_are_listed_and_read(place: Place) -> None:
    """Promise M1."""
    with Relay(place.store) as relay:
        thread = relay.new_thread("release")
        thread.patch([{"op": "add", "path": "/facts/-", "value": FACT}])
        ref = relay.push("content", name="a.txt", metadata={"summary": "a thing"}).ref

    async def act(client: Client) -> tuple[Any, Any, list[Any]]:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = [(await client.read_resource(each.uri)).contents[0] for each in listed]
        return listed, templates, read

    listed, templates, (header, content) = place.run(act)

    assert [each.uri for each in listed] == [f"ctx://thread/{thread.id}/header", f"ctx://{ref}"]
    assert (listed[1].name, listed[1].description, listed[1].size) == ("a.txt", "a thing", 7)
    assert [each.uri_template for each in templates] == [
        "ctx://{ref}",
        "ctx://{ref}/bytes/{start}-{stop}",
        "ctx://{ref}/outline",
        "ctx://{ref}/lines/{start}-{stop}",
        "ctx://thread/{thread}/header",
        "ctx://channel/{channel}",
        "ctx://thread/{thread}/state/{version}",
    ]
    for each in templates:
        is_range = "start to stop" in (each.description or "")
        assert is_range == ("{start}" in each.uri_template), each
    assert content.text == "content"
    assert json.loads(header.text)["top_facts"][0]["value"] == "v2 ships on Friday"


def test_what_is_too_large_for_one_read_is_read_in_parts(stdio: Place) -> None:
    """Promise M1."""
    body = bytes(range(256)) * 5_000
    with Relay(stdio.store) as relay:
        ref = relay.push(body).ref

    async def act(client: Client) -> tuple[str, bytes]:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(f"ctx://{ref}")
        parts = b""
        for start in range(0, len(body), MCP_RESOURCE_BYTES_MAX):
            uri = f"ctx://{ref}/bytes/{start}-{start + MCP_RESOURCE_BYTES_MAX}"
            content: Any = (await client.read_resource(uri)).contents[0]
            parts += b64decode(content.blob)
        return refused.value.message, parts

    answer, parts = stdio.run(act)

    assert f"ctx://{ref}/bytes/0-{MCP_RESOURCE_BYTES_MAX}" in answer
    assert parts == body


@pytest.mark.parametrize(
    "uri",
    [f"ctx://{MISSING}", "ctx://", "file:///etc/passwd", f"ctx://{MISSING}/bytes/0-{'9' * 400}"],
)
def test_what_is_no_resource_is_refused_in_words(shared: Place, uri: str) -> None:
    """Promise M1."""

    async def act(client: Client) -> str:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        await client.list_tools()
        return refused.value.message

    assert 0 < len(shared.run(act)) < 1_000


@pytest.mark.parametrize("sign", ["#", "%23"])
def test_a_key_in_a_uri_is_not_repeated_in_an_error(shared: Place, sign: str) -> None:
    """Promise E3: not in errors."""
    key = "wRJtFkjU74qvkZWX8CIQix1yvkj6BAW7RiCHXD00000"

    async def act(client: Client) -> str:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(f"ctx://{MISSING}{sign}k2={key}.{key[:22]}")
        peeked: Any = await client.call_tool(
            "peek_context", {"url": f"{MISSING}{sign}k2={key}.{key[:21]}"}
        )
        return f"{refused.value.message} {refused.value.error} {peeked}"

    assert key[:8] not in shared.run(act)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with connecting(tmp_path_factory.mktemp("shared") / "store", "http", "modern") as made:
        yield made


# Subscriptions


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_stream_is_notified_that_a_header_changed(tmp_path: Path, transport: Any) -> None:
    """Promise M1."""
    with connecting(tmp_path / "store", transport, "modern") as place:
        with Relay(place.store) as relay:
            thread = relay.new_thread("release")
        uri = f"ctx://thread/{thread.id}/header"

        async def act(client: Client) -> list[str]:
            heard: list[str] = []
            async with client.listen(resource_subscriptions=[uri]) as news:
                for _ in range(2):
                    await client.call_tool(
                        "relay_state_add", {"thread": "release", "kind": "fact", "text": "x"}
                    )
                    with anyio.fail_after(20):
                        event = await anext(aiter(news))
                    assert isinstance(event, ResourceUpdated)
                    heard.append(event.uri)
            return heard

        assert place.run(act) == [uri, uri]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("transport", ["process", "http"])
def test_a_connection_that_stays_is_notified_that_a_header_changed(
    tmp_path: Path, transport: Any
) -> None:
    """Promise M1."""
    with connecting(tmp_path / "store", transport, "legacy") as place:
        with Relay(place.store) as relay:
            thread = relay.new_thread("release")
        uri = f"ctx://thread/{thread.id}/header"
        heard: list[str] = []
        notified = anyio.Event()

        async def act(client: Client) -> None:
            await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
            arguments = {"thread": "release", "kind": "fact", "text": "x"}
            await client.call_tool("relay_state_add", arguments)
            with anyio.fail_after(20):
                await notified.wait()
            await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]

        async def hear(message: object) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                heard.append(message.params.uri)
                notified.set()

        place.run(act, message_handler=hear)

        assert heard == [uri]


def test_signals_of_a_channel_are_read_and_listened_to(shared: Place) -> None:
    """Promise M1."""
    uri = "ctx://channel/review%20notes"

    async def act(client: Client) -> tuple[str, Any]:
        async with client.listen(resource_subscriptions=[uri]) as news:
            with Relay(shared.address) as relay:
                await anyio.to_thread.run_sync(lambda: relay.publish("review notes", "ready"))
            with anyio.fail_after(20):
                event = await anext(aiter(news))
        assert isinstance(event, ResourceUpdated)
        return event.uri, (await client.read_resource(uri)).contents[0]

    heard, content = shared.run(act)

    assert heard == uri
    assert json.loads(content.text)["signals"][0]["message"] == "ready"


def test_pieces_and_old_states_are_resources(place: Place) -> None:
    """Promise M1."""
    with Relay(place.store) as relay:
        thread = relay.new_thread("release")
        thread.patch([{"op": "add", "path": "/facts/-", "value": FACT}])
        text = "".join(f"# Part {number}\n\nline\n" for number in range(50))
        ref = relay.push(text, name="parts.md").ref

    async def act(client: Client) -> list[Any]:
        uris = (
            f"ctx://{ref}/outline",
            f"ctx://{ref}/lines/1-2",
            f"ctx://thread/{thread.id}/state/1",
            f"ctx://thread/{thread.id}/state/2",
            f"ctx://{ref}",
        )
        return [await client.read_resource(uri) for uri in uris]

    read = place.run(act)

    outline, lines, old, new, _ = (each.contents[0].text for each in read)
    assert "Part 49" in outline
    assert unfenced(lines) == "# Part 0"
    assert json.loads(old)["facts"] == []
    assert json.loads(new)["facts"][0]["value"] == FACT["value"]
    if place.era == "modern":
        # What cannot change may be kept, by whom it was given to.
        assert [each.ttl_ms > 0 for each in read] == [False, False, True, True, True]
        assert {each.cache_scope for each in read} == {"private"}
