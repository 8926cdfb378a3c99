"""Who may ask what, decided by what a verb needs and a key alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from contextrelay.access import (
    Targets,
    denial_reason,
    has_level,
    is_valid,
    sees_channel,
    sees_thread,
)
from contextrelay.model.artifact import from_ms, to_ms
from contextrelay.model.key import Key, Level
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
# Where a mistake in the traits would do most harm, they are written down twice.
OWNERS = {
    *("Sweep", "Verify", "Backup", "Restore", "Survey", "MirrorThread", "AdoptState"),
    *("PutHook", "ListHooks", "PutSent", "ReadSent", "ListSent"),
    *("Migrate", "CheckLedger", "TryBlob", "ReadSearchIndex", "CountUse", "KeepKey"),
    *("PutSession", "ReadSession", "DeleteSession"),
}
ADMINS = {"NewKey", "ListKeys", "RevokeKey", "ReadUsage", "PurgeCache", "RebuildSearch"}


def key(**changed: Any) -> Key:
    return replace(KEY, **changed)


def test_what_could_do_most_harm_needs_most() -> None:
    """Promise Z1."""
    by_need = {kind.__name__: kind.traits.needs for kind in EVERY_VERB}

    assert {name for name, needs in by_need.items() if needs == "owner"} == OWNERS
    assert {name for name, needs in by_need.items() if needs == "admin"} == ADMINS


@pytest.mark.parametrize("needs", get_args(Level))
def test_a_scope_has_all_that_is_below_it_and_nothing_above(needs: Level) -> None:
    """Promise Z1: read, write, admin."""
    by_rank = [key(scope="read"), key(), key(scope="admin", tenant="acme"), key(scope="admin")]
    needed = ["read", "write", "admin", "owner"].index(needs)

    assert [has_level(each, needs) for each in by_rank] == [rank >= needed for rank in range(4)]


def test_a_key_for_some_threads_and_channels_writes_only_there() -> None:
    """Promise Z1: by thread or channel prefix."""
    limited = key(threads=("release/",), channels=("ci-",))

    assert denial_reason(limited, "write", Targets(channels=("ci-1",))) is None
    assert denial_reason(limited, "write", Targets(channels=("ci",))) is not None
    assert denial_reason(limited, "write", Targets(channels=("ci-1", "room"))) is not None
    assert denial_reason(limited, "write", Targets(thread_names=("release/2",))) is None
    assert denial_reason(limited, "write", Targets(thread_names=("other",))) is not None
    assert denial_reason(limited, "write", Targets(thread_names=(None,))) is not None
    assert denial_reason(limited, "write", Targets(unplaced=1)) is not None
    assert denial_reason(key(), "write", Targets(("room",), (None,), 1)) is None


def test_a_key_for_channels_alone_has_no_thread_and_one_for_threads_no_channel() -> None:
    """Promise Z1."""
    thread = "00000000-0000-4000-8000-000000000000"

    assert not sees_thread(key(channels=("ci",)), thread, "ci")
    assert not sees_channel(key(threads=("ci",)), "ci")
    assert sees_thread(key(threads=(thread,)), thread, None)
    assert not sees_thread(key(threads=("0",)), thread, None)


def test_a_key_is_good_until_it_expires_or_is_revoked() -> None:
    """Promise Z1: expiry, revocation."""
    now_ms = to_ms(NOW)
    expiring = key(expires_at=from_ms(now_ms + 1))

    assert is_valid(KEY, now_ms)
    assert is_valid(expiring, now_ms)
    assert not is_valid(expiring, now_ms + 1)
    assert not is_valid(key(revoked_at=NOW), now_ms)
