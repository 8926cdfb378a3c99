"""Who may ask what, decided by a table and a key alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from contextrelay.logic.access.permissions import (
    LEVELS,
    Touched,
    complaint,
    is_good,
    may_ask,
    sees_channel,
    sees_thread,
)
from contextrelay.model.artifact import in_ms, moment
from contextrelay.model.key import Key
from tests.core.keyed import EVERY_VERB

NOW = datetime(2026, 11, 16, tzinfo=UTC)
KEY = Key(
    id="0123456789ab",
    name=None,
    scope="write",
    tenant=None,
    threads=(),
    channels=(),
    quota_bytes=None,
    requests_per_minute=None,
    created_at=NOW,
    expires_at=None,
)
# What a mistake in the table would be worst for is written down twice.
OWNERS = {"Sweep", "Verify", "Backup", "Restore", "Survey", "MirrorThread", "AdoptState"}
ADMINS = {"NewKey", "ListKeys", "RevokeKey", "ReadUsage", "PurgeCache", "RebuildSearch"}


def key(**changed: Any) -> Key:
    return replace(KEY, **changed)


def test_every_verb_has_a_place_in_the_table_and_nothing_else_has() -> None:
    """Promise Z1: who adds a verb says who may ask it."""
    assert set(LEVELS) == {kind.__name__ for kind in EVERY_VERB}


def test_what_is_in_no_table_needs_an_admin_of_the_whole_store() -> None:
    """Promise Z1."""
    assert not may_ask(key(scope="write"), "Fly")
    assert not may_ask(key(scope="admin", tenant="acme"), "Fly")
    assert may_ask(key(scope="admin"), "Fly")


def test_what_could_do_most_harm_needs_most() -> None:
    """Promise Z1."""
    assert {name for name, level in LEVELS.items() if level == "owner"} == OWNERS
    assert {name for name, level in LEVELS.items() if level == "admin"} == ADMINS


@pytest.mark.parametrize("verb", sorted(LEVELS))
def test_a_scope_has_all_that_is_below_it_and_nothing_above(verb: str) -> None:
    """Promise Z1: read, write, admin."""
    by_rank = [key(scope="read"), key(), key(scope="admin", tenant="acme"), key(scope="admin")]
    needed = ["read", "write", "admin", "owner"].index(LEVELS[verb])

    assert [may_ask(each, verb) for each in by_rank] == [rank >= needed for rank in range(4)]


def test_a_key_for_some_threads_and_channels_writes_only_there() -> None:
    """Promise Z1: by thread or channel prefix."""
    limited = key(threads=("release/",), channels=("ci-",))

    assert complaint(limited, "Publish", Touched(channels=("ci-1",))) is None
    assert complaint(limited, "Publish", Touched(channels=("ci",))) is not None
    assert complaint(limited, "PushMany", Touched(channels=("ci-1", "room"))) is not None
    assert complaint(limited, "NewThread", Touched(names=("release/2",))) is None
    assert complaint(limited, "NewThread", Touched(names=("other",))) is not None
    assert complaint(limited, "NewThread", Touched(names=(None,))) is not None
    assert complaint(limited, "Push", Touched(loose=1)) is not None
    assert complaint(key(), "Push", Touched(("room",), (None,), 1)) is None


def test_a_key_for_channels_alone_has_no_thread_and_one_for_threads_no_channel() -> None:
    """Promise Z1."""
    thread = "00000000-0000-4000-8000-000000000000"

    assert not sees_thread(key(channels=("ci",)), thread, "ci")
    assert not sees_channel(key(threads=("ci",)), "ci")
    assert sees_thread(key(threads=(thread,)), thread, None)
    assert not sees_thread(key(threads=("0",)), thread, None)


def test_a_key_is_good_until_it_expires_or_is_revoked() -> None:
    """Promise Z1: expiry, revocation."""
    now_ms = in_ms(NOW)
    expiring = key(expires_at=moment(now_ms + 1))

    assert is_good(KEY, now_ms)
    assert is_good(expiring, now_ms)
    assert not is_good(expiring, now_ms + 1)
    assert not is_good(key(revoked_at=NOW), now_ms)
