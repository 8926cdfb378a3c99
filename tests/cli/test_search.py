"""relay search: for people, for pipes, as JSON, and what it notes on stderr."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

NOTES = b"# Retries\n\nA payment is retried five times.\n\n# Billing\n\nInvoices go out monthly.\n"


@pytest.fixture
def notes(shell: Shell) -> str:
    shell.out("thread", "new", "--name", "orders")
    ref = shell.out("artifact", "put", "-", "-t", "orders", "--name", "notes.md", stdin=NOTES)
    shell.out("push", "-", stdin=b"payments of another kind")
    return ref.strip()


def test_a_search_shows_hits_and_the_command_that_reads_on(shell: Shell, notes: str) -> None:
    """Promises L3, L4."""
    text = shell.out("search", "retry", "payment", human=True)

    head, snippet, then = text.splitlines()[:3]
    assert head.startswith(f"{notes[:8]}  notes.md")
    assert "retried five times" in snippet
    words = then.split()
    assert words[:2] == ["relay", "get"]
    assert "retried five times" in shell.out(*words[1:])


def test_a_search_keeps_to_its_scope_and_says_what_it_left_out(shell: Shell, notes: str) -> None:
    """Promise L3."""
    everywhere = shell.json("search", "payment")
    within = shell.json("search", "payment", "-t", "orders")
    one = shell.json("search", "payment", "--ref", notes[:8])
    done = shell.run("search", "payment", "unheard", "--limit", "1")

    assert len(everywhere["hits"]) == 2
    assert [hit["ref"] for hit in within["hits"]] == [notes]
    assert [hit["ref"] for hit in one["hits"]] == [notes]
    text = done.stderr.decode()
    assert "2 passages in all; left out: 1 more passages" in text
    assert "not found: unheard" in text
    assert " tok" in text


def test_the_index_is_rebuilt_by_command(shell: Shell, notes: str) -> None:
    """Promise L3: rebuildable by command."""
    assert "search index: 2 artifacts" in shell.out("search", "--rebuild")
    assert shell.json("search", "payment", "--rebuild")["found"] == 2
    assert shell.json("search", "--rebuild")["artifacts"] == 2
