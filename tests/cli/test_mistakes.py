"""Mistakes on the command line: each is text in the words of who made it, with the next step."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (("search", ""), "missing query", "relay search"),
        (("keys", "revoke", "xyz"), "invalid key id 'xyz'", "relay keys list"),
        (("project", "finish", "--nope", "x"), "unrecognized arguments: --nope", "--help"),
        (("project", "finish", "x"), "unexpected argument 'x'", "- to read JSON from stdin"),
        (("push", "--tll", "7d", "-"), "unrecognized arguments: --tll", "did you mean --ttl?"),
        (("--jsn", "push"), "unknown option '--jsn'", "did you mean: relay --json"),
        (("--nope",), "unknown option '--nope'", "\n  see: relay help\n"),
        (("--store",), "missing value of --store", "relay --store VALUE"),
        (("artifact", "list", "--store="), "--store is empty", "omit it"),
        (("thread", "new", "--name"), "--name: expected one argument", "--help"),
        (
            ("rm", "x"),
            "unknown command 'rm'",
            "use: relay artifact rm REF, or relay thread rm THREAD",
        ),
        (("cat", "x"), "unknown command 'cat'", "use: relay pull REF"),
        (("artifact", "cat"), "unknown command 'cat' of relay artifact", "use: relay artifact get"),
        (("help", "xyz"), "unknown command 'xyz'", "see: relay help"),
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("project", "help"), "project todo add"),
        (("project", "todo", "--help"), "project todo add"),
        (("--json", "state", "--help"), "state header"),
        (("help", "runs"), "usage: relay thread list"),
        (("state", "show", "--help"), "--at vN"),
    ],
)
def test_help_is_found_where_it_is_looked_for(
    shell: Shell, words: tuple[str, ...], says: str
) -> None:
    assert says in shell.out(*words)
