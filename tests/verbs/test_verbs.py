"""A verb is defined in one place, and everything that treats it reads its traits there."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest
from msgspec import Meta, Struct
from msgspec.json import decode, encode

from contextrelay import AsyncRelay, Invalid, Refused, Relay
from contextrelay.cli.console import Console
from contextrelay.core.registry import ANSWERS, answers
from contextrelay.core.stores import Stores
from contextrelay.server.openapi.openapi import document
from contextrelay.verbs import VERBS, Body, Traits, Verb
from contextrelay.verbs.routes import route_of, routes
from tests.server.replies import bearer
from tests.server.serving import Served, serving


class Echoed(Struct, frozen=True):
    """What came back."""

    text: str
    times: int


@pytest.fixture
def echo() -> Generator[Any]:
    """A verb that the product does not have: its class and its answer, and nothing else."""

    class Echo(Verb[Echoed], frozen=True):
        """Say a text again."""

        traits = Traits(
            needs="write", http="POST /v1/echo/{text}", status=201, fails=(409,), fills="made"
        )

        text: str
        times: Annotated[int, Meta(ge=1, le=9)] = 1

    @answers(Echo)
    def echo(stores: Stores, verb: Echo, body: Body) -> Echoed:  # pyright: ignore[reportUnusedFunction]
        return Echoed(verb.text * verb.times, verb.times)

    document.cache_clear()
    yield Echo
    VERBS.remove(Echo)
    ANSWERS.pop(Echo)
    document.cache_clear()


@pytest.fixture
def served(echo: Any, tmp_path: Path) -> Generator[Served]:
    with serving(tmp_path / "store", needs_token=True) as running:
        yield running


@pytest.fixture
def relay(served: Served, tmp_path: Path) -> Generator[Relay]:
    """The store's own relay, next to the server."""
    with Relay(tmp_path / "store") as relay:
        yield relay


def test_a_new_verb_is_asked_by_every_client(echo: Any, served: Served, relay: Relay) -> None:
    token = relay.new_key().token

    async def awaited(address: str | Path) -> Echoed:
        async with AsyncRelay(address, api_key=token) as client:
            return await client.transport.ask(echo("ho", 3))

    with Relay(served.url, api_key=token) as remote:
        replies = [client.transport.ask(echo("ho", 3)) for client in (relay, remote)]
    replies += [asyncio.run(awaited(address)) for address in ("memory:", served.url)]

    assert replies == [Echoed("hohoho", 3)] * 4


def test_a_new_verb_is_answered_over_http_and_checked(
    echo: Any, served: Served, relay: Relay
) -> None:
    headers = bearer(relay.new_key().token)

    made = httpx2.post(f"{served.url}/v1/echo/ho", json={"times": 2}, headers=headers)
    wrong = httpx2.post(f"{served.url}/v1/echo/ho", json={"times": 10}, headers=headers)

    assert (made.status_code, made.json()) == (201, {"text": "hoho", "times": 2})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid")


def test_a_new_verb_is_refused_to_keys_that_may_not(
    echo: Any, served: Served, relay: Relay
) -> None:
    """Promise Z1."""
    reader = relay.new_key(scope="read").token

    with Relay(served.url, api_key=reader) as client, pytest.raises(Refused) as refused:
        client.transport.ask(echo("ho"))

    assert refused.value.status == 403
    assert "scope write is required" in refused.value.message
    assert httpx2.post(f"{served.url}/v1/echo/ho").status_code == 401


def test_a_new_verb_that_stores_outside_threads_and_channels_is_refused_to_limited_keys(
    echo: Any, served: Served, relay: Relay
) -> None:
    """Promise Z1."""
    limited = relay.new_key(threads=("release/",)).token

    with Relay(served.url, api_key=limited) as client, pytest.raises(Refused) as refused:
        client.transport.ask(echo("ho"))

    assert refused.value.status == 403


def test_a_new_verb_is_documented(echo: Any) -> None:
    """Promise M3."""
    operation = document()["paths"]["/v1/echo/{text}"]["post"]

    assert operation["operationId"] == "Echo"
    assert operation["summary"] == "Say a text again."
    assert {"201", "400", "402", "403", "409"} <= operation["responses"].keys()


def test_a_new_verb_is_printed_as_json(
    echo: Any, relay: Relay, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = relay.transport.ask(echo("ho", 2))
    console = Console()
    console.is_json = True

    console.answer(reply, human="hoho")

    assert decode(capsys.readouterr().out) == {"text": "hoho", "times": 2} == decode(encode(reply))


def test_a_verb_that_does_not_say_what_access_it_needs_cannot_be_defined() -> None:
    """Promise Z1."""
    before = list(VERBS)

    with pytest.raises(TypeError, match="Fly has no traits"):
        type("Fly", (Verb,), {})
    with pytest.raises(TypeError, match="needs"):
        Traits(http="GET /v1/fly")  # pyright: ignore[reportCallIssue]

    assert before == VERBS


def test_every_verb_is_answered_in_the_module_that_it_names() -> None:
    for verb in VERBS:
        import_module(f"contextrelay.core.{verb.traits.answered_in}")

        function = ANSWERS[verb]
        assert function.__module__ == f"contextrelay.core.{verb.traits.answered_in}"


def test_traits_agree_with_each_other() -> None:
    """A verb that only reads changes nothing, so it has nothing that is done once or stored."""
    for verb in VERBS:
        traits = verb.traits
        changes = traits.keyed or traits.fills or traits.sweeps or traits.makes_thread
        assert not (traits.needs == "read" and changes), verb
        assert not (traits.inline and (traits.needs != "read" or traits.slow)), verb
        assert not traits.makes_thread or "name" in verb.__struct_fields__, verb
        assert traits.needs != "read" or traits.http[:4] in ("", "GET "), verb


def test_every_route_is_that_of_its_verb() -> None:
    """Promise M3."""
    asked = {}
    for verb in VERBS:
        with suppress(Invalid):
            asked[verb] = route_of(verb)

    assert {route.verb: route for route in routes() if not route.name} == asked
    inside = {"MirrorThread", "AdoptState", "PutHook", "ListHooks", "PutOutput", "BeginTask"}
    inside |= {"NoteTask", "PutSent", "ReadSent", "ListSent", "ListTasks", "ReadTask"}
    inside |= {"KeepKey", "CountUse", "PutSession", "ReadSession", "DeleteSession", "Migrate"}
    inside |= {"CheckLedger", "TryBlob", "ReadSearchIndex"}
    assert {verb.__name__ for verb in set(VERBS) - asked.keys()} == inside
