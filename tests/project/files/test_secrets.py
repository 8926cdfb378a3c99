"""Secrets: shapes of keys and tokens are seen, and ordinary text is not."""

from __future__ import annotations

import pytest

from contextrelay.project.files.secrets import secrets_in

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----",
    "AWS access key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "GitHub token": "ghp_" + "a1B2" * 9,
    "Slack token": "xoxb-" + "1234567890-abcdefghij",
    "API key": "sk-" + "proj-" + "a1B2c3D4" * 4,
    "Google key": "AIza" + "a1B2c" * 7,
    "JSON web token": ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3", "c2lnbmF0dXJl"]),
    "password in a URL": "postgres://admin:" + "hunter2@db.example.com/orders",
    "assigned secret": 'api_key = "' + "9f8e7d6c5b4a" * 2 + '"',
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_seen_and_not_shown(kind: str) -> None:
    found = secrets_in("state.json", f'{{\n  "notes": "use {SECRETS[kind]} there"\n}}')

    assert [(each.kind, each.line, each.file) for each in found] == [(kind, 2, "state.json")]
    assert len(found[0].shown) <= 7


@pytest.mark.parametrize(
    "text",
    [
        "Use JWT + refresh tokens; the secret is in the vault, see docs/auth.md",
        "commit 9f8e7d6c5b4a9f8e7d6c5b4a9f8e7d6c5b4a9f8e fixes it",
        "password: ask Anna",
        "https://example.com/a:b@c and mailto:a@b.example",
        "sk-learn, risk-assessment-of-the-new-token-scheme",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert secrets_in("decisions.md", text) == []


def test_a_secret_that_was_there_before_is_not_reported_again() -> None:
    line = SECRETS["AWS access key"]
    assert secrets_in("x", f"{line}\nnew", line) == []
    assert len(secrets_in("x", f"{line}\nnew {line}", line)) == 1


def test_a_secret_that_was_there_is_not_reported_when_its_line_changes() -> None:
    """Promise J6."""
    line = '  "notes": "AKIAABCDEFGHIJKLMNOP"'

    assert secrets_in("state.json", f"{line},\n", f"{line}\n") == []
    assert len(secrets_in("state.json", f"{line},\n")) == 1
