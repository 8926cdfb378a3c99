"""Asking agents that offer nothing but gRPC: ours behind a card of its own, and hostile ones."""

# The SDK's functions are typed by what protobuf makes at run time.
# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from socket import socket
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from msgspec.json import encode

from contextrelay import Relay
from contextrelay.a2a.grpc_calls import target_of
from contextrelay.client.transport.address import server_at
from contextrelay.errors import Forbidden, RelayError, TooLarge, Unavailable
from contextrelay.limits import A2A_REPLY_BYTES_MAX
from contextrelay.model.settings import Settings
from tests.core import served as raw_server
from tests.server.serving import serving_apart
from tests.store.engines import free_port, until

CARD = "/.well-known/agent-card.json"


@pytest.fixture
def relay() -> Generator[Relay]:
    with Relay("memory:") as relay:
        yield relay


@contextmanager
def card_for(address: str, tenant: str = "") -> Generator[str]:
    """The URL of a card that names an address of gRPC alone."""
    interface = {"url": address, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    card = {
        "name": "x",
        "supportedInterfaces": [{**interface, "tenant": tenant}],
        "capabilities": {"streaming": True},
    }
    with raw_server.serving() as served:
        served.says(CARD, encode(card))
        yield served.url("")


@contextmanager
def answering(**methods: Callable[[Any, Any], Any]) -> Generator[str]:
    """The card of a gRPC server whose methods a test wrote."""
    server = grpc.server(ThreadPoolExecutor(4))
    servicer = type("Servicer", (a2a_pb2_grpc.A2AServiceServicer,), {})()
    for name, method in methods.items():
        setattr(servicer, name, method)
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with card_for(f"127.0.0.1:{port}") as url:
            yield url
    finally:
        server.stop(None).wait(10)


def is_open(port: int) -> bool:
    with socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_an_agent_that_offers_grpc_alone_is_asked(tmp_path: Path, relay: Relay) -> None:
    """Promise M2."""
    port = free_port()
    named = ("echo", "counts", "fails", "asks_back", "hashes")
    agents = tuple(f"{name}=py:tests.a2a.agents:{name}" for name in named)
    allowed = Settings(fetch_private=True)
    with serving_apart(tmp_path / "store", settings=allowed, a2a=agents, grpc_port=port):
        until(lambda: is_open(port), "the port for gRPC")
        address, body = f"127.0.0.1:{port}", b"\x00binary\xff" * 2_000
        thread = relay.new_thread("asking")
        ref = relay.push(body, name="x.bin").ref
        with card_for(address, "counts") as url:
            whole = thread.send_to(url, "go")
            heard: list[str] = []
            streamed = thread.send_to(url, "go", on_words=heard.append)
        with card_for(address, "asks_back") as url:
            first = thread.send_to(url, "which?")
            second = thread.send_to(url, "this one", on_words=lambda words: None)
        with card_for(address, "hashes") as url:
            hashed = thread.send_to(url, "", refs=[ref])
        with card_for(address, "fails") as url:
            failed = thread.send_to(url, "go")
        with card_for(f"grpc://{address}", "nobody") as url, pytest.raises(RelayError) as raised:
            thread.send_to(url, "go")

    assert (whole.text, whole.state) == ("one two three", "completed")
    assert ("".join(heard), streamed.text) == ("one two three", "one two three")
    assert (first.state, second.task, second.text) == ("input-required", first.task, "so: this one")
    assert sha256(body).hexdigest() in hashed.text
    assert failed.state == "failed"
    assert "nobody" in raised.value.message
    assert hashed.sent_bytes > 18_000


def test_hostile_answers_by_grpc_are_refused(relay: Relay) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    large = a2a_pb2.Message(parts=[a2a_pb2.Part(text="x" * (A2A_REPLY_BYTES_MAX + 1))])

    def endless(request: Any, context: Any) -> Iterator[Any]:
        update = a2a_pb2.TaskArtifactUpdateEvent(task_id="t")
        while context.is_active():
            yield a2a_pb2.StreamResponse(artifact_update=update)

    def bomb(request: Any, context: Any) -> Any:
        context.set_compression(grpc.Compression.Gzip)
        return a2a_pb2.SendMessageResponse(message=large)

    def refuses(request: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "\x1b[31m" + "no " * 2_000)

    with answering(SendStreamingMessage=endless) as url, pytest.raises(TooLarge):
        thread.send_to(url, "hi", on_words=lambda words: None)
    with (
        answering(SendMessage=lambda *_: a2a_pb2.SendMessageResponse(message=large)) as url,
        pytest.raises(RelayError),
    ):
        thread.send_to(url, "hi")
    with answering(SendMessage=bomb) as url, pytest.raises(RelayError):
        thread.send_to(url, "hi")
    with answering(SendMessage=refuses) as url, pytest.raises(Forbidden) as raised:
        thread.send_to(url, "hi")
    with card_for(f"127.0.0.1:{free_port()}") as url, pytest.raises(Unavailable):
        thread.send_to(url, "hi")

    assert len(raised.value.message) < 600


@pytest.mark.parametrize(
    ("address", "card", "url"),
    [
        ("127.0.0.1:50051", "http://127.0.0.1", "http://127.0.0.1:50051"),
        ("agent.example:50051", "https://agent.example", "https://agent.example:50051"),
        ("agent.example", "https://agent.example", "https://agent.example:443"),
        ("grpc://[::1]:7", "http://[::1]", "http://[::1]:7"),
        ("grpcs://agent.example/x", "http://agent.example", "https://agent.example:443"),
        ("unix:///tmp/socket", "http://agent.example", None),
        ("file:///etc/passwd", "http://agent.example", None),
        ("http://a@agent.example", "http://agent.example", None),
        ("agent.example:port", "http://agent.example", None),
        ("", "http://agent.example", None),
    ],
)
def test_where_an_address_of_grpc_leads(address: str, card: str, url: str | None) -> None:
    """Promise M2."""
    target = target_of(address, server_at(card, ""))

    assert (None if target is None else target.url) == url


def test_a_token_goes_by_grpc_to_the_host_of_the_card_alone(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise M2."""
    monkeypatch.setenv("RELAY_A2A_TOKEN", "secret")
    seen: list[dict[str, Any]] = []

    def hears(request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()))
        return a2a_pb2.SendMessageResponse(message=a2a_pb2.Message(message_id="m"))

    thread = relay.new_thread("asking")
    with answering(SendMessage=hears) as url:
        thread.send_to(url, "hi")
        thread.send_to(url.replace("127.0.0.1", "localhost"), "hi")

    assert [each.get("authorization") for each in seen] == ["Bearer secret", None]
    assert [each["a2a-version"] for each in seen] == ["1.0", "1.0"]
