"""Pushes with fields of ours, or nearly so: taken, as seed 000 takes them, with a warning."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest


@pytest.mark.parametrize(
    ("field", "meant"),
    [("chanel", "channel"), ("Channel", "channel"), ("meta", "metadata"), ("thread_id", "thread")],
)
def test_a_field_that_is_nearly_one_of_ours_is_warned_of(
    web: httpx2.Client, field: str, meant: str
) -> None:
    """Promise R1: what the seed takes is taken, but nothing is lost in silence."""
    reply = web.post("/push", json={"data": "x", "unrelated": 1, field: "ci"})

    assert reply.status_code == 200
    assert reply.json()["warnings"] == [f'unknown field "{field}": did you mean "{meant}"?']
    assert reply.headers["x-relay-warning"] == reply.json()["warnings"][0]


def test_fields_of_the_seed_and_foreign_ones_are_not_warned_of(web: httpx2.Client) -> None:
    """Promise R1."""
    sent: dict[str, Any] = {"data": "x", "channel": "ci", "metadata": {"chanel": 1}, "ttl": 60}
    for more in (
        {},
        {"date": "today"},
        {"model": "m"},
        {"channels": 0},
        {str(n): n for n in range(999)},
    ):
        reply = web.post("/push", json={**sent, **more})

        assert reply.json().keys() == {"url", "id", "channel"}
        assert "x-relay-warning" not in reply.headers


def test_a_warning_is_bounded_and_cannot_become_a_header(web: httpx2.Client) -> None:
    """Promise R1. Promise Z3."""
    odd = [
        "channel\r\nset-cookie: a=b",
        "channel" + "l" * 9_000,
        "chännel",
        *(f"ttl{n}" for n in range(99)),
    ]
    reply = web.post("/push", json={"data": "x", **dict.fromkeys(odd, "ci")})
    many = web.post(
        "/push", json={"data": "x", "chanel": "ci", **{str(n): 0 for n in range(50_000)}}
    )

    assert (reply.status_code, many.status_code) == (200, 200)
    assert len(reply.content) < 2_000
    assert len(reply.headers["x-relay-warning"]) < 2_000
    assert "set-cookie" not in reply.headers


def test_the_versioned_routes_refuse_it(web: httpx2.Client) -> None:
    """Promise U1."""
    reply = web.post("/v1/artifacts", params={"chanel": "ci"}, content=b"x")

    assert reply.status_code == 400
    assert "chanel" in reply.json()["error"]


def test_a_push_may_name_and_type_its_content(web: httpx2.Client) -> None:
    """Promise R1."""
    sent = {"data": "a,b\n1,2\n", "name": "orders.csv", "type": "csv"}
    made = web.post("/push", json=sent)

    artifact = web.get(f"/v1/artifacts/{made.json()['id']}").json()

    assert made.json().keys() == {"url", "id", "channel"}
    assert (artifact["name"], artifact["type"]) == ("orders.csv", "csv")


@pytest.mark.parametrize(
    ("field", "value", "warning"),
    [
        ("type", "nonsense", "markdown, json, html"),
        ("type", "x" * 9_999, "markdown, json, html"),
        ("name", ["a"], "1 to 255 characters"),
    ],
)
def test_a_wrong_name_or_type_is_left_out_and_warned_of(
    web: httpx2.Client, field: str, value: object, warning: str
) -> None:
    """Promise R1: the seed ignores fields that it does not know."""
    made = web.post("/push", json={"data": "text", field: value})

    assert made.status_code == 200
    assert warning in made.json()["warnings"][0]
    assert made.headers["x-relay-warning"] == made.json()["warnings"][0]
    artifact = web.get(f"/v1/artifacts/{made.json()['id']}").json()
    assert (artifact["name"], artifact["type"]) == (None, "text")
