"""Fetching, against real servers on loopback: what comes back, and what bounds it."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contextrelay.bounded.fetch import FETCH_REDIRECTS_MAX, FetchPolicy, fetch
from contextrelay.errors import Failed, Invalid, Refused, TooLarge
from contextrelay.limits import MIB
from tests.core.served import Served, serving


def to_loopback(bytes_max: int = MIB, seconds_max: float = 10) -> FetchPolicy:
    return FetchPolicy(lambda address: address == "127.0.0.1", bytes_max, seconds_max)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


def test_a_chunked_body_and_one_that_ends_with_the_connection_come_whole(served: Served) -> None:
    chunked = b"5\r\nhello\r\n6\r\n there\r\n0\r\n\r\n"
    served.says("/chunked", chunked, headers="Transfer-Encoding: chunked\r\n")
    served.replies["/closed"] = b"HTTP/1.0 200 OK\r\n\r\nuntil the end"

    assert fetch(served.url("/chunked"), to_loopback()).body == b"hello there"
    assert fetch(served.url("/closed"), to_loopback()).body == b"until the end"


def test_a_packed_body_is_unpacked_even_in_several_parts(served: Served) -> None:
    packed = gzip.compress(b"one " * 100_000, mtime=0) + gzip.compress(b"two")
    served.says("/packed", packed, headers="Content-Encoding: gzip\r\n")

    body = fetch(served.url("/packed"), to_loopback()).body

    assert body == b"one " * 100_000 + b"two"


def test_a_small_body_that_unpacks_to_too_much_is_refused(served: Served) -> None:
    """Promise C1."""
    bomb = gzip.compress(bytes(200 * MIB), mtime=0)
    served.says("/bomb", bomb, headers="Content-Encoding: gzip\r\n")
    assert len(bomb) < MIB

    with pytest.raises(TooLarge, match="limit is 1048576 bytes"):
        fetch(served.url("/bomb"), to_loopback())


def test_a_body_at_the_limit_passes_and_one_byte_more_does_not(served: Served) -> None:
    """Promise C1."""
    for size, path in ((1000, "/right"), (1001, "/over")):
        served.says(path, b"x" * size)

    assert len(fetch(served.url("/right"), to_loopback(1000)).body) == 1000
    with pytest.raises(TooLarge):
        fetch(served.url("/over"), to_loopback(1000))


def test_a_body_without_an_end_is_cut_off(served: Served) -> None:
    """Promise C1."""

    def endless(sock: socket.socket, over: threading.Event) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.is_set():
            sock.sendall(b"x" * 65_536)

    served.replies["/endless"] = endless

    with pytest.raises(TooLarge):
        fetch(served.url("/endless"), to_loopback())


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 100\r\n", b"short"),
        ("Content-Encoding: gzip\r\n", gzip.compress(b"cut off " * 1000, mtime=0)[:-20]),
    ],
)
def test_a_body_that_is_not_whole_is_no_result(served: Served, headers: str, body: bytes) -> None:
    served.says("/cut", body, headers=headers)

    with pytest.raises(Failed):
        fetch(served.url("/cut"), to_loopback())


@pytest.mark.parametrize("stage", ["silent", "header", "body"])
def test_a_slow_server_has_only_so_long_in_all(served: Served, stage: str) -> None:
    """Promise C1: not so long a read, but for all of it, however it drips."""
    begun = {"silent": b"", "header": b"HTTP/1.1 200 OK\r\nX: ", "body": b"HTTP/1.1 200 OK\r\n\r\n"}

    def drip(sock: socket.socket, over: threading.Event) -> None:
        sock.sendall(begun[stage])
        while not over.wait(0.05):
            if stage != "silent":
                sock.sendall(b"x")

    served.replies["/slow"] = drip
    began = time.monotonic()

    with pytest.raises(Failed, match=r"more than 0\.5 seconds"):
        fetch(served.url("/slow"), to_loopback(seconds_max=0.5))

    assert time.monotonic() - began < 30


def test_a_name_that_takes_too_long_to_find_is_given_up() -> None:
    """Promise C1."""
    found = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        found.wait(0.3)
        return ["127.0.0.1"]

    policy = FetchPolicy(lambda address: True, seconds_max=0.1, resolve=resolve)

    with pytest.raises(Failed, match=r"more than 0\.1 seconds"):
        fetch("http://slow.example/", policy)


def test_redirects_are_followed_so_far_and_no_further(served: Served) -> None:
    """Promise C1."""
    for index in range(10):
        headers = f"Location: /{index + 1}\r\n"
        served.says(f"/{index}", status="302 Found", headers=headers)
    start = 10 - FETCH_REDIRECTS_MAX
    served.says("/10", b"there")

    assert fetch(served.url(f"/{start}"), to_loopback()).body == b"there"
    assert fetch(served.url(f"/{start}"), to_loopback()).url == served.url("/10")
    with pytest.raises(Refused, match="too many redirects"):
        fetch(served.url(f"/{start - 1}"), to_loopback())


@pytest.mark.parametrize(
    ("status", "error"),
    [("404 Not Found", Invalid), ("302 Found", Invalid)],
)
def test_an_answer_that_is_no_success_is_an_error(
    served: Served, status: str, error: type[Exception]
) -> None:
    served.says("/page?secret=1", b"<p>sorry", status=status)

    with pytest.raises(error, match=f"answered {status}"):
        fetch(served.url("/page?secret=1"), to_loopback())


def test_a_server_that_is_not_there_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(Failed, match="cannot be fetched"):
        fetch(f"http://127.0.0.1:{port}/", to_loopback())


# https


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for a name, and one of a client that trusts it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))


def test_https_goes_to_the_judged_address_and_asks_for_the_certificate_of_the_name(
    tmp_path: Path,
) -> None:
    """Promise C1."""
    server, client = certified(tmp_path, "pages.example")
    with serving(server) as served:
        served.says("/", b"secret page")
        policy = FetchPolicy(
            lambda address: address == "127.0.0.1",
            resolve=lambda host, port: ["127.0.0.1"],
            tls=client,
        )

        assert fetch(served.url("/", "pages.example", "https"), policy).body == b"secret page"
        assert f"Host: pages.example:{served.port}".encode() in served.requests[0]
        with pytest.raises(Failed, match="certificate"):
            fetch(served.url("/", "other.example", "https"), policy)


def test_a_server_that_never_ends_its_handshake_has_only_so_long() -> None:
    """Promise C1."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        with pytest.raises(Failed, match=r"more than 0\.3 seconds"):
            fetch(f"https://127.0.0.1:{port}/", to_loopback(seconds_max=0.3))


def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "pages.example")
    with serving(server) as served, serving() as bare:
        served.says("/", status="301 Moved", headers=f"Location: {bare.url('/')}\r\n")
        policy = FetchPolicy(
            lambda address: True, resolve=lambda host, port: ["127.0.0.1"], tls=client
        )

        with pytest.raises(Refused, match="from https to http"):
            fetch(served.url("/", "pages.example", "https"), policy)

        assert bare.requests == []
