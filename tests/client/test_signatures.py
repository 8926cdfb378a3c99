"""What `help` and `inspect.signature` show of the clients, and what may be pushed."""

from __future__ import annotations

import inspect
import io
from pathlib import Path

import pytest

from contextrelay import AsyncRelay, Relay
from contextrelay.client.thread import AsyncThread, Thread


def test_every_method_of_the_clients_has_a_signature_and_says_what_it_does() -> None:
    for kind in (Relay, AsyncRelay, Thread, AsyncThread):
        for name, method in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_") and name not in ("ask", "over"):
                inspect.signature(method)
                assert inspect.getdoc(method), f"{kind.__name__}.{name}"


def test_an_open_file_is_stored_as_its_bytes_or_its_text(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("größer\n" * 30_000, encoding="utf-8")

    with path.open(encoding="utf-8") as text, path.open("rb") as raw:
        refs = [relay.push(text).ref, relay.push(raw).ref, relay.push(io.StringIO("ü")).ref]

    bodies = [relay.pull(ref) for ref in refs]
    assert bodies == [path.read_bytes(), path.read_bytes(), "ü".encode()]


def test_chunks_of_bytes_are_one_body(relay: Relay) -> None:
    assert relay.pull(relay.push([b"one ", b"body"]).ref) == b"one body"
    assert relay.pull(relay.push(iter([b"one ", b"body"])).ref) == b"one body"


@pytest.mark.parametrize(
    "content",
    [None, range(3), {"a": {1}}],
    ids=repr,
)
def test_anything_else_is_a_type_error_that_names_what_may_be_pushed(
    relay: Relay, content: object
) -> None:
    with pytest.raises(TypeError, match=r"push text, bytes, a dict or list"):
        relay.push(content)  # pyright: ignore[reportArgumentType]


def test_chunks_of_text_are_a_type_error(relay: Relay) -> None:
    with pytest.raises(TypeError, match="expected bytes, got str"):
        relay.push(iter(["one", "two"]))  # pyright: ignore[reportArgumentType]


def test_what_a_wait_brings_can_be_iterated(relay: Relay) -> None:
    relay.publish("build", "done")

    messages = [signal.message for signal in relay.wait("build", after=0, timeout_s=5)]

    assert messages == ["done"]
    assert list(relay.wait("other", after=0, timeout_s=0.01)) == []
