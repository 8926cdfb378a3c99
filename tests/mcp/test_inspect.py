"""Pieces of artifacts for models, and search."""

from __future__ import annotations

from typing import Any

from mcp import Client

from contextrelay import Relay
from tests.mcp.connecting import Place, bad, good, unfenced

LOG = "".join(
    f"{index:05} ERROR disk full\n" if index % 1000 == 7 else f"{index:05} all is well\n"
    for index in range(10_000)
)
JSON = '{"users": [{"name": "ann"}, {"name": "bob"}]}'
NOTES = "# Plan\n\nfirst\n\n# Risks\n\nthe disk may be full\n"


def test_every_kind_of_piece_is_read_without_loading_the_rest(place: Place) -> None:
    """Promise M1. Promise L4."""
    with Relay(place.store) as relay:
        log = relay.push(LOG, name="server.log").ref
        document = relay.push(JSON, name="users.json").ref
        notes = relay.push(NOTES, name="notes.md").ref

    async def act(client: Client) -> list[str]:
        asked: list[dict[str, Any]] = [
            {"url": log, "lines": "8:10"},
            {"url": log, "grep": "ERROR", "tokens_max": 200},
            {"url": document, "json_pointer": "/users/1/name"},
            {"url": notes, "heading": "Risks"},
            {"url": notes, "outline": True},
            {"url": log},
        ]
        return [good(await client.call_tool("relay_get", each)) for each in asked]

    lines, found, pointed, section, outline, digest = place.run(act)

    assert unfenced(lines) == "00007 ERROR disk full\n00008 all is well"
    assert "8: 00007 ERROR disk full" in found
    assert "bob" in unfenced(pointed).splitlines()[0]
    assert "ann" not in pointed
    assert "the disk may be full" in section
    assert "first" not in section
    assert "Plan" in outline
    assert "Risks" in outline
    assert "ERROR disk full" in digest
    assert max(map(len, (lines, found, pointed, section, outline, digest))) < 20_000


def test_a_long_piece_says_how_to_read_on_and_that_works(stdio: Place) -> None:
    """Promise M1."""
    with Relay(stdio.store) as relay:
        log = relay.push(LOG).ref

    answer = good(stdio.call("relay_get", url=log, lines="1:5000", tokens_max=100))

    assert "left out: " in answer
    following = answer.rpartition('read on: relay_get lines="')[2].partition('"')[0]
    first = int(following.partition(":")[0])
    more = good(stdio.call("relay_get", url=log, lines=following, tokens_max=100))
    assert unfenced(more).startswith(f"{first - 1:05} ")
    assert f"{first - 2:05} " in answer


def test_two_pieces_at_once_are_refused(stdio: Place) -> None:
    """Promise M1."""
    with Relay(stdio.store) as relay:
        log = relay.push(LOG).ref

    answer = bad(stdio.call("relay_get", url=log, lines="1:2", grep="x"))

    assert (
        answer
        == "Error: only one piece can be requested at a time. Next: pass one of these options."
    )


def test_search_finds_what_was_stored_with_its_ref(place: Place) -> None:
    """Promise M1. Promise L4."""
    with Relay(place.store) as relay:
        notes = relay.push(NOTES, name="notes.md").ref
        relay.push("something about gardens", name="garden.txt")

    answer = good(place.call("relay_search", query="disk full risk"))

    assert notes[:8] in answer
    assert "disk" in answer
    assert "garden" not in answer
