"""Mistakes on the command line: each is text in the words of who made it, with the next step."""

from __future__ import annotations

import pytest

from tests.doors.cli.shell import Shell


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (("search", ""), "what to look for?", "relay search"),
        (("keys", "revoke", "xyz"), "'xyz' is no id of a key", "relay keys list"),
        (("keys", "usage", "xyz"), "'xyz' is no id of a key", "relay keys list"),
        (("grep", "("), "missing ): (\n", "--fixed"),
        (("project", "finish", "--nope", "x"), "unrecognized arguments: --nope", "--help"),
        (("project", "finish", "x"), "'x' has no place here", "- for JSON on stdin"),
    ],
)
def test_a_mistake_is_reported_with_the_next_step(
    shell: Shell, words: tuple[str, ...], message: str, step: str
) -> None:
    shell.out("project", "init")

    code, error = shell.fails(*words)

    assert code == 2
    assert message in error
    assert step in error
