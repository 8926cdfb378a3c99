"""What a key costs: the same requests with a key, and without one.

One server, which takes both; 16 connections that stay open. A key of the owner, and one of a
tenant, whose part of the store has the same content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.http.load import Pushes, compared, gets
from bench.http.pulls import METADATA, text
from bench.http.servers import check_parts, relay
from bench.measure import Curve, Result
from contextrelay import Relay

BODIES = 32
SIZE = 1_000


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    check_parts("wrk")
    with relay(folder / "store") as server, Relay(server.url) as owner:
        plain = _refs(owner)
        tokens = {
            "a key": owner.new_key().token,
            "a tenant's key": owner.new_key(tenant="acme").token,
        }
        for who, token in tokens.items():
            with Relay(server.url, api_key=token) as theirs:
                refs = _refs(theirs)
            for verb, query in (("pull", "?raw=1"), ("peek", "")):
                ours = gets(server, [f"/{verb}/{ref}{query}" for ref in refs], token=token)
                anchor = gets(server, [f"/{verb}/{ref}{query}" for ref in plain])
                yield from compared(f"{verb} 1 KB with {who} / without", ours, anchor, 0.8)
        rest = text(SIZE, 0)
        ours = Pushes(server, rest, as_json=True, token=tokens["a key"])
        anchor = Pushes(server, rest, as_json=True)
        yield from compared("push 1 KB with a key / without", ours, anchor, 0.8)


def _refs(relay: Relay) -> list[str]:
    bodies = [text(SIZE, seed) for seed in range(BODIES)]
    return [relay.push(each, metadata=METADATA, ttl_s=None).ref for each in bodies]
