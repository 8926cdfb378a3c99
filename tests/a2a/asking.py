"""Asking in tests: A2A as bare requests, and the server that is asked."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec.json import decode

from contextrelay.a2a.schema import REFS_EXTENSION
from contextrelay.model.settings import Settings
from tests.server.serving import Served, serving

HEADERS = {"A2A-Version": "1.0"}
WITH_REFS = {**HEADERS, "A2A-Extensions": REFS_EXTENSION}
NAMES = ("echo", "counts", "awaited", "fails", "long", "waits", "asks_back", "hashes")
Document = dict[str, Any]


@contextmanager
def agents_served(store: Path, *agents: str, **options: Any) -> Generator[Served]:
    """A server with the agents of agents.py, and others; it may call this machine."""
    own = tuple(f"{name}=py:tests.a2a.agents:{name}" for name in NAMES)
    settings = options.pop("settings", Settings(fetch_private=True))
    with serving(store, settings=settings, a2a=(*own, *agents), **options) as served:
        yield served


def message(text: str, **fields: Any) -> Document:
    """The parameters of a message of some words."""
    parts = fields.pop("parts", [{"text": text}])
    configuration = fields.pop("configuration", {})
    said = {"messageId": "m1", "role": "ROLE_USER", "parts": parts, **fields}
    return {"message": said, "configuration": configuration}


def events(response: httpx2.Response) -> Iterator[Document]:
    """The documents of an event stream, as they come."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield decode(line.removeprefix("data: "))


def words(task: Document) -> str:
    """All text in the artifacts of a task."""
    parts = [part for each in task.get("artifacts", []) for part in each["parts"]]
    return "".join(part.get("text", "") for part in parts)
