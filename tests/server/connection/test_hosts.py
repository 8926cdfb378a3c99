"""Which Host and Origin a request may name: a forwarded port, a page of another server, a proxy."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from contextrelay import Forbidden
from contextrelay.server.hosts import Misdirected, guard
from tests.server.serving import Served, serving

PUBLIC = "https://relay.example.com"


def status(served: Served, **headers: str) -> int:
    """Of a push with these headers."""
    return httpx2.post(f"{served.url}/push", json={"data": "x"}, headers=headers).status_code


@pytest.mark.parametrize(
    "host",
    ["localhost:1", "LOCALHOST:65535", "localhost", "127.0.0.1", "127.0.0.1:9000", "[::1]:9"],
)
def test_a_loopback_name_with_any_port_is_this_server(served: Served, host: str) -> None:
    """Promise Z2: ssh -L, docker -p and proxies forward another port of this machine."""
    reply = httpx2.post(f"{served.url}/push", json={"data": "x"}, headers={"host": host})

    assert reply.status_code == 200
    assert reply.json()["url"].startswith(f"http://{host.lower()}/pull/")
    # Also where a pull is answered without a task of its own.
    ref = reply.json()["id"]
    assert httpx2.get(f"{served.url}/pull/{ref}", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:evil.example",
        "evil.example:8787",
        "localhost:",
        "localhost:123456",
        "localhost:8787:8787",
        "localhost.",
        "0.0.0.0:8787",
        "",
    ],
)
def test_a_name_that_a_rebound_page_could_have_is_refused(served: Served, host: str) -> None:
    """Promise Z2."""
    ref = httpx2.post(f"{served.url}/push", json={"data": "x"}).json()["id"]

    assert status(served, host=host) == 421
    assert httpx2.get(f"{served.url}/pull/{ref}", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("address", ["10.1.2.3", "fd00::7"])
def test_the_address_that_a_probe_called_is_this_server(address: str) -> None:
    """Promise Z2. Kubernetes and Prometheus call a server by the number of its machine."""
    names = guard("0.0.0.0", 8787, PUBLIC)
    host = f"[{address}]:8787" if ":" in address else f"{address}:8787"

    assert names.origin([(b"host", host.encode())], "http", (address, 8787)) == PUBLIC
    for came_to in ((address, 8788), ("10.9.9.9", 8787), ("/run/relay.sock", None), None):
        with pytest.raises(Misdirected):
            names.origin([(b"host", host.encode())], "http", came_to)
    evil = [(b"host", host.encode()), (b"origin", b"http://evil.example")]
    with pytest.raises(Forbidden):
        names.origin(evil, "http", (address, 8787))


def test_an_origin_has_to_be_that_of_the_request_itself(served: Served) -> None:
    """Promise Z2: a page on localhost:3000 may not call a relay without a token."""
    here = f"localhost:{served.port}"

    assert status(served, host=here, origin=f"http://{here}") == 200
    assert status(served, host="localhost:9000", origin="http://localhost:9000") == 200
    for origin in (
        "http://localhost:3000",
        "http://localhost",
        f"https://{here}",
        f"http://127.0.0.1:{served.port}",
        "null",
        "",
    ):
        assert status(served, host=here, origin=origin) == 403, origin
    assert status(served, host="localhost:9000", origin=f"http://{here}") == 403


def test_a_server_behind_a_proxy_is_asked_by_its_public_pages(tmp_path: Path) -> None:
    """Promise Z2: the proxy speaks TLS, and may name the server as it reaches it."""
    with serving(tmp_path / "store", public_url=PUBLIC, allowed_hosts=("other.example",)) as served:
        found = [
            status(served, host=host, origin=origin)
            for host, origin in [
                ("relay.example.com", PUBLIC),
                (f"127.0.0.1:{served.port}", PUBLIC),
                ("other.example", "http://other.example"),
                ("relay.example.com", "https://other.example"),
                ("other.example", "http://relay.example.com"),
                ("other.example", "http://other.example:3000"),
            ]
        ]

    assert found == [200, 200, 200, 403, 403, 403]
