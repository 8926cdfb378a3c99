"""Tokens of an identity provider: taken for what a verifier says, and clients learn of it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay import Relay
from contextrelay.errors import Invalid
from contextrelay.server import auth
from contextrelay.server.token_verifier import Identity
from tests.server.serving import Served, serving

PROVIDER = "https://id.example"
LIMIT = auth.WRONG_TOKENS_PER_MINUTE
VERIFIER = """
known = {
    "good": {"subject": "ada", "scope": "write", "tenant": "acme"},
    "reads": {"subject": "bo", "tenant": "acme"},
    "other": {"subject": "ada", "scope": "write", "tenant": "beta"},
    "old": {"subject": "ada", "expires_at": 1},
    "wrong": {"subject": "", "scope": "god"},
}
asked = []

def verify(token):
    asked.append(token)
    if token == "raise":
        raise RuntimeError("no connection to a secret host")
    return known.get(token)
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Served]:
    (tmp_path / "id_provider.py").write_text(VERIFIER)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    identity = Identity(servers=(PROVIDER,), verifier="id_provider:verify")
    try:
        with serving(tmp_path / "store", needs_token=True, identity=identity) as running:
            yield running
    finally:
        sys.modules.pop("id_provider", None)


def provider() -> Any:
    return sys.modules["id_provider"]


def status(served: Served, token: str, method: str = "GET", path: str = "/v1/artifacts") -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.request(method, served.url + path, headers=headers).status_code


def test_a_token_is_good_for_what_the_verifier_says(served: Served) -> None:
    """Promise Z1."""
    with Relay(served.url, api_key="good") as ada, Relay(served.url, api_key="other") as other:
        ref = ada.push("of acme").ref

        assert ada.pull(ref) == b"of acme"
        assert other.list().artifacts == []
    assert status(served, "reads") == 200
    assert status(served, "reads", "DELETE", f"/v1/artifacts/{ref}") == 403
    assert status(served, "old") == 401
    assert status(served, "nobody") == 401
    with Relay(served.url, api_key="good") as ada, pytest.raises(Exception, match="admin"):
        ada.new_key()


def test_a_verifier_that_fails_lets_nobody_in_and_says_nothing_of_itself(served: Served) -> None:
    """Promise Z1."""
    for token in ("raise", "wrong"):
        answer = httpx2.get(
            f"{served.url}/v1/artifacts", headers={"authorization": f"Bearer {token}"}
        )

        assert answer.status_code == 503
        assert "secret host" not in answer.text


def test_a_token_is_asked_about_again_after_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z1: one that was taken back is good no longer."""
    assert [status(served, "good") for _ in range(3)] == [200] * 3
    assert provider().asked == ["good"]
    monkeypatch.setattr(auth, "TOKEN_TRUSTED_S", 0.0)
    monkeypatch.setattr(auth, "KEY_TRUSTED_S", 0.0)
    assert status(served, "good") == 200
    del provider().known["good"]

    assert status(served, "good") == 401


def test_many_wrong_tokens_do_not_become_many_questions(served: Served) -> None:
    """Promise Z1."""
    statuses = [status(served, f"guess-{number}") for number in range(LIMIT + 60)]

    assert set(statuses) == {401, 429}
    assert len(provider().asked) == statuses.count(401)


def test_clients_learn_whom_to_get_a_token_from(served: Served) -> None:
    """Promise M1: RFC 9728."""
    refused = httpx2.post(f"{served.url}/mcp", json={})
    place = f"{served.url}/.well-known/oauth-protected-resource"

    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{place}"'
    for path in ("", "/mcp"):
        shown = httpx2.get(place + path).json()
        assert shown["resource"] == served.url + path
        assert shown["authorization_servers"] == [PROVIDER]
        assert shown["bearer_methods_supported"] == ["header"]


@pytest.mark.parametrize("verifier", ["", ":"])
def test_a_verifier_that_is_not_there_is_refused_before_it_listens(verifier: str) -> None:
    with pytest.raises(Invalid) as refused:
        Identity(servers=(PROVIDER,), verifier=verifier).verify()

    assert "--token-verifier" in refused.value.hint
