"""Slice, grep and diff over bare HTTP, as anybody's client asks for them."""

from __future__ import annotations

import httpx2

from tests.server.serving import Served

TEXT = b"".join(b"line %d\n" % number for number in range(1, 201))


def pushed(served: Served, body: bytes, **query: str) -> str:
    reply = httpx2.post(f"{served.url}/v1/artifacts", content=body, params=query)
    assert reply.status_code == 201
    return reply.json()["ref"]


def test_a_piece_is_asked_for_in_the_query(served: Served) -> None:
    """Promise L4."""
    place = f"{served.url}/v1/artifacts/{pushed(served, TEXT)}/slice"

    piece = httpx2.get(place, params={"lines": "7:", "tokens_max": "20"}).json()
    following = httpx2.get(place, params=piece["next_args"]).json()

    assert piece["text"].startswith("line 7\n")
    assert piece["spent"]["tokens"] <= 20
    assert following["text"].startswith("line 12\n")


def test_a_pattern_is_looked_for_in_one_ref_or_in_all(served: Served) -> None:
    """Promise L4."""
    ref = pushed(served, TEXT)
    asked = {"pattern": "^line 7$", "context": "1"}

    one = httpx2.get(f"{served.url}/v1/artifacts/{ref}/grep", params=asked).json()
    every = httpx2.get(f"{served.url}/v1/grep", params=asked).json()

    assert one["text"] == "6- line 6\n7: line 7\n8- line 8\n"
    assert one["matches"] == every["matches"]
    assert every["matches"][0]["ref"] == ref


def test_several_patterns_are_a_json_list(served: Served) -> None:
    """Promise L3."""
    ref = pushed(served, TEXT)
    url = f"{served.url}/v1/artifacts/{ref}/grep"

    several = httpx2.get(url, params={"pattern": '["9$","^line 19"]', "matches_max": "1"}).json()
    one = httpx2.get(url, params={"pattern": '["9]$', "matches_max": "1"}).json()

    assert several["text"] == "19: line 19\n"
    assert one["text"] == "9: line 9\n"


def test_a_wrong_combination_is_a_clear_400(served: Served) -> None:
    """Promise L2."""
    place = f"{served.url}/v1/artifacts/{pushed(served, TEXT)}"

    two = httpx2.get(f"{place}/slice", params={"lines": "1:2", "bytes": "1:2"})
    none = httpx2.get(f"{place}/slice")
    bad = httpx2.get(f"{place}/grep", params={"pattern": r"(a)\1"})

    assert [reply.status_code for reply in (two, none, bad)] == [400, 400, 400]
    assert "lines and bytes" in two.json()["detail"]
    assert "RE2" in bad.json()["hint"]
    assert httpx2.get(f"{place}/slice", params={"heading": "x"}).status_code == 400
    assert httpx2.get(f"{place}/slice", params={"symbol": "x"}).status_code == 404
