"""The reference: docs/cli.md, written from the parsers by `python -m` of this file.

Rule: nothing here is written by hand but the frame; a test holds the page to the parsers.
"""

from __future__ import annotations

import sys
from argparse import Action
from collections.abc import Iterator

from contextrelay.cli.command_table import ALIASES, CommandEntry, every_command
from contextrelay.cli.parser import Parser, command

_EVERYWHERE = ("--json", "--quiet", "--no-color", "--store", "--help")
_HEAD = """# The command line

Written by `python -m contextrelay.cli.reference > docs/cli.md`; do not edit.

Piped, a command prints the bare answer; on a terminal, lines for people. Every command takes
`--json` (one JSON value, with the field names of the model), `-q`/`--quiet`, `--no-color`, and
`--store`, after it or before: `relay --json push FILE`. `RELAY_OUTPUT=human|plain|json` decides
where the terminal cannot; `NO_COLOR` is obeyed.

**The store** is that of `--store ADDRESS` or, which is the same, `--url URL`; else that of
`CONTEXTRELAY_URL`, else of `RELAY_HOME`, else `~/.relay`. A folder or the URL of an engine is used
in place; `http://HOST:PORT` asks a server (`relay serve`), with the key in `CONTEXTRELAY_API_KEY`,
if there is one. The key goes to the server of `CONTEXTRELAY_URL` alone where that is set. What is
about the files of a store (`init`, `config`, `thread files`, `state adopt`) is done on its machine.

**REF** is a ref, its first six characters or more, a URL that ends in `/pull/<ref>`, or `@last`:
what was last pushed, put or handed over from this folder, by the agent that `RELAY_AGENT` names, or
else in this terminal. Commands that remove do not take it.
**BY** is who does it: `--by`, or else the agent that `RELAY_AGENT` names, or else `you`.
**THREAD** is an id, its first six characters or more, or a name; `THREAD@v7` is a version of its
state, and `THREAD@v7:/facts/0` a place in that. Where none is given it is `RELAY_THREAD`, or else
the thread last used in this folder. `-` is stdin.

Exit codes: 0 all right, 1 failure, 2 wrong use, 3 not found, 4 expired, removed or forbidden,
5 conflict, 130 interrupted. An error goes to stderr, with `--json` as one JSON object
`{"error", "message", "hint"}`.

Short for: """


def reference() -> str:
    """Write the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    short = (f"`relay {alias}` is `relay {' '.join(words)}`" for alias, words in ALIASES.items())
    yield _HEAD + ", ".join(short) + "."
    commands = list(every_command())
    yield from ("", "| command | does |", "|---|---|")
    for name, entry in commands:
        usage = f"relay {name} {entry.usage}".rstrip().replace("|", "\\|")
        yield f"| [`{usage}`](#relay-{name.replace(' ', '-')}) | {entry.help} |"
    for name, entry in commands:
        yield from _command(name, entry)


def _command(name: str, entry: CommandEntry) -> Iterator[str]:
    parser, act = command(name, entry)
    yield from ("", f"## relay {name}", "")
    yield from (line.strip() for line in (act.__doc__ or "").strip().splitlines())
    yield from ("", "```text", f"relay {name} {entry.usage}".rstrip(), "```")
    rows = [_row(action) for action in _own(parser, entry)]
    if rows:
        yield from ("", "| argument | means |", "|---|---|", *rows)


def _own(parser: Parser, entry: CommandEntry) -> Iterator[Action]:
    """What a command takes, without the options that all have."""
    for action in parser.declared:
        everywhere = set(_EVERYWHERE) - ({"--json"} if entry.takes_json else set())
        if not everywhere & set(action.option_strings):
            yield action


def _row(action: Action) -> str:
    shown = ", ".join(f"`{option}`" for option in action.option_strings)
    if not action.option_strings or action.nargs != 0:
        shown = f"{shown} `{_word(action)}`".strip()
    return f"| {shown} | {action.help or ''} |"


def _word(action: Action) -> str:
    """What stands for a value; a bar would end the cell."""
    if isinstance(action.metavar, str):
        return action.metavar.replace("|", "\\|")
    if action.choices is not None:
        return "\\|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


if __name__ == "__main__":
    sys.stdout.write(reference())
