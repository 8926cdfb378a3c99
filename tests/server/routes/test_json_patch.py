"""A patch as the media type of RFC 6902 has it: a bare list of operations."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from tests.server.serving import serving

JSON_PATCH = {"content-type": "application/json-patch+json"}
FACT = '{"op": "add", "path": "/facts/-", "value": {"id": "f1", "key": "k", "value": 1.0}}'


@pytest.fixture
def client(tmp_path: Path) -> Generator[httpx2.Client]:
    with (
        serving(tmp_path / "store") as served,
        httpx2.Client(base_url=served.url) as web,
    ):
        yield web


def test_a_bare_list_of_operations_patches_a_state(client: httpx2.Client) -> None:
    """Promise T3. Promise M3."""
    thread = client.post("/v1/threads", json={"name": "work"}).json()["thread_id"]
    path = f"/v1/threads/{thread}/state"

    reply = client.patch(path, content=f"[{FACT}]", headers=JSON_PATCH)

    assert (reply.status_code, reply.json()["version"]) == (200, 2)
    assert client.get(path).json()["state"]["facts"][0]["key"] == "k"


@pytest.mark.parametrize("body", ["", "[", '"[]"'])
def test_what_is_no_list_is_refused_with_the_next_step(client: httpx2.Client, body: str) -> None:
    """Promise M3."""
    thread = client.post("/v1/threads", json={"name": "work"}).json()["thread_id"]
    path = f"/v1/threads/{thread}/state"

    content = body.encode(errors="surrogateescape")
    reply = client.patch(path, content=content, headers=JSON_PATCH)

    assert reply.status_code == 400
    assert "send a list of operations" in reply.json()["hint"]
