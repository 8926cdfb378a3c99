"""What the tests of seed 002's REST say and hear: a fact, a patch, an error."""

from __future__ import annotations

from typing import Any

import httpx2

FACT: dict[str, Any] = {
    "op": "add",
    "path": "/facts/-",
    "value": {"id": "f1", "key": "ships", "value": "Friday"},
}


def patch(web: httpx2.Client, thread: str, body: Any, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.post(f"/threads/{thread}/state/patch", json=body, headers=named)


def error_of(reply: httpx2.Response) -> str:
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert problem["status"] == reply.status_code
    return problem["error"]


def bearer(token: str) -> dict[str, str]:
    """The header that brings a token."""
    return {"authorization": f"Bearer {token}"}
