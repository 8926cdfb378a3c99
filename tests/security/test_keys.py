"""Ways around keys: what a holder of one might try to get, or to keep, past what it is for."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import Any

import pytest

from contextrelay import Full, Invalid, NotFound, Relay, RelayError
from contextrelay.client.transport.local import AsyncLocal
from contextrelay.core.answer import answer
from contextrelay.errors import Refused
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.server.auth import Callers, Visitor
from contextrelay.state.schema import fact
from contextrelay.verbs import (
    AcceptHandoff,
    ExportThread,
    ImportThread,
    Push,
    PushMany,
    RevokeKey,
    Slice,
)
from tests.core.keyed import holder, owner, stores_of


def used(relay: Relay) -> int:
    (key,) = relay.keys().keys
    return relay.usage(key.id).pushed_bytes


# Quotas


def test_many_pushes_that_fail_in_the_end_count_as_far_as_they_are_stored() -> None:
    """Promise Z1: quota."""
    relay = owner()
    writer = holder(relay, quota_bytes=1500)
    many = PushMany(items=[Push()] * 1001, sizes=[1] * 1001)

    for refused in (Invalid, Full, Full):
        with pytest.raises(refused):
            answer(stores_of(writer), many, b"x" * 1002)

    assert used(relay) == len(writer.list(1000).artifacts) == 1000


def archive(relay: Relay, name: str, size_bytes: int) -> bytes:
    thread = relay.new_thread(name)
    line = "what was packed counts as what it is: "
    body = "".join(f"{line}{number}\n" for number in range(size_bytes // len(line)))
    relay.push(body[:size_bytes], thread=thread.id)
    return answer(stores_of(relay), ExportThread(thread.id)).whole()


def test_an_archive_counts_as_the_bodies_that_are_in_it() -> None:
    """Promise Z1: quota, however well it is packed."""
    relay = owner()
    packed = archive(relay, "large", 100_000)
    assert len(packed) < 50_000
    writer = holder(relay, quota_bytes=150_000)

    answer(stores_of(writer), ImportThread(name="one"), packed)
    with pytest.raises(Full) as refused:
        answer(stores_of(writer), ImportThread(name="two"), packed)

    assert refused.value.status == 402
    assert used(relay) == 100_000
    assert {each.name for each in relay.threads().threads} == {"one", "large"}


def test_an_archive_that_is_refused_does_not_count() -> None:
    """Promise Z1: quota."""
    relay = owner()
    packed = io.BytesIO(archive(relay, "large", 10_000))
    with zipfile.ZipFile(packed, "a") as changed:
        changed.writestr("more.txt", b"more")
    writer = holder(relay, quota_bytes=150_000)

    with pytest.raises(Invalid):
        answer(stores_of(writer), ImportThread(), packed.getvalue())

    assert used(relay) == 0


# Threads that a key is not for


def test_who_makes_a_handoff_up_writes_to_no_thread_by_accepting_it() -> None:
    """Promise Z1: thread and channel prefixes."""
    relay = owner()
    thread = relay.new_thread("campaign")
    thread.patch([fact("plan", "attack", id="f1")])
    real = thread.hand_off("scout", "go", channel="ci-told")
    limited = holder(relay, channels=("ci-",))
    made_up = limited.push(
        limited.pull(real.ref), channel="ci-1", type="json", media_type=HANDOFF_MEDIA_TYPE
    )
    before = thread.events()

    with pytest.raises(NotFound):
        answer(stores_of(limited), AcceptHandoff(made_up.ref, by="me"))

    assert thread.events() == before
    assert (
        answer(stores_of(limited), AcceptHandoff(real.ref, by="me")).accepted[0].by.endswith("/me")
    )


def test_a_limited_key_leaves_nothing_that_belongs_nowhere_by_an_import() -> None:
    """Promise Z1: what it stores is in its threads or told to its channels."""
    relay = owner()
    packed = archive(relay, "large", 1_000)
    before = relay.list().artifacts
    limited = holder(relay, threads=("large",), quota_bytes=5_000)

    with pytest.raises(Refused) as refused:
        answer(stores_of(limited), ImportThread(name="large 2"), packed)

    assert refused.value.status == 403
    assert relay.list().artifacts == before


# What others have looked into


def test_nothing_reveals_that_another_tenant_has_looked_into_the_same_bytes() -> None:
    """Promise Z4."""
    relay = owner()
    body = "key = value\n" * 5_000
    reply: list[Any] = []

    for tenant in ("acme", "beta"):
        its = holder(relay, tenant=tenant)
        if tenant == "acme":
            looked = its.push(body, name="settings.ini", type="text", media_type="text/plain")
            its.outline(looked.ref)
            its.savings()  # Everything that was noted is written before this is answered.
        artifact = its.push(body, name="notes.txt", type="text", media_type="text/plain")
        its.pull(artifact.ref)
        if tenant == "acme":
            continue
        slice_of = answer(stores_of(its), Slice(artifact.ref, lines="1:2"))
        reply += [its.savings().whole.basis, slice_of.spent.basis, its.outline(artifact.ref).kind]

        its.savings()

    assert reply == ["estimated", "estimated", "text"]
    (log,) = stores_of(relay).ledger.logs("b/", "", 10)
    assert len(stores_of(relay).ledger.rows(log, "looked", "", 10)) == 2


def test_what_was_found_out_goes_with_the_last_who_has_the_bytes() -> None:
    """Promise Z4: of content that is gone no quote is left, whoever looked."""
    relay = owner()
    body = "# Secret heading\n" * 50
    everybody = [relay, holder(relay, tenant="acme"), holder(relay, tenant="beta")]
    pushed = [each.push(body, name="n.md") for each in everybody]
    for each, artifact in zip(everybody, pushed, strict=True):
        each.outline(artifact.ref)

    for each, artifact in zip(everybody, pushed, strict=True):
        each.remove(artifact.ref)

    (log,) = stores_of(relay).ledger.logs("b/", "", 10)
    assert stores_of(relay).ledger.rows(log, "looked", "", 10) == []


# Keys that end


def asked_of(relay: Relay) -> Callers:
    """Callers of a store whose reads wait, as those of a server elsewhere do."""
    stores = stores_of(relay)
    stores.ledger.reads_wait = True
    return Callers(AsyncLocal(stores), needs_token=True)


def test_who_comes_twice_at_once_is_known_as_one() -> None:
    """Promise Z1: revocation; else the end of the key would reach only the later of them."""
    relay = owner()
    token = relay.new_key().token

    async def come() -> tuple[Visitor, ...]:
        callers = asked_of(relay)
        return tuple(await asyncio.gather(*(callers.admit(token, "") for _ in range(5))))

    assert len(set(asyncio.run(come()))) == 1


def test_who_was_let_in_just_before_the_key_ended_does_not_stay() -> None:
    """Promise Z1: revocation."""
    relay = owner()
    made = relay.new_key()
    reply: list[RelayError] = []

    async def come() -> None:
        callers = asked_of(relay)
        visitor = await callers.admit(made.token, "")
        answer(stores_of(relay), RevokeKey(made.key.id))
        visitor.checked_s = 0.0
        with pytest.raises(Refused):
            await callers.admit(made.token, "")
        with visitor.track_connection(reply.append):
            pass

    asyncio.run(come())

    assert [error.status for error in reply] == [401]
