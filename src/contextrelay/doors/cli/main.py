"""The command line: from words to a command, and from an error to its exit code.

Rule: a command's file is imported when it is called, and nothing heavy before that.
"""

from __future__ import annotations

import os
import sys

from contextrelay.doors.cli.command_table import (
    ALIASES,
    COMMANDS,
    GROUPS,
    Entry,
    close_to,
    followers,
    grouped,
    overview,
)
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.terminal import install
from contextrelay.errors import Invalid, RelayError

INTERRUPTED = 130


def run(words: list[str]) -> int:
    """Run one command; its exit code."""
    undo = install()
    try:
        return _run(words)
    finally:
        undo()


def _run(words: list[str]) -> int:
    console = Console()
    try:
        _dispatch(words, console)
    except RelayError as error:
        console.fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        console.note("interrupted; nothing is half-done")
        return INTERRUPTED
    except OSError as error:
        # The reader of our output went away, or there is no room for it: stores tell of troubles of
        # their own by other names. Python must not complain again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            console.fail(RelayError(f"the output cannot be written: {error.strerror or error}"))
        return 1
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else 1
    except Exception:
        # A fault of ours: its trace may quote what others wrote, so it is printed here, cleaned.
        from traceback import print_exc

        print_exc()
        return 1
    finally:
        console.close()
    return console.exit_code


def _dispatch(words: list[str], console: Console) -> None:
    options, rest = _leading_options(words)
    console.is_json = console.is_json or "--json" in options
    if not rest or rest[0] in ("help", "--help", "-h"):
        console.show(overview(rest[1:]))
        return
    if rest[0] in ("--version", "-V"):
        rest = ["version"]
    name, entry, arguments = _command([*ALIASES.get(rest[0], rest[:1]), *rest[1:]])
    # Known before the options are read, so that an error in them is JSON too.
    console.is_json = console.is_json or ("--json" in arguments and not entry.takes_json)

    from contextrelay.doors.cli.parser import command

    parser, act = command(name, entry)
    args = parser.parse_args([*(each for each in options if each != "--json"), *arguments])
    console.obey(args)
    act(args, console)


def _leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Global options may stand before the command too."""
    index = 0
    while index < len(words):
        option, equals, _ = words[index].partition("=")
        if option not in GLOBAL_OPTIONS or (equals and GLOBAL_OPTIONS[option] == 1):
            break
        index += 1 if equals else GLOBAL_OPTIONS[option]
    return words[:index], words[index:]


GLOBAL_OPTIONS = {
    "--json": 1,
    "--quiet": 1,
    "-q": 1,
    "--no-color": 1,
    "--store": 2,
    "--url": 2,
    "--thread": 2,
    "-t": 2,
    "--yes": 1,
}


def _command(words: list[str]) -> tuple[str, Entry, list[str]]:
    """The command as it is typed, its entry, and the words left for it."""
    words = grouped(words)
    if words[0] in COMMANDS:
        return words[0], COMMANDS[words[0]], words[1:]
    if words[0] in GROUPS:
        commands = GROUPS[words[0]]
        if len(words) > 1 and words[1] in commands:
            return f"{words[0]} {words[1]}", commands[words[1]], words[2:]
        if len(words) > 1 and not words[1].startswith("-"):
            raise Invalid(
                f"relay {words[0]} has no {words[1]!r}",
                close_to(words[1], dict.fromkeys(followers(words[0])), words[0]),
            )
        raise Invalid(
            f"relay {words[0]} needs one of: {', '.join(followers(words[0]))}",
            f"see: relay help {words[0]}",
        )
    known = {**COMMANDS, **GROUPS, **ALIASES}
    raise Invalid(f"there is no command {words[0]!r}", close_to(words[0], known))
