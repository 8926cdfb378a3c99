"""Pushes over many connections at once: each is stored, and answered with its own ref."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from tests.server.serving import serving

CONNECTIONS = 12


@pytest.mark.parametrize("size", [500, 40_000, 250_000])
def test_bodies_that_come_side_by_side_come_back_as_they_were(tmp_path: Path, size: int) -> None:
    """Promise R1."""
    bodies = [os.urandom(size) for _ in range(5 * CONNECTIONS)]

    with (
        serving(tmp_path) as served,
        httpx2.Client(base_url=served.url) as web,
        ThreadPoolExecutor(CONNECTIONS) as clients,
    ):

        def push(body: bytes) -> str:
            return web.post("/push", content=body).json()["id"]

        def pull(ref: str) -> bytes:
            return web.get(f"/pull/{ref}?raw=1").content

        refs = list(clients.map(push, bodies))
        pulled = list(clients.map(pull, refs))

    assert pulled == bodies
    assert len(set(refs)) == len(bodies)
    with Relay(tmp_path) as relay:
        assert relay.verify().problem_count == 0


def test_a_wrong_one_among_many_is_refused_alone(tmp_path: Path) -> None:
    """Promise R1."""
    wrong = {"content-type": "application/json"}
    with (
        serving(tmp_path) as served,
        httpx2.Client(base_url=served.url) as web,
        ThreadPoolExecutor(CONNECTIONS) as clients,
    ):

        def push(number: int) -> int:
            if number % 10 == 0:
                body = b'{"data":"%s","channel":"a\\u0007"}' % (b"x" * 40_000)
                return web.post("/push", content=body, headers=wrong).status_code
            return web.post("/push", content=os.urandom(40_000)).status_code

        statuses = list(clients.map(push, range(5 * CONNECTIONS)))

    assert statuses == [400 if number % 10 == 0 else 200 for number in range(5 * CONNECTIONS)]
