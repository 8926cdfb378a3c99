"""Authentication over HTTP: every route with every kind of token, and keys that end."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from base64 import b64encode
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from contextrelay import (
    AsyncRelay,
    ContextRelay,
    Limited,
    NotFound,
    Refused,
    Relay,
    RelayError,
)
from contextrelay.model.key import IssuedKey
from contextrelay.server.auth import OPEN, WRONG_TOKENS_PER_MINUTE, token_in
from contextrelay.verbs.routes import Route, routes
from tests.core.keyed import body_of, examples, fill
from tests.rigs import rig, some
from tests.server.replies import bearer
from tests.server.serving import Served, serving, serving_apart
from tests.store.engines import until

UNAUTHORIZED = "Missing or invalid API key"


def wrong_tokens(relay: Relay) -> dict[str, str | None]:
    """A token of each kind that is good for nothing."""
    revoked, expired, good = relay.new_key(), relay.new_key(ttl_s=1), relay.new_key()
    relay.revoke_key(revoked.key.id)
    until(lambda: _is_over(relay, expired), "the key to expire")
    return {
        "none": None,
        "wrong": good.token[:-1] + ("0" if good.token[-1] != "0" else "1"),
        "cut": good.token[:-1],
        "longer": good.token + "0",
        "other key's": good.token[:19] + revoked.token[19:],
        "id alone": good.token[:18],
        "upper case": good.token.upper(),
        "no token at all": "secret",
        "unknown": "relay_000000000000_" + "0" * 48,
        "revoked": revoked.token,
        "expired": expired.token,
    }


def _is_over(relay: Relay, made: IssuedKey) -> bool:
    assert made.key.expires_at is not None
    return relay.push("now").created_at > made.key.expires_at


# Everything that is answered


def test_every_route_needs_a_caller_but_those_about_the_server_itself(
    guarded: Served,
) -> None:
    """Promise Z1. Promise M3."""
    with httpx2.Client(base_url=guarded.url) as client:
        for path, place in guarded.door.paths.places.items():
            target = re.sub(r"\{[^}]*\}", "x", path)
            for method in place.methods:
                reply = client.request(method, target)

                if path in OPEN:
                    # There may be no provider to name, which is also said to everybody.
                    assert reply.status_code in (200, 404), path
                    continue
                if place.is_open:
                    # Of the page: the way to it, a file that is not there, a form without fields.
                    assert place.is_page
                    assert reply.status_code in (308, 400, 404), path
                    continue
                assert reply.status_code == 401, path
                assert reply.headers["www-authenticate"] == "Bearer"
                if place.has_text_errors:
                    assert reply.text == UNAUTHORIZED
                else:
                    assert reply.headers["content-type"] == "application/problem+json"
                    assert reply.json()["error"] == (place.unknown or UNAUTHORIZED)
        assert client.get("/no/such/path").status_code == 401
        assert (
            client.get("/docs", headers={"accept": "text/html"})
            .headers["www-authenticate"]
            .startswith("Basic")
        )


def test_a_token_that_is_good_for_nothing_is_reported_everywhere(
    guarded: Served, owner: Relay
) -> None:
    """Promise Z1: expired, revoked, wrong."""
    for kind, token in wrong_tokens(owner).items():
        # Each of these is one who has not tried before.
        guarded.door.callers._wrong.clear()  # pyright: ignore[reportPrivateUsage]
        headers = {} if token is None else bearer(token)
        with httpx2.Client(base_url=guarded.url, headers=headers) as client:
            ref = "00000000-0000-4000-8000-000000000000"
            for path in ("/v1/artifacts", f"/pull/{ref}", f"/peek/{ref}", "/threads", "/metrics"):
                reply = client.get(path)

                text = "invalid or missing API token" if path == "/threads" else UNAUTHORIZED
                assert (reply.status_code, text in reply.text) == (401, True), (kind, path)
                assert not token or token not in reply.text
            assert client.post("/push", content=b"x").status_code == 401, kind


SCOPES = ("read", "write", "admin")


@rig
@pytest.mark.parametrize(
    "route", some(routes(), 8), ids=lambda route: f"{route.method} {route.path}"
)
def test_every_route_is_for_the_scopes_that_reach_its_verb(
    guarded: Served, owner: Relay, route: Route
) -> None:
    """Promise Z1: scopes, over the wire."""
    level = route.verb.traits.needs
    for tenant in (None, "acme"):
        with Relay(guarded.url, api_key=owner.new_key(tenant=tenant).token) as filler:
            things = fill(filler, owner.new_key(tenant=tenant))
        for rank, scope in enumerate(SCOPES):
            may = rank >= SCOPES.index(level) if level in SCOPES else (scope, tenant) == OWNER
            if route.verb.__name__ in ("Restore", "Backup") and may:
                continue  # These would take, or fill, all of what other tests share.
            token = owner.new_key(scope=scope, tenant=tenant).token
            with Relay(guarded.url, api_key=token) as relay:
                verb = examples(route.verb, things)[-1]
                try:
                    relay.transport.ask(verb, body_of(route.verb))
                    is_refused = False
                except Refused as error:
                    is_refused = error.status == 403
                except Exception:
                    is_refused = False

            assert is_refused == (not may), f"{scope} of {tenant}"


OWNER = ("admin", None)


def test_the_routes_of_seeds_obey_the_same_rules(guarded: Served, owner: Relay) -> None:
    """Promise Z1: seed 000's and seed 002's routes."""
    reader, writer = owner.new_key(scope="read").token, owner.new_key().token
    stranger = owner.new_key(tenant="stranger").token
    with httpx2.Client(base_url=guarded.url) as client:
        pushed = client.post("/push", json={"data": "hi", "channel": "r"}, headers=bearer(writer))
        ref = pushed.json()["id"]
        thread = client.post("/threads", json={}, headers=bearer(writer)).json()["thread_id"]
        asked = [
            ("POST", "/push", 200, 403),
            ("GET", f"/pull/{ref}", 200, 200),
            ("GET", f"/peek/{ref}", 200, 200),
            ("GET", f"/pull/{ref}?raw=1", 200, 200),
            ("GET", f"/threads/{thread}", 200, 200),
            ("GET", f"/threads/{thread}/state", 200, 200),
            ("POST", "/threads", 201, 403),
            ("GET", "/metrics", 200, 200),
            ("GET", "/docs", 200, 200),
            ("GET", "/ui/", 200, 200),
            ("GET", "/openapi.json", 200, 200),
        ]
        for method, path, to_writer, to_reader in asked:
            body: dict[str, Any] = {"json": {"data": "x"} if path == "/push" else {}}
            body = body if method == "POST" else {}
            statuses = [
                client.request(method, path, headers=bearer(token), **body).status_code
                for token in (writer, reader)
            ]
            assert statuses == [to_writer, to_reader], path
            if ref in path or thread in path:
                assert client.get(path, headers=bearer(stranger)).status_code == 404, path
        assert client.get("/metrics", headers=bearer(stranger)).status_code == 403
        basic = b64encode(f"me:{reader}".encode()).decode()
        assert client.get("/docs", headers={"authorization": f"Basic {basic}"}).status_code == 200


def test_without_a_token_one_is_the_owner_on_loopback_and_with_a_wrong_one_nobody(
    tmp_path: Path,
) -> None:
    """Promise Z1: there without tokens unless --require-token."""
    with serving(tmp_path / "store") as served, Relay(served.url) as relay:
        ref = relay.push("mine").ref
        token = relay.new_key(scope="read").token
        with Relay(served.url, api_key=token) as reader:
            assert reader.pull(ref) == b"mine"
            with pytest.raises(Refused):
                reader.push("no")
        with Relay(served.url, api_key="secret") as wrong, pytest.raises(Refused) as refused:
            wrong.peek(ref)

    assert (refused.value.status, refused.value.message) == (401, UNAUTHORIZED)


def test_clients_raise_the_error_class_of_the_status(guarded: Served, owner: Relay) -> None:
    """Promise R10. Promise M3."""
    reader = owner.new_key(scope="read").token

    with ContextRelay(guarded.url, api_key="") as hub, pytest.raises(Refused) as unknown:
        hub.push("x")
    with ContextRelay(guarded.url, api_key=reader) as hub, pytest.raises(Refused) as refused:
        hub.push("x")

    async def ask() -> None:
        async with AsyncRelay(guarded.url, api_key=reader) as relay:
            await relay.push("x")

    with pytest.raises(Refused) as awaited:
        asyncio.run(ask())
    assert [each.value.status for each in (unknown, refused, awaited)] == [401, 403, 403]


def test_every_worker_knows_the_same_keys(tmp_path: Path) -> None:
    """Promise Z1: revocation effective at once in every worker."""
    with Relay(tmp_path / "store") as owner:
        made = owner.new_key()
        with serving_apart(tmp_path / "store", workers=2, needs_token=True) as served:
            clients = [httpx2.Client(base_url=served.url) for _ in range(8)]
            until(lambda: clients[0].get("/readyz").status_code == 200, "the server")
            before = {
                client.get("/v1/artifacts", headers=bearer(made.token)).status_code
                for client in clients
            }

            owner.revoke_key(made.key.id)
            until(lambda: _statuses(clients, made.token) == {401}, "all workers to know")

            for client in clients:
                client.close()

    assert before == {200}


def _statuses(clients: list[httpx2.Client], token: str) -> set[int]:
    return {client.get("/v1/artifacts", headers=bearer(token)).status_code for client in clients}


def test_a_key_revoked_here_is_refused_with_the_next_request(guarded: Served, owner: Relay) -> None:
    """Promise Z1: revocation effective at once."""
    made, admin = owner.new_key(), owner.new_key(scope="admin")
    with (
        Relay(guarded.url, api_key=made.token) as relay,
        Relay(guarded.url, api_key=admin.token) as looks_after,
    ):
        ref = relay.push("x").ref
        for _ in range(20):
            relay.peek(ref)

        looks_after.revoke_key(made.key.id)

        with pytest.raises(Refused) as refused:
            relay.peek(ref)
    assert refused.value.status == 401


# Tenants and channels


def test_a_channel_of_one_tenant_is_not_heard_by_another(guarded: Served, owner: Relay) -> None:
    """Promise Z4: never signals another's."""
    tokens = [owner.new_key(tenant=tenant).token for tenant in (None, "acme", "beta")]
    with hearing(guarded, tokens, "shared") as sockets:
        for number, token in enumerate(tokens):
            with Relay(guarded.url, api_key=token) as relay:
                relay.publish("shared", number)
                pushed = relay.push("x", channel="shared")
                with Relay(guarded.url, api_key=tokens[number - 1]) as other:
                    with pytest.raises(NotFound):
                        other.pull(pushed.ref)
                    assert pushed.ref not in [each.ref for each in other.list().artifacts]

        for number, each in enumerate(sockets):
            heard = [json.loads(each.recv(10)) for _ in range(2)]
            assert (heard[0]["message"], heard[0]["seq"]) == (number, heard[1]["seq"] - 1)
            with pytest.raises(TimeoutError):
                each.recv(0)


@contextmanager
def hearing(guarded: Served, tokens: list[str], channel: str) -> Generator[list[ClientConnection]]:
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                connect(f"{guarded.ws_url}/ws/{channel}", additional_headers=bearer(token))
            )
            for token in tokens
        ]


def test_a_key_for_some_channels_hears_only_those(guarded: Served, owner: Relay) -> None:
    """Promise Z1: by channel prefix."""
    token = owner.new_key(scope="read", channels=("ci-",)).token

    with connect(f"{guarded.ws_url}/ws/ci-1", additional_headers=bearer(token)):
        pass
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"{guarded.ws_url}/ws/room", additional_headers=bearer(token)),
    ):
        pass
    assert refused.value.response.status_code == 403
    with httpx2.Client(base_url=guarded.url, headers=bearer(token)) as client:
        statuses = [
            client.get(f"/v1/channels/{path}").status_code
            for path in ("ci-1", "room", "room/events", "room?wait=1")
        ]
    assert statuses == [200, 403, 403, 403]


# Counting


def test_a_caller_over_its_rate_is_asked_to_come_back_later(guarded: Served, owner: Relay) -> None:
    """Promise Z1: rate limits."""
    token = owner.new_key(requests_per_minute=5).token
    with httpx2.Client(base_url=guarded.url, headers=bearer(token)) as client:
        replies = [client.get("/v1/artifacts") for _ in range(8)]

    assert [each.status_code for each in replies[:5]] == [200] * 5
    limited = [each for each in replies if each.status_code == 429]
    assert len(limited) >= 2
    assert 1 <= int(limited[0].headers["retry-after"]) <= 13
    with Relay(guarded.url, api_key=token) as relay:
        outcomes = [_outcome(relay) for _ in range(3)]
    assert Limited in outcomes


def _outcome(relay: Relay) -> type[RelayError] | None:
    try:
        relay.list()
    except RelayError as error:
        return type(error)
    return None


def test_ten_thousand_wrong_tokens_are_limited_and_good_ones_are_not(tmp_path: Path) -> None:
    """Promise Z1: 10,000 wrong tokens."""
    with serving(tmp_path / "store", needs_token=True) as served, Relay(tmp_path / "store") as own:
        made = own.new_key()
        statuses: list[int] = []
        with socket.create_connection(("127.0.0.1", served.port)) as wire:
            wire.settimeout(60)
            host = f"host: 127.0.0.1:{served.port}\r\n"
            for start in range(0, 10_000, 100):
                asked = "".join(
                    f"GET /v1/artifacts HTTP/1.1\r\n{host}"
                    f"authorization: Bearer {made.token[:19]}{number:048x}\r\n\r\n"
                    for number in range(start, start + 100)
                )
                wire.sendall(asked.encode())
                statuses += _statuses_of(wire, 100)
        with Relay(served.url, api_key=made.token) as relay:
            assert relay.list().artifacts == []

    assert len(statuses) == 10_000
    assert set(statuses) == {401, 429}
    # A minute's worth at once, and what came back while they were sent.
    assert statuses[:WRONG_TOKENS_PER_MINUTE] == [401] * WRONG_TOKENS_PER_MINUTE
    assert statuses.count(401) < 4 * WRONG_TOKENS_PER_MINUTE


def _statuses_of(wire: socket.socket, count: int) -> list[int]:
    """The statuses of so many replies on one connection."""
    read = b""
    while (
        len(found := re.findall(rb"HTTP/1\.1 (\d{3}) .*?\r\n\r\n\{.*?\}", read, re.DOTALL)) < count
    ):
        part = wire.recv(65536)
        assert part, "the connection ended"
        read += part
    return [int(each) for each in found]


# What tries to be taken for something else


@pytest.mark.parametrize(
    "lines",
    [
        ["authorization: Bearer {token}", "authorization: Bearer {token}"],
        ["authorization: Bearer wrong", "authorization: Bearer {token}"],
        ["authorization: Bearer {token}", "authorization: Basic eA=="],
        ["authorization: {token}"],
        ["authorization: Token {token}"],
        ["authorization: Bearer,{token}"],
        ["authorization: Bearer {token},{token}"],
        ["authorization: Bearer {token}\t{token}"],
        ["authorization: Basic {token}"],
        ["authorization: Bearer {token}\x00"],
        ["authorization: Bearer \xe9{token}"],
        ["x-api-key: {token}"],
        ["cookie: token={token}"],
        ["authorization:"],
    ],
)
def test_what_is_no_token_in_a_header_lets_nobody_in(
    guarded: Served, owner: Relay, lines: list[str]
) -> None:
    """Promise Z1: header injection."""
    guarded.door.callers._wrong.clear()  # pyright: ignore[reportPrivateUsage]
    token = owner.new_key().token
    headers = "\r\n".join([f"host: 127.0.0.1:{guarded.port}", "connection: close", *lines])
    with socket.create_connection(("127.0.0.1", guarded.port)) as wire:
        wire.settimeout(20)
        asked = f"GET /v1/artifacts HTTP/1.1\r\n{headers.replace('{token}', token)}\r\n\r\n"
        wire.sendall(asked.encode("latin-1"))
        answer = b"".join(iter(lambda: wire.recv(65536), b""))

    assert answer.split(b" ")[1] in (b"401", b"400")
    assert token.encode() not in answer


def test_a_token_in_the_query_is_only_for_streams(guarded: Served, owner: Relay) -> None:
    """Promise Z1: an address with a token in it is easily passed on."""
    token = owner.new_key().token

    for path in ("/v1/artifacts", "/docs", "/push", "/metrics", "/v1/channels/room"):
        assert httpx2.get(f"{guarded.url}{path}?token={token}").status_code == 401, path


def test_blanks_and_case_of_the_scheme_do_not_matter() -> None:
    for value in (b"Bearer abc", b"bearer abc", b"BEARER  abc ", b"Basic " + b64encode(b"me:abc")):
        assert token_in([(b"authorization", value)]) == "abc"
    assert token_in([(b"host", b"x")]) is None
    assert token_in([(b"authorization", b"Basic ???")]) == ""


def test_no_token_gets_into_logs(
    guarded: Served, owner: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise Z1."""
    made = owner.new_key()
    with httpx2.Client(base_url=guarded.url, headers=bearer(made.token)) as client:
        client.get("/v1/artifacts")
        client.post("/push", content=b"")
    httpx2.get(f"{guarded.url}/v1/channels/room/events?token={made.token}0")
    owner.revoke_key(made.key.id)
    httpx2.get(f"{guarded.url}/v1/artifacts", headers=bearer(made.token))

    assert made.token[19:] not in caplog.text
