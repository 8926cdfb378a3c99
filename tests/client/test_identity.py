"""Identity: who is recorded with artifacts, events, signals and handoffs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.json import decode, encode
from msgspec.structs import replace

from contextrelay import AsyncRelay, Conflict, Invalid, Relay, TooLarge
from contextrelay.core.access import key_row
from contextrelay.core.schema import KEY_NAMES, RESTORE, RowKind
from contextrelay.identity import user_name
from contextrelay.model.key import StoredKey
from contextrelay.model.names import key_log
from contextrelay.store.ledger import ONLY, Row, Write
from tests.cli.shell import Shell
from tests.server.serving import serving


def authors(relay: Relay) -> set[str]:
    """Return the authors of all records that one agent writes."""
    thread = relay.new_thread("orders")
    thread.add_fact("Orders owns the schema")
    artifact = thread.put("body", channel="news")
    relay.publish("news", "done")
    given = thread.hand_off("coder", "go on")
    relay.accept(given.ref)
    relay.give_back("result", given.ref)
    found = {view.event.by for view in thread.events()}
    found |= {each.by for each in relay.signals("news").signals}
    found |= {artifact.provenance.created_by, given.handoff.giver, thread.show().created_by}
    found |= {each.by for each in relay.handoff(given.ref).accepted}
    return found


def test_the_agent_of_a_client_is_recorded_with_all_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z0."""
    with Relay(tmp_path / "a", agent="planner") as relay:
        assert authors(relay) == {"planner"}
    with Relay(tmp_path / "b") as relay:
        assert authors(relay) == {user_name()}
    monkeypatch.setenv("RELAY_AGENT", "coder")
    with Relay(tmp_path / "c") as relay:
        assert authors(relay) == {"coder"}
    with Relay(tmp_path / "d", agent="") as relay:
        assert authors(relay) == {user_name()}


async def _pushed_by(address: Any) -> str:
    async with AsyncRelay(address, agent="planner") as relay:
        return (await relay.push("x")).provenance.created_by


def test_the_agent_of_an_awaited_client_is_recorded(tmp_path: Path) -> None:
    """Promise Z0."""
    import asyncio

    assert asyncio.run(_pushed_by(tmp_path)) == "planner"


@pytest.fixture
def clients() -> Iterator[Callable[..., Relay]]:
    """Clients that are closed at the end."""
    with ExitStack() as stack:
        yield lambda *args, **named: stack.enter_context(Relay(*args, **named))


def test_on_a_server_the_key_comes_first_and_cannot_be_claimed(
    tmp_path: Path, clients: Callable[..., Relay]
) -> None:
    """Promise Z0."""
    with Relay(tmp_path / "store") as owner, serving(tmp_path / "store") as served:
        token = owner.new_key(name="ci-bot").token
        other = owner.new_key(name="other").token
        unnamed = owner.new_key()

        assert authors(clients(served.url, api_key=token)) == {"ci-bot"}
        agent = clients(served.url, api_key=token, agent="größer 100%")
        pushed = agent.push("x")
        assert pushed.provenance.created_by == "ci-bot/größer 100%"
        thief = clients(served.url, api_key=other, agent="ci-bot")
        assert thief.push("x").provenance.created_by == "other/ci-bot"
        assert thief.push("x", created_by="ci-bot/planner").provenance.created_by == (
            "other/ci-bot/planner"
        )
        named = clients(served.url, api_key=unnamed.token).push("x")
        assert named.provenance.created_by == unnamed.key.id
        sealed = agent.push("secret", seal=True)
        assert sealed.provenance.created_by == "ci-bot/größer 100%"
        assert agent.pull(sealed.url) == b"secret"
        with pytest.raises(Invalid, match="is too long"):
            clients(served.url, api_key=token, agent="x" * 125).push("x")


def test_a_server_without_keys_records_the_name_given_or_the_user(
    tmp_path: Path, clients: Callable[..., Relay]
) -> None:
    """Promise Z0."""
    with serving(tmp_path / "store") as served:
        assert clients(served.url, agent="planner").push("x").provenance.created_by == "planner"
        assert clients(served.url).push("x").provenance.created_by == user_name()
        bare = httpx2.post(f"{served.url}/push", content=b"x").json()["id"]
        assert clients(served.url).peek(bare).provenance.created_by == user_name()
        named = httpx2.post(
            f"{served.url}/push", content=b"x", headers={"x-relay-from": "planner"}
        ).json()["id"]
        assert clients(served.url).peek(named).provenance.created_by == "planner"
        refused = httpx2.post(f"{served.url}/push", content=b"x", headers={"x-relay-from": "a%0Ab"})
        assert refused.status_code == 400


def test_you_is_displayed_and_never_recorded(shell: Shell) -> None:
    """Promise Z0: earlier clients send "you" if nobody is named."""
    shell.out("thread", "new", "--name", "orders")
    text = shell.out("state", "add", "fact", "one", human=True)
    with Relay(shell.env["RELAY_HOME"]) as relay:
        relay.thread("orders").add_fact("two", by="you")
        events = relay.thread("orders").events()

    assert "by you" in text
    assert {each.event.by for each in events} == {user_name()}
    assert shell.out("events", human=True).split().count("you") == len(events)
    shell.env["RELAY_AGENT"] = "planner"
    assert "by planner" in shell.out("state", "add", "fact", "three", "-t", "orders", human=True)


@pytest.mark.parametrize("agent", ["a\nb", "\u202eevil", " "])
def test_an_invalid_name_of_an_agent_is_refused(agent: str) -> None:
    """Promise Z0."""
    with pytest.raises(Invalid, match="agent"):
        Relay("memory:", agent=agent)
    with pytest.raises(TooLarge, match="agent has 129 characters"):
        Relay("memory:", agent="x" * 129)


def test_two_valid_keys_of_a_space_have_different_names(relay_of_keys: Relay) -> None:
    """Promise Z0."""
    relay = relay_of_keys
    first = relay.new_key(name="ci-bot")

    with pytest.raises(Conflict, match="a key named 'ci-bot' already exists"):
        relay.new_key(name="ci-bot")
    with pytest.raises(Invalid, match="contains a slash"):
        relay.new_key(name="ci-bot/planner")
    assert relay.new_key(name="ci-bot", tenant="acme").key.name == "ci-bot"
    relay.revoke_key(first.key.id)
    assert relay.new_key(name="ci-bot").key.name == "ci-bot"


def test_keys_of_an_earlier_version_get_names_of_their_own(tmp_path: Path) -> None:
    """Promise Z0: when the store is opened for the first time."""
    with Relay(tmp_path) as relay:
        keys = [relay.new_key(name=name).key for name in ("one", "two", "three")]
        ledger = relay.transport.stores.ledger
        for key, name in zip(keys, ("ci", "ci", "a/b"), strict=True):
            row = key_row(ledger, key.id)
            assert row is not None
            kept = decode(row, type=StoredKey)
            changed = encode(replace(kept, key=replace(kept.key, name=name)))
            ledger.commit(
                Write(key_log(key.id), (b"x",), (Row(RowKind.KEY, ONLY, changed),)),
                Write(RESTORE, rows=(Row(RowKind.FINISHED, KEY_NAMES, None),)),
            )

    with Relay(tmp_path) as relay:
        names = {key.id: key.name for key in relay.keys().keys}

    assert names[keys[2].id] == "a-b"
    one, two = keys[0].id, keys[1].id
    assert {names[one], names[two]} in ({"ci", f"ci-{one}"}, {"ci", f"ci-{two}"})


@pytest.fixture
def relay_of_keys() -> Iterator[Relay]:
    with Relay("memory:") as relay:
        yield relay
