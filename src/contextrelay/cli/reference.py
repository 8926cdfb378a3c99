"""Generator of docs/cli.md, the command reference, from the parsers of the commands.

Rule: only the introduction is written by hand. A test compares docs/cli.md with the output of this
module.
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
`--store`, after it or before: `relay --json push FILE`. `RELAY_OUTPUT=human|plain|json` overrides
the detection of the terminal; `NO_COLOR` is respected.

**The store** is set by `--store ADDRESS` or `--url URL`, which mean the same; else by
`CONTEXTRELAY_URL`, else by `RELAY_HOME`; the default is `~/.relay`. A folder or the URL of an
engine is opened directly; `http://HOST:PORT` is a server (`relay serve`), with an optional key in
`CONTEXTRELAY_API_KEY`. If `CONTEXTRELAY_URL` is set, the key is sent to that server only. Commands
that need the files of a store (`init`, `config`, `thread files`, `state adopt`) run on its machine.

**REF** is a ref, its first six characters or more, a URL that ends in `/pull/<ref>`, or `@last`:
the last artifact pushed, put or handed over from this folder, by the agent named by `RELAY_AGENT`,
or else in this terminal. Commands that delete do not accept `@last`.
**BY** is the author: `--by`, or else the agent named by `RELAY_AGENT`, or else `you`.
**THREAD** is an id, its first six characters or more, or a name; `THREAD@v7` is a version of its
state, and `THREAD@v7:/facts/0` a value in that version. The default is `RELAY_THREAD`, or else the
last thread used in this folder. `-` is stdin.

Exit codes: 0 success, 1 failure, 2 invalid use, 3 not found, 4 expired, deleted or forbidden,
5 conflict, 130 interrupted. Errors go to stderr, with `--json` as one JSON object
`{"error", "message", "hint"}`.

Short for: """


def reference() -> str:
    """Return the text of docs/cli.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    short = (f"`relay {alias}` is `relay {' '.join(words)}`" for alias, words in ALIASES.items())
    yield _HEAD + ", ".join(short) + "."
    commands = list(every_command())
    yield from ("", "| command | description |", "|---|---|")
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
        yield from ("", "| argument | description |", "|---|---|", *rows)


def _own(parser: Parser, entry: CommandEntry) -> Iterator[Action]:
    """Yield the arguments that only this command has, without the options of all commands."""
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
    """Return the placeholder of a value. A | is replaced, because it would end the table cell."""
    if isinstance(action.metavar, str):
        return action.metavar.replace("|", "\\|")
    if action.choices is not None:
        return "\\|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


if __name__ == "__main__":
    sys.stdout.write(reference())
