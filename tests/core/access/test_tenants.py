"""Tenants: each has a store to itself, as far as it can see; the owner looks after all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from contextrelay import Gone, NotFound, Refused, Relay, RelayError
from contextrelay.core.answer import answer
from contextrelay.state.schema import fact
from contextrelay.store.ledger import Row, Write
from contextrelay.verbs import Stream, Verb
from tests.core.access.test_callers import everything
from tests.core.clock import DAY_MS, Clock
from tests.core.keyed import (
    EVERY_VERB,
    Things,
    as_seen_by,
    body_of,
    examples,
    holder,
    names_things,
    owner,
    stores_of,
)
from tests.rigs import length, rig

NAMES = st.sampled_from(["plan", "x/beta/a", "a/b", "release", "x"])
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["push", "thread", "patch", "publish", "remove", "invoke", "fork", "use"]),
        NAMES,
    ),
    min_size=1,
    max_size=12,
)


class Victim:
    """A tenant who does things, each with a word in it that is nobody else's."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.refs: list[str] = []
        self.there: list[str] = []
        self.threads: list[str] = []
        self.channels: list[str] = []
        self.words: list[str] = []

    def act(self, kind: str, name: str) -> None:
        word = f"marigold{len(self.words)}"
        self.words.append(word)
        thread = self.relay.thread(self.threads[-1]) if self.threads else None
        match kind:
            case "push":
                channel = f"{name}-{word}"
                pushed = self.relay.push(word, channel=channel, metadata={"word": word}, name=word)
                self.refs.append(pushed.ref)
                self.there.append(pushed.ref)
                self.channels.append(channel)
            case "publish":
                self.relay.publish(f"{name}-{word}", word)
                self.channels.append(f"{name}-{word}")
            case "patch" if thread is not None:
                thread.patch([fact(word, word, id=word)])
            case "invoke":
                self.relay.invoke("retrieval.search", {"query": word}, by=word)
            case "remove" if self.there:
                self.relay.remove(self.there.pop())
            case "fork" if thread is not None:
                self.threads.append(thread.fork(name=word).id)
            case "use" if thread is not None:
                self.relay.use_thread(thread.id, "/work", "/work")
            case _:
                self.threads.append(self.relay.new_thread(f"{name}-{word}").id)


@rig
@settings(
    max_examples=length(thin=2, long=25, full=100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(acts=ACTS, scope=st.sampled_from(["read", "write", "admin"]), is_of_owner=st.booleans())
def test_whatever_a_tenant_does_a_stranger_sees_and_changes_nothing_of_it(
    acts: list[tuple[str, str]], scope: str, is_of_owner: bool
) -> None:
    """Promise Z4: never listed to one who may not."""
    relay = owner()
    victim = Victim(relay if is_of_owner else holder(relay, tenant="acme", scope="admin"))
    for act in acts:
        victim.act(*act)
    prefix = "" if is_of_owner else "x/acme/"
    before = everything(relay, prefix)
    things = Things(
        ref=(victim.refs or ["00000000-0000-4000-8000-000000000000"])[0],
        thread=(victim.threads or ["00000000-0000-4000-8000-000000000000"])[-1],
        channel=(victim.channels or ["plan"])[0],
        id=relay.new_key(tenant="acme").key.id,
        handoff="00000000-0000-4000-8000-000000000000",
    )

    for number, kind in enumerate(EVERY_VERB):
        stranger = holder(relay, tenant=f"beta{number}", scope=scope)
        said = b""
        for verb in examples(kind, things):
            came = asked(stranger, verb)

            said += encode(verb)  # What it has said itself may come back to it.
            for word in [*victim.words, *victim.refs, *victim.threads]:
                assert word.encode() not in came or word.encode() in said, (verb, came)
            if names_things(verb):
                assert came.startswith((b"NotFound", b"Forbidden", b"Refused")), (verb, came)

    now = everything(relay, prefix)
    assert {log: now.get(log) for log in before if not log.startswith("b/")} == {
        log: head for log, head in before.items() if not log.startswith("b/")
    }


def asked(relay: Relay, verb: Verb[Any]) -> bytes:
    try:
        reply = answer(stores_of(relay), verb, body_of(type(verb)))
    except RelayError as error:
        return f"{type(error).__name__}: {error} {error.details}".encode()
    if isinstance(reply, Stream):
        stream = cast("Stream[Any]", reply)
        return encode(stream.value) + stream.whole()
    return encode(reply)


def test_two_tenants_may_call_everything_the_same() -> None:
    """Promise Z4."""
    relay = owner()
    relays = [relay, holder(relay, tenant="acme"), holder(relay, tenant="beta")]

    for each in relays:
        each.push("the same", channel="room", name="same")
        each.thread("plan").patch([fact("a", 1, id="f1")])

    for each in relays:
        assert len(each.list().artifacts) == 1
        assert [view.name for view in each.channels().channels] == ["room"]
        assert each.signals("room", 0).head == 1
        assert len(each.threads().threads) == 1
        assert each.thread("plan").show().version == 2


def test_nothing_reveals_that_another_has_the_same_bytes() -> None:
    """Promise Z4: what is kept once is not seen to be."""
    relay = owner()
    one, two = holder(relay, tenant="acme"), holder(relay, tenant="beta")
    body = "shared " * 10_000

    first, second = one.push(body), two.push(body)

    assert relay.survey().bodies == 1
    ours, theirs = ({**asdict(each), "ref": "", "created_at": ""} for each in (first, second))
    for report in (ours, theirs):
        for name in ("expires_at", "provenance", "url"):
            report.pop(name)
    assert ours == theirs
    one.remove(first.ref)
    assert two.pull(second.ref).decode() == body


def asdict(artifact: Any) -> dict[str, Any]:
    from msgspec.structs import asdict

    return asdict(artifact)


def test_a_tenant_does_not_learn_how_often_others_were_answered_from_the_cache() -> None:
    """Promises Z4, C2: the tenant is part of the cache key."""
    relay = owner()
    acme, beta = holder(relay, tenant="acme"), holder(relay, tenant="beta")
    for _ in range(3):
        acme.invoke("retrieval.search", {"query": "plan"})

    hits = [
        sum(each.cache_hits for each in who.capabilities().capabilities) for who in (acme, beta)
    ]

    assert hits == [2, 0]
    assert not beta.invoke("retrieval.search", {"query": "plan"}).cache_hit


def test_a_limited_key_sends_no_signal_by_a_detour() -> None:
    """Promise Z1: also where the channel is chosen by the verb itself."""
    relay = owner()
    thread = relay.new_thread("campaign")
    thread.patch([fact("a", 1, id="f1")])
    limited = holder(relay, threads=("camp",), channels=("war",))

    with pytest.raises(Refused) as refused:
        limited.thread(thread.id).hand_off("scout", "go")

    assert refused.value.status == 403
    assert relay.channels().channels == []
    limited.thread(thread.id).hand_off("scout", "go", channel="war room")
    assert [each.name for each in relay.channels().channels] == ["war room"]


def test_a_thread_that_a_limited_key_removes_takes_nothing_from_those_it_does_not_see() -> None:
    """Promise Z1."""
    relay = owner()
    thread = relay.new_thread("campaign")
    artifact = relay.push("content", thread=thread.id)
    fork = thread.fork(name="other")
    limited = holder(relay, threads=("camp",))

    limited.thread(thread.id).remove()

    assert relay.pull(artifact.ref) == b"content"
    assert [each.ref for each in fork.artifacts()] == [artifact.ref]


def test_a_sweep_goes_through_every_space() -> None:
    """Promise Z4."""
    clock = Clock()
    relay = owner(clock)
    acme = holder(relay, tenant="acme")
    gone = acme.push("x" * 50_000, ttl_s=60)
    kept = acme.push("kept", ttl_s=None)
    clock.pass_ms(DAY_MS)

    report = relay.sweep()

    assert (report.expired, report.freed_bodies) == (1, 1)
    with pytest.raises(Gone):
        acme.peek(gone.ref)
    assert acme.pull(kept.ref) == b"kept"
    assert relay.verify().problem_count == 0


def test_the_owner_counts_checks_and_saves_what_tenants_have(tmp_path: Path) -> None:
    """Promise Z4."""
    body = b"y" * 100_000
    with Relay(tmp_path / "one") as relay:
        theirs = relay.new_key(tenant="acme")
        acme = as_seen_by(relay, theirs.key)
        ref = acme.push(body, ttl_s=None).ref
        acme.thread("plan").patch([fact("a", 1, id="f1")])
        relay.sweep()
        assert relay.survey().artifacts == 1
        assert relay.verify().problem_count == 0
        relay.backup(tmp_path / "backup.tar")

    with Relay(tmp_path / "two") as restored:
        restored.restore(tmp_path / "backup.tar")

        assert as_seen_by(restored, theirs.key).pull(ref) == body
        assert as_seen_by(restored, theirs.key).thread("plan").show().version == 2
        with pytest.raises(NotFound):
            restored.peek(ref)
        assert restored.verify().problem_count == 0


def test_verify_finds_what_is_wrong_in_a_tenants_space() -> None:
    """Promise Z4."""
    relay = owner()
    acme = holder(relay, tenant="acme")
    ref = acme.push("content").ref
    ledger = stores_of(relay).ledger

    ledger.commit(Write(f"x/acme/a/{ref}", rows=(Row("artifact", "-", b"{"),)))

    assert [problem.ref for problem in relay.verify().problems] == [ref]
