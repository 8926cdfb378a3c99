"""Keys through the clients: made, listed, used up, revoked, on every leg."""

from __future__ import annotations

import pytest

from contextrelay import Invalid, NotFound, Relay


def test_a_key_is_made_listed_and_revoked(relay: Relay) -> None:
    """Promise Z1."""
    made = relay.new_key(
        name="ci",
        scope="read",
        tenant="acme",
        channels=("ci-",),
        ttl_s=3600,
        quota_bytes=10,
        requests_per_minute=60,
    )

    assert made.token.startswith(f"relay_{made.key.id}_")
    assert relay.keys().keys == [made.key]
    assert (made.key.name, made.key.scope, made.key.tenant) == ("ci", "read", "acme")
    assert (made.key.channels, made.key.quota_bytes) == (("ci-",), 10)

    revoked = relay.revoke_key(made.key.id)

    assert revoked.revoked_at is not None
    assert relay.keys().keys == [revoked]


def test_what_was_done_with_a_key_begins_with_nothing(relay: Relay) -> None:
    """Promise Z1: usage."""
    made = relay.new_key()

    usage = relay.usage(made.key.id)

    assert (usage.requests, usage.bytes_in, usage.bytes_out, usage.pushed_bytes) == (0, 0, 0, 0)
    assert usage.last_used_at is None


def test_a_key_that_is_not_there_is_reported(relay: Relay) -> None:
    for ask in (relay.revoke_key, relay.usage):
        with pytest.raises(NotFound):
            ask("000000000000")
        with pytest.raises(Invalid):
            ask("../../etc/passwd")
