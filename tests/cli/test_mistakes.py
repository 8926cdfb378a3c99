"""Mistakes on the command line: each is text in the words of who made it, with the next step."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (("search", ""), "what to look for?", "relay search"),
        (("keys", "revoke", "xyz"), "'xyz' is no id of a key", "relay keys list"),
        (("keys", "usage", "xyz"), "'xyz' is no id of a key", "relay keys list"),
        (("grep", "("), "missing ): (\n", "--fixed"),
        (("project", "finish", "--nope", "x"), "unrecognized arguments: --nope", "--help"),
        (("project", "finish", "x"), "unexpected argument 'x'", "- to read JSON from stdin"),
        (("push", "--tll", "7d", "-"), "unrecognized arguments: --tll", "did you mean --ttl?"),
        (("peek", "x", "--ful"), "unrecognized arguments: --ful", "did you mean --full?"),
        (("--jsn", "push"), "unknown option '--jsn'", "did you mean: relay --json"),
        (("--nope",), "unknown option '--nope'", "\n  see: relay help\n"),
        (
            ("project", "task", "give", "x", "--to", "ann"),
            "arguments: --to",
            "\n  see: relay project",
        ),
        (("--store",), "--store needs a value", "relay --store VALUE"),
        (("--store", "", "artifact", "list"), "--store is empty", "leave it out"),
        (("artifact", "list", "--store="), "--store is empty", "leave it out"),
        (("state", "show", "--thread", ""), "--thread is empty", "leave it out"),
        (("thread", "new", "--name"), "--name: expected one argument", "--help"),
        (("push", "--ttl"), "--ttl: expected one argument", "--help"),
        (("ls",), "unknown command 'ls'", "use: relay artifact list, or relay thread list"),
        (("list",), "unknown command 'list'", "use: relay artifact list, or relay thread list"),
        (
            ("rm", "x"),
            "unknown command 'rm'",
            "use: relay artifact rm REF, or relay thread rm THREAD",
        ),
        (("cat", "x"), "unknown command 'cat'", "use: relay pull REF"),
        (("outline", "x"), "unknown command 'outline'", "use: relay get REF --outline"),
        (("digest", "x"), "unknown command 'digest'", "use: relay get REF --digest"),
        (("slice", "x"), "unknown command 'slice'", "use: relay get REF --lines 1:50"),
        (("pack",), "unknown command 'pack'", "use: relay context pack QUERY"),
        (("grep", "-e", "", "x"), "the pattern is empty", "relay grep WORD REF"),
        (("pul",), "unknown command 'pul'", "did you mean: relay pull\n"),
        (("summarise",), "unknown command 'summarise'", "to ask a model: relay ask summarise"),
        (("thread", "ls"), "unknown command 'ls' of relay thread", "use: relay thread list"),
        (
            ("artifact", "delete"),
            "unknown command 'delete' of relay artifact",
            "use: relay artifact rm",
        ),
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
        (("state", "--help"), "state header"),
        (("state", "-h"), "state header"),
        (("project", "help"), "project todo add"),
        (("project", "todo", "--help"), "project todo add"),
        (("--json", "state", "--help"), "state header"),
        (("help", "state"), "state header"),
        (("help", "push"), "--ttl"),
        (("help", "state", "show"), "--at vN"),
        (("help", "runs"), "usage: relay thread list"),
        (("help", "project", "todo", "add"), "--priority"),
        (("state", "show", "--help"), "--at vN"),
    ],
)
def test_help_is_found_where_it_is_looked_for(
    shell: Shell, words: tuple[str, ...], says: str
) -> None:
    assert says in shell.out(*words)
