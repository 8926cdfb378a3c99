"""Keys through the clients: made, listed, used up, revoked, on every leg."""

from __future__ import annotations

from contextrelay import Relay


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
