"""relay keys: on the store itself, and over HTTP with an admin's key."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell
from tests.store.engines import until


def test_a_key_is_made_listed_used_and_revoked_on_the_store(shell: Shell) -> None:
    """Promise Z1: relay keys new --scope read."""
    token = shell.out("keys", "new", "--scope", "read", "--name", "reader").strip()
    key_id = token.split("_")[1]

    assert shell.out("keys", "list").split() == [key_id]
    text = shell.out("keys", "list", human=True)
    assert f"{key_id}  read  no expiry  reader" in text
    assert token not in text
    assert shell.json("keys", "usage", key_id)["usage"][0]["requests"] == 0
    assert shell.out("keys", "revoke", key_id).strip() == key_id
    assert "revoked" in shell.out("keys", "list", human=True)


def test_an_admin_looks_after_keys_over_http(shell: Shell) -> None:
    """Promise Z1."""
    with shell.started("serve", "--port", "0", "--token", "auto", "--json") as server:
        text = json.loads(server.line())
        shell.env |= {"CONTEXTRELAY_URL": text["url"], "CONTEXTRELAY_API_KEY": text["token"]}
        made = shell.json("keys", "new", "--tenant", "acme", "--quota", "20kB", "--rate", "100")
        shell.env["CONTEXTRELAY_API_KEY"] = made["token"]
        ref = shell.json("push", stdin=b"theirs")["ref"]
        code, said = shell.fails("keys", "list")
        full, why = shell.fails("push", stdin=b"x" * 20_000)
        shell.env["CONTEXTRELAY_API_KEY"] = text["token"]

        assert (code, "admin" in said, "CONTEXTRELAY_API_KEY" in said) == (4, True, True)
        assert (full, "quota of this key exceeded: 20,000 bytes" in why) == (1, True)
        assert shell.fails("peek", ref)[0] == 3
        until(lambda: used(shell, made["key"]["id"])["requests"] >= 3, "the counts")
        usage = used(shell, made["key"]["id"])
        assert (usage["pushed_bytes"], usage["quota_bytes"]) == (6, 20_000)
        shell.out("keys", "revoke", made["key"]["id"])
        shell.env["CONTEXTRELAY_API_KEY"] = made["token"]
        code, said = shell.fails("pull", ref)

        del shell.env["CONTEXTRELAY_API_KEY"]
        none, missing = shell.fails("--json", "pull", ref)

    assert (code, "Missing or invalid API key" in said) == (4, True)
    assert "the key in CONTEXTRELAY_API_KEY does not allow this" in said
    assert (none, json.loads(missing)["error"]) == (4, "forbidden")
    assert "set CONTEXTRELAY_API_KEY" in json.loads(missing)["hint"]


def used(shell: Shell, key_id: str) -> dict[str, int]:
    return shell.json("keys", "usage", key_id)["usage"][0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--quota", "much"], "invalid size"),
        (["--rate", "0"], "is not a valid number of requests"),
        (["--scope", "admin", "--threads", "x"], "an admin key cannot be limited"),
    ],
)
def test_wrong_use_is_reported_and_makes_nothing(shell: Shell, words: list[str], says: str) -> None:
    code, error = shell.fails("keys", "new", *words)

    assert code == 2
    assert says in error
    assert shell.out("keys", "list", human=True).startswith("no keys yet")
