"""Fetching what somebody else chose: it must not reach what they could not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contextrelay import Invalid, Refused, Relay, Settings, TooLarge
from contextrelay.access import reach_of
from contextrelay.bounded.fetch import FetchPolicy, fetch
from contextrelay.limits import URL_CHARS_MAX
from tests.core.served import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as server:
        server.says("/", b"for this machine alone")
        yield server


HOSTS_OF_THIS_MACHINE = (
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0177.0.0.1",
    "017700000001",
    "0x7f.0.0.1",
    "0x7f000001",
    "0",
    "0.0.0.0",
    "１２７.0.0.1",
    "127。0。0。1",
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
)
HOSTS_NEARBY = (
    "10.0.0.1",
    "192.168.0.1",
    "172.16.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "[::ffff:169.254.169.254]",
    "[fe80::1]",
    "[fd00::1]",
    "224.0.0.1",
    "255.255.255.255",
)


@pytest.mark.parametrize("host", [*HOSTS_OF_THIS_MACHINE, *HOSTS_NEARBY])
def test_a_private_address_is_refused_however_it_is_written(served: Served, host: str) -> None:
    """Promise C1."""
    with Relay("memory:") as relay, pytest.raises(Refused, match="is not allowed"):
        relay.invoke("http.fetch", {"url": served.url("/", host)})

    assert served.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
def test_this_machine_can_be_fetched_from_where_the_owner_allows_it(
    served: Served, host: str
) -> None:
    """Promise C1."""
    with Relay("memory:", settings=Settings(fetch_private=True)) as relay:
        invoked = relay.invoke("http.fetch", {"url": served.url("/", host)})

        assert relay.pull(invoked.artifact_ref) == b"for this machine alone"


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:a9fe:a9fe]", "224.0.0.1"]
)
def test_where_clouds_keep_credentials_is_refused_even_then(host: str) -> None:
    """Promise C1."""
    settings = Settings(fetch_private=True)

    with (
        Relay("memory:", settings=settings) as relay,
        pytest.raises(Refused, match="is not allowed"),
    ):
        relay.invoke("http.fetch", {"url": f"http://{host}/latest/meta-data/"})


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//10.0.0.1/",
        "http://2852039166/",
        "http://[::1]/",
    ],
)
def test_a_redirect_is_judged_as_the_first_url_was(served: Served, location: str) -> None:
    """Promise C1."""
    served.says("/away", status="302 Found", headers=f"Location: {location}\r\n")

    with pytest.raises(Refused, match="is not allowed"):
        fetch(served.url("/away"), FetchPolicy(lambda address: address == "127.0.0.1"))


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "data:,x"]
)
def test_a_redirect_to_another_scheme_is_refused(served: Served, location: str) -> None:
    """Promise C1."""
    served.says("/away", status="302 Found", headers=f"Location: {location}\r\n")

    with pytest.raises(Invalid, match="neither http nor https"):
        fetch(served.url("/away"), FetchPolicy(lambda address: address == "127.0.0.1"))


def test_a_name_with_one_private_address_among_its_addresses_is_refused(served: Served) -> None:
    """Promise C1."""
    policy = FetchPolicy(
        lambda address: address == "127.0.0.1",
        resolve=lambda host, port: ["127.0.0.1", "10.0.0.1"],
    )

    with pytest.raises(Refused):
        fetch(served.url("/", "both.example"), policy)

    assert served.requests == []


@pytest.mark.parametrize(
    ("address", "is_allowed_by_setting"),
    [("10.0.0.1", True), ("169.254.169.254", False), ("fe80::1", False)],
)
def test_a_refusal_names_no_address_and_advises_only_what_would_help(
    address: str, is_allowed_by_setting: bool
) -> None:
    policy = FetchPolicy(
        lambda found: reach_of(found) == "public",
        resolve=lambda host, port: ["93.184.216.34", address],
    )

    with pytest.raises(Refused) as refused:
        fetch("http://Inside.Example/", policy)

    assert refused.value.message == "fetching from inside.example is not allowed"
    assert address not in str(refused.value)
    assert ("fetch_private" in refused.value.hint) == is_allowed_by_setting


def test_an_answer_that_changes_after_it_was_judged_changes_nothing(served: Served) -> None:
    """Promise C1: the connection goes to the judged address; the name is asked for once a URL."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    policy = FetchPolicy(
        lambda address: address == "127.0.0.1", resolve=lambda host, port: next(answers)
    )

    assert fetch(served.url("/", "turning.example"), policy).body == b"for this machine alone"
    with pytest.raises(Refused):
        fetch(served.url("/", "turning.example"), policy)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "javascript:alert(1)",
        "example.org",
        "//example.org/",
        "",
        "http://",
        "http:///path",
        "http://:80/",
        "http://you@example.org/",
        "http://you:secret@example.org/",
        "http://@example.org/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:x/",
        "http://exa mple.org/",
        "http://example.org/\r\nX-Injected: 1",
        "http://example.org/\x00",
        "http://example.org\n.evil/",
        "http://[::1/",
        "http://[not an address]/",
        f"http://{'a' * 64}.example/",
        "http://a..example/",
    ],
)
def test_what_is_no_url_of_ours_is_refused(url: str) -> None:
    """Promise C1."""

    def resolve(host: str, port: int) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    with pytest.raises(Invalid):
        fetch(url, FetchPolicy(lambda address: True, resolve=resolve))


def test_a_url_that_is_too_long_is_refused() -> None:
    with pytest.raises(TooLarge):
        fetch("http://example.org/" + "x" * URL_CHARS_MAX, FetchPolicy(lambda address: True))


def test_an_error_does_not_name_what_was_in_the_query(served: Served) -> None:
    served.says("/page?key=hidden", status="404 Not Found")

    with pytest.raises(Invalid) as refused:
        fetch(served.url("/page?key=hidden"), FetchPolicy(lambda address: True))

    assert "hidden" not in str(refused.value)
