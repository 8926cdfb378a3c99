"""What `help` and `inspect.signature` show of the clients, and what may be pushed."""

from __future__ import annotations

import inspect
import io
import pydoc
from pathlib import Path

import pytest

from contextrelay import AsyncRelay, Relay
from contextrelay.client.thread import AsyncThread, Thread


def test_a_signature_names_every_argument_its_type_and_its_default() -> None:
    with Relay("memory:") as relay:
        push, find, wait = map(inspect.signature, (relay.push, relay.find, relay.wait))

    assert next(iter(push.parameters)) == "body"
    assert push.parameters["name"].default is None
    assert push.parameters["created_by"].annotation is str
    assert push.return_annotation.__name__ == "Pushed"
    assert str(inspect.signature(Relay.pull)).startswith("(self, /, ref: str, start: int = 0")
    assert list(find.parameters) == ["prefix"]
    assert list(wait.parameters) == ["channel", "after", "timeout_s"]


def test_an_awaited_method_says_so_and_a_handle_leaves_its_thread_out() -> None:
    assert "Awaitable" in str(inspect.signature(AsyncRelay.push).return_annotation)
    assert "AsyncIterator" in str(inspect.signature(AsyncThread.tail).return_annotation)
    assert "thread" not in inspect.signature(Thread.put).parameters
    assert list(inspect.signature(Thread.state).parameters) == ["self", "version"]


def test_every_method_of_the_clients_has_a_signature_and_says_what_it_does() -> None:
    for kind in (Relay, AsyncRelay, Thread, AsyncThread):
        for name, method in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_") and name not in ("ask", "over"):
                inspect.signature(method)
                assert inspect.getdoc(method), f"{kind.__name__}.{name}"


def test_help_shows_the_signature_and_the_docstring() -> None:
    with Relay("memory:") as relay:
        text = pydoc.plain(pydoc.render_doc(relay.push))

    assert "push(body:" in text
    assert "ttl_s" in text
    assert "Store a body once" in text


def test_a_dict_or_a_list_is_stored_as_json(relay: Relay) -> None:
    fields = relay.push({"name": "Ada", "ids": [1, 2]})
    items = relay.push([{"a": 1}, None, "ü"])

    assert relay.pull(fields.ref) == b'{"name":"Ada","ids":[1,2]}'
    assert relay.pull(items.ref).decode() == '[{"a":1},null,"ü"]'
    assert (fields.type, items.media_type) == ("json", "application/json")
    assert relay.pull(relay.push([]).ref) == b"[]"


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
    [None, 7, 1.5, {1, 2}, range(3), Path("notes.md"), (7,), [b"a", "b"], {"a": {1}}],
    ids=repr,
)
def test_anything_else_is_a_type_error_that_names_what_may_be_pushed(
    relay: Relay, content: object
) -> None:
    with pytest.raises(TypeError, match=r"push text, bytes, a dict or list"):
        relay.push(content)  # pyright: ignore[reportArgumentType]


def test_chunks_of_text_are_a_type_error(relay: Relay) -> None:
    with pytest.raises(TypeError, match="a chunk is a str, not bytes"):
        relay.push(iter(["one", "two"]))  # pyright: ignore[reportArgumentType]


def test_what_a_wait_brings_can_be_iterated(relay: Relay) -> None:
    relay.publish("build", "done")

    messages = [signal.message for signal in relay.wait("build", after=0, timeout_s=5)]

    assert messages == ["done"]
    assert list(relay.wait("other", after=0, timeout_s=0.01)) == []


def test_what_added_an_entry_is_not_its_id(relay: Relay) -> None:
    thread = relay.thread("work")
    added = thread.add_question("why?")

    with pytest.raises(TypeError, match="takes the id of an entry"):
        thread.resolve(added)  # pyright: ignore[reportArgumentType]
    assert thread.resolve(added.id).version == 3
    assert added.updated_at is not None
