"""What a request says of its sender: a name that is kept, and a person who costs nothing extra."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay.limits import SWEEP_EVERY_S
from contextrelay.server.routes.v1 import ASKED_AT_ONCE_BYTES_MAX
from tests.core.clock import Clock
from tests.server.serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with serving(tmp_path / "store") as running:
        yield running


@pytest.fixture
def client(served: Served) -> Generator[httpx2.Client]:
    with httpx2.Client(base_url=served.url) as web:
        yield web


@pytest.mark.parametrize("size", [10, ASKED_AT_ONCE_BYTES_MAX + 1, 4 * ASKED_AT_ONCE_BYTES_MAX])
def test_the_name_of_the_sender_is_kept_however_long_the_request_is(
    client: httpx2.Client, size: int
) -> None:
    headers = {"x-relay-from": "ann"}
    thread = client.post("/v1/threads", json={"name": "work"}, headers=headers).json()["thread_id"]
    fact = {"op": "add", "path": "/facts/-", "value": {"id": "f1", "key": "k", "value": 1}}

    patch = encode({"operations": [fact]}) + b" " * size
    client.patch(f"/v1/threads/{thread}/state", content=patch, headers=headers).raise_for_status()

    events = client.get(f"/v1/threads/{thread}/events").json()["events"]
    assert {each["event"]["by"] for each in events} == {"ann"}


def test_pushes_of_a_person_sweep_no_more_often_than_others(
    served: Served, client: httpx2.Client
) -> None:
    clock, local = Clock(), served.door.relay
    local.stores = replace(local.stores, now_ms=clock)

    def push(ttl: int) -> None:
        headers = {"x-relay-reader": "person"}
        client.post("/push", json={"data": "x", "ttl": ttl}, headers=headers).raise_for_status()

    def due() -> int:
        reply = client.get("/v1/survey")
        return reply.raise_for_status().json()["due"]

    push(1)
    clock.pass_ms(2_000)
    push(3_600)
    push(3_600)
    assert due() == 1
    clock.pass_ms(SWEEP_EVERY_S * 1000)
    push(3_600)
    assert due() == 0
