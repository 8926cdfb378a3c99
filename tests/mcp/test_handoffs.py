"""Packing and handoffs for models."""

from __future__ import annotations

import json
from typing import Any

from mcp import Client

from contextrelay import Relay
from tests.mcp.connecting import Place, bad, good


async def begin(client: Client) -> None:
    await client.call_tool("relay_thread_new", {"name": "orders"})
    for text in ("orders live in PostgreSQL 16", "the office closes at six"):
        entry = {"thread": "orders", "kind": "fact", "text": text}
        await client.call_tool("relay_state_add", entry)


def test_a_handoff_goes_from_one_model_to_another_and_back(place: Place) -> None:
    """Promises K7, M1: give, list, look, accept, return; refs by their URLs."""

    async def act(client: Client) -> dict[str, Any]:
        await begin(client)
        pushed = await client.call_tool("push_context", {"data": "# Spec\n\n## Payments\n"})
        url = pushed.structured_content["url"]
        asked = {"thread": "orders", "to": "coder", "ask": "Where do orders live?", "refs": [url]}
        given = await client.call_tool("relay_handoff_give", asked | {"budget_tokens": 300})
        ref = given.structured_content["ref"]
        return {
            "ref": ref,
            "listed": await client.call_tool("relay_handoff_list", {"to": "coder"}),
            "shown": await client.call_tool("relay_handoff_show", {"ref": ref}),
            "why": await client.call_tool("relay_handoff_show", {"ref": ref, "why": True}),
            "taken": await client.call_tool("relay_handoff_accept", {"ref": ref}),
            "open": await client.call_tool("relay_handoff_list", {"is_open": True}),
            "back": await client.call_tool(
                "relay_handoff_return", {"ref": ref, "text": "In the cellar.", "name": "a.txt"}
            ),
        }

    answer = place.run(act)

    assert json.loads(good(answer["listed"]))["handoffs"][0]["ref"] == answer["ref"]
    assert "orders live in PostgreSQL 16" in good(answer["taken"])
    assert "Payments" in good(answer["taken"])
    assert good(answer["shown"]) == good(answer["taken"])
    assert "kept: relevance" in good(answer["why"])
    assert json.loads(good(answer["open"]))["handoffs"] == []
    with Relay(place.store) as relay:
        view = relay.handoff(answer["ref"])
        result = answer["back"].structured_content["ref"]
        assert view.returned == (result,)
        assert [each.by for each in view.accepted] == ["mcp"]
        assert relay.pull(result) == b"In the cellar."


def test_a_thread_is_packed_for_a_model_within_its_budget(stdio: Place) -> None:
    """Promises K5, M1."""

    async def act(client: Client) -> list[Any]:
        await begin(client)
        asked = {"thread": "orders", "query": "where do orders live", "budget_tokens": 22}
        small = await client.call_tool("relay_pack", asked)
        return [small, await client.call_tool("relay_pack", asked | {"budget_tokens": 0})]

    packed, refused = stdio.run(act)

    assert "Fact: note: orders live in PostgreSQL 16" in good(packed)
    assert "office" not in good(packed)
    assert "left out, over the budget: facts/f" in good(packed)
    assert bad(refused).startswith("Error: ")
