"""Eviction: whether a server deletes stored data when its memory is full."""

from __future__ import annotations

from contextrelay.store.redis.client import RedisClient

_NEXT = "set it with CONFIG SET maxmemory-policy noeviction"


def eviction_warnings(client: RedisClient) -> list[str]:
    """Return warnings about a server that may delete keys now, each with the next step."""
    return [
        f"the store's server may delete stored data: maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=True)
    ]


def later_eviction_warnings(client: RedisClient) -> list[str]:
    """Return warnings about a server that would delete keys as soon as a maxmemory is set."""
    return [
        "the store's server would delete stored data once it has a maxmemory: "
        f"maxmemory-policy is {policy}; {_NEXT}"
        for policy in _policies(client, limited=False)
    ]


def _policies(client: RedisClient, *, limited: bool) -> list[str]:
    """Return the policies that delete keys of a store.

    Keys with a TTL do not count: they only guard a write (GUARD).
    """
    found = client.ask("INFO", "memory")
    nodes = [found] if "maxmemory" in found else list(found.values())
    bad = ("allkeys", "volatile") if client.is_guarded else "allkeys"
    said = {
        node.get("maxmemory_policy", "") for node in nodes if bool(node["maxmemory"]) is limited
    }
    return sorted(policy for policy in said if policy.startswith(bad))
