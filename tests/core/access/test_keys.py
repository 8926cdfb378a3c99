"""Keys are kept as hashes, found by their tokens, counted, revoked and forgotten."""

from __future__ import annotations

import string
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay import (
    Broken,
    Full,
    Invalid,
    NotFound,
    Refused,
    Relay,
    RelayError,
    Unavailable,
)
from contextrelay.client.transport.local import Local
from contextrelay.core import FoundKey, find_key
from contextrelay.core.access import KEY_FORGOTTEN_S
from contextrelay.core.stores import Stores
from contextrelay.model.key import parse_key_id, token_hash
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.store.ledger.view import LedgerView, SettledLedger
from contextrelay.verbs import ExportThread, ImportThread, Push
from tests.core.clock import Clock, local
from tests.core.keyed import as_seen_by, holder, over, owner, stores_of
from tests.store.stutter import Stopped, StutterLedger

SECRET_START = len("relay_0123456789ab_")


def test_a_token_is_found_by_itself_and_by_nothing_like_it() -> None:
    """Promise Z1: constant-time compare of hashes."""
    relay = owner()
    made, other = relay.new_key(), relay.new_key()
    stores = stores_of(relay)
    found = find_key(stores, made.token)

    assert found is not None
    assert found.key == made.key
    assert found.is_current(stores)
    mixed = made.token[:SECRET_START] + other.token[SECRET_START:]
    assert find_key(stores, mixed) == FoundKey(found.row, None)
    assert find_key(stores, "relay_") is None


def test_no_part_of_a_token_is_kept(tmp_path: Path) -> None:
    """Promise Z1: tokens kept as hashes."""
    with Relay(tmp_path) as relay:
        made = relay.new_key(name="reader", scope="read")
        relay.backup(tmp_path / "backup.tar")

    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert token_hash(made.token).encode() in written
    assert made.token[SECRET_START:].encode() not in written
    assert made.token.encode() not in written


WRONG = st.one_of(
    st.text(max_size=100),
    st.text(string.hexdigits + "_relay", max_size=200),
    st.from_regex(r"relay_[0-9a-f]{0,20}_[0-9a-f]{0,60}\n?", fullmatch=True),
)


@given(WRONG)
def test_what_is_no_token_is_nobodys(text: str) -> None:
    """Promise Z1: tokens of every wrong length and alphabet."""
    is_one = (
        len(text) == SECRET_START + 48
        and text.startswith("relay_")
        and text[18] == "_"
        and not set(text[6:18] + text[19:]) - set("0123456789abcdef")
    )

    assert (parse_key_id(text) is not None) == is_one


def test_a_revoked_key_stays_listed_and_is_forgotten_in_time() -> None:
    """Promise Z1: revocation."""
    clock = Clock()
    relay = owner(clock)
    made = relay.new_key()

    revoked = relay.revoke_key(made.key.id)

    assert revoked.revoked_at is not None
    assert relay.revoke_key(made.key.id) == revoked
    assert relay.keys().keys == [revoked]
    clock.pass_ms(KEY_FORGOTTEN_S * 1000 + 1)
    relay.sweep()
    assert relay.keys().keys == []
    with pytest.raises(NotFound):
        relay.usage(made.key.id)


def test_an_admin_of_a_tenant_looks_after_its_keys_alone() -> None:
    """Promise Z1. Promise Z4."""
    relay = owner()
    others = relay.new_key(tenant="beta").key
    admin = holder(relay, scope="admin", tenant="acme")

    made = admin.new_key(scope="admin").key

    assert made.tenant == "acme"
    assert others not in admin.keys().keys
    assert made in admin.keys().keys
    with pytest.raises(Refused, match="another tenant"):
        admin.new_key(tenant="beta")
    for ask in (admin.revoke_key, admin.usage):
        with pytest.raises(NotFound):
            ask(others.id)
    assert others in relay.keys().keys


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "admin", "threads": ("release",)},
        {"tenant": "a/b"},
        {"tenant": ".."},
        {"channels": tuple("abcdefghijklmnopqrstuvwxyz0123456789")},
        {"ttl_s": 0},
    ],
)
def test_what_cannot_be_a_key_is_refused(wrong: dict[str, Any]) -> None:
    """Promise Z1."""
    relay = owner()

    with pytest.raises(Invalid):
        relay.new_key(**wrong)

    assert relay.keys().keys == []


# Quotas


def used(relay: Relay) -> int:
    (key,) = relay.keys().keys
    return relay.usage(key.id).pushed_bytes


def test_a_push_past_the_quota_is_refused_and_pulls_are_not() -> None:
    """Promise Z1: per-token quota."""
    relay = owner()
    writer = holder(relay, quota_bytes=10)
    kept = writer.push("123456")

    with pytest.raises(Full) as refused:
        writer.push("12345")

    assert refused.value.status == 402
    assert writer.pull(kept.ref) == b"123456"
    assert writer.list().artifacts == [writer.peek(kept.ref)]
    assert used(relay) == 6
    writer.push("1234")
    assert used(relay) == 10


@pytest.mark.parametrize("chunk_bytes", [1, 3, 50])
def test_a_body_that_streams_ends_where_the_quota_does(chunk_bytes: int) -> None:
    """Promise Z1."""
    relay = owner()
    writer = holder(relay, quota_bytes=100)
    sent: list[int] = []

    def chunks(size: int) -> Any:
        for start in range(0, size, chunk_bytes):
            sent.append(start)
            yield b"x" * min(chunk_bytes, size - start)

    writer.push(chunks(60))
    with pytest.raises(Full):
        writer.push(chunks(10_000))

    assert len(sent) <= 60 // chunk_bytes + 1 + 40 // chunk_bytes + 2
    assert used(relay) == 60
    assert len(relay.list().artifacts) == 1


def test_what_was_not_stored_does_not_count() -> None:
    """Promise Z1."""
    relay = owner()
    writer = holder(relay, quota_bytes=100)

    with pytest.raises(RelayError):
        writer.push("12345", thread="00000000-0000-4000-8000-000000000000")

    assert used(relay) == 0


class FailingOnce(LedgerView):
    """A ledger that fails at its next commit."""

    failure: Callable[[], None] | None = None
    """Called before the commit."""
    is_unknown = False
    """Whether commits are applied without a reply, and the engine does not answer afterwards."""

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        failure, self.failure = self.failure, None
        if failure is not None:
            failure()
        heads = super().commit(*writes, id=id)
        if self.is_unknown:
            raise Unavailable("no reply", "try again")
        return heads

    def applied(self, id: bytes) -> list[int] | None:
        if self.is_unknown:
            raise Unavailable("no reply", "try again")
        return super().applied(id)


def failing_writer(quota_bytes: int) -> tuple[Relay, Relay, FailingOnce]:
    """Return the owner and the holder of a key with a quota, over a ledger that can fail."""
    ledger = FailingOnce(MemoryLedger())
    relay = over(Local(Stores(Engine("failing", SettledLedger(ledger), MemoryBlobs()))))
    return relay, holder(relay, quota_bytes=quota_bytes), ledger


def fail() -> None:
    raise Unavailable("not reached", "try again")


def fail_unreadable() -> None:
    decode(b"{")


@pytest.mark.parametrize("key", ["", "retry-7"])
@pytest.mark.parametrize("failure", [fail, fail_unreadable])
def test_a_push_that_failed_before_its_commit_is_not_charged(
    key: str, failure: Callable[[], None]
) -> None:
    """Promise Z1: with an idempotency key its retry has the whole quota, too."""
    relay, writer, ledger = failing_writer(1_000)
    ledger.failure = failure

    with pytest.raises((Unavailable, Broken)):
        writer.transport.ask(Push(), b"x" * 1_000, key)

    assert used(relay) == 0
    writer.transport.ask(Push(), b"x" * 1_000, key)
    assert used(relay) == 1_000


@pytest.mark.parametrize("asked", [{}, {"tenant": "acme"}, {"threads": ("a",)}], ids=str)
def test_what_is_charged_is_what_is_stored_wherever_the_process_ends(asked: dict[str, Any]) -> None:
    """Promises Z1 and C3."""
    for stops_after in range(20):
        engine = open_engine("memory:")
        relay = over(local(Clock(), engine))
        made = relay.new_key(quota_bytes=1_000, **asked)
        thread = as_seen_by(relay, made.key).new_thread("a thread")
        ledger = StutterLedger(engine.ledger, stops_after)
        writer = as_seen_by(over(local(Clock(), replace(engine, ledger=ledger))), made.key)
        with suppress(Stopped):
            writer.push("12345", thread=thread.id)
            writer.push("123", thread=thread.id)

        stored = as_seen_by(relay, made.key).list().artifacts
        assert used(relay) == sum(each.size_bytes for each in stored)
        if len(stored) == 2:
            return
    pytest.fail("two pushes are not done after 20 commits")


def test_a_push_whose_outcome_is_unknown_stays_charged() -> None:
    """Promise Z1: never less is charged than is stored."""
    relay, writer, ledger = failing_writer(1_000)
    ledger.is_unknown = True

    with pytest.raises(Unavailable):
        writer.transport.ask(Push(), b"x" * 1_000, "retry-7")

    ledger.is_unknown = False
    assert used(relay) == 1_000
    writer.transport.ask(Push(), b"x" * 1_000, "retry-7")
    assert used(relay) == 1_000
    assert len(relay.list().artifacts) == 1


def test_a_failed_import_that_removes_its_artifacts_is_not_charged() -> None:
    """Promise Z1."""
    relay, writer, ledger = failing_writer(1_000)
    thread = relay.new_thread("exported")
    relay.push(b"x" * 1_000, thread=thread.id)
    archive = relay.transport.ask(ExportThread(thread.id)).whole()

    def fail_later() -> None:
        ledger.failure = fail

    ledger.failure = fail_later
    with pytest.raises(Unavailable):
        writer.transport.ask(ImportThread(), archive)

    assert used(relay) == 0
    writer.transport.ask(ImportThread(), archive)
    assert used(relay) == 1_000


def test_the_same_push_twice_at_once_is_charged_once() -> None:
    """Promises Z1 and Z4."""
    relay, writer, ledger = failing_writer(3_000)

    def push() -> None:
        writer.transport.ask(Push(), b"x" * 1_000, "retry-7")

    ledger.failure = push
    push()

    assert used(relay) == 1_000
    assert len(relay.list().artifacts) == 1


def test_many_pushes_and_results_of_capabilities_count_too() -> None:
    """Promise Z1."""
    relay = owner()
    writer = holder(relay, quota_bytes=1000)

    writer.push_many(["123", "4567"])
    found = writer.invoke("retrieval.search", {"query": "nothing"})

    assert used(relay) == 7 + found.preview.size_bytes
    with pytest.raises(Full):
        writer.push_many(["x" * 600, "x" * 600])
    assert len(writer.list().artifacts) == 3


# Asking once


def test_idempotency_keys_of_two_callers_never_meet() -> None:
    """Promise Z4."""
    relay = owner()
    one, two = relay.new_key(), relay.new_key()
    relays = [relay, as_seen_by(relay, one.key), as_seen_by(relay, two.key)]
    relays += [holder(relay, tenant="acme"), holder(relay, tenant="beta")]

    refs = {each.once("same").push("content").ref for each in relays}

    assert len(refs) == 5
    for each in relays:
        assert each.once("same").push("content").ref in refs
