"""Eviction: whether a server deletes what is stored where its memory is used up."""

from __future__ import annotations

from contextrelay.store.redis.client import RedisClient

_NEXT = "set it with CONFIG SET maxmemory-policy noeviction"


def evicting(client: RedisClient) -> list[str]:
    """What to say of a server that may delete keys now, each with the next step."""
    return [
        f"the store's server may delete what is stored: maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=True)
    ]


def evicting_later(client: RedisClient) -> list[str]:
    """What to say of a server that would, as soon as it has a maxmemory."""
    return [
        "the store's server would delete what is stored once it has a maxmemory: "
        f"maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=False)
    ]


def _policies(client: RedisClient, *, limited: bool) -> list[str]:
    """The policies that delete ours; those with a time to go only guard a write (GUARD)."""
    found = client.ask("INFO", "memory")
    nodes = [found] if "maxmemory" in found else list(found.values())
    bad = ("allkeys", "volatile") if client.is_guarded else "allkeys"
    said = {
        node.get("maxmemory_policy", "") for node in nodes if bool(node["maxmemory"]) is limited
    }
    return sorted(policy for policy in said if policy.startswith(bad))
