"""The entry point: find the command, run it, and convert an error to an exit code.

Rule: the module of a command is imported only when the command is run. No slow module is imported
before that.
"""

from __future__ import annotations

import os
import sys
from itertools import takewhile

from contextrelay.cli.command_table import (
    ALIASES,
    GROUPS,
    HELP,
    VERSION,
    find_command,
    grouped,
    leading_options,
    overview,
)
from contextrelay.cli.console import Console, load_msgspec
from contextrelay.cli.terminal import OutputError, install
from contextrelay.errors import RelayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130


def run(words: list[str]) -> int:
    """Run one command and return its exit code."""
    return guarded(lambda console: _dispatch(words, console))


def guarded(act: Callable[[Console], None]) -> int:
    """Call a function with a new console, and return the exit code. An exception also becomes an
    exit code.
    """
    undo = install()
    try:
        return _guarded(act)
    finally:
        undo()


def _guarded(act: Callable[[Console], None]) -> int:
    console = Console()
    try:
        act(console)
    except RelayError as error:
        console.fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        console.note("interrupted; no partial changes were made")
        return INTERRUPTED
    except (BrokenPipeError, OutputError) as error:
        # The reader of stdout has exited, or the disk is full. Python must not report the same
        # error again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, OutputError):
            console.fail(RelayError(f"cannot write the output: {error.strerror}"))
        return 1
    except OSError as error:
        what = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        hint = "check that the file, its folder and the temporary folder are accessible"
        console.fail(RelayError(f"{what}{error.strerror or error}", hint))
        return 1
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else 1
    except Exception:
        # A bug in Context Relay. The traceback may quote untrusted text, so print it to the cleaned
        # stderr.
        from traceback import print_exc

        print_exc()
        return 1
    finally:
        console.close()
    return console.exit_code


def _dispatch(words: list[str], console: Console) -> None:
    if words[:1] == ["__complete"]:
        from contextrelay.cli.commands.completion import candidates

        console.show("\n".join(candidates(words[1:], console)))
        return
    console.is_json = console.is_json or "--json" in takewhile(
        lambda word: word.startswith("-"), words
    )
    options, rest = leading_options(words)
    console.is_json = console.is_json or "--json" in options
    if rest and rest[0] in VERSION:
        rest = ["version"]
    rest = [*ALIASES.get(rest[0], rest[:1]), *rest[1:]] if rest else ["help"]
    if rest[0] in HELP:
        # `relay help COMMAND` is `relay COMMAND --help`.
        rest = [*ALIASES.get(rest[1], rest[1:2]), *rest[2:], "--help"] if rest[1:] else rest
    if any(map(str.isspace, rest[0])):
        rest = ["ask", *rest]  # Text with whitespace is a prompt, not a command.
    rest = grouped(rest)
    if rest[0] in HELP or (rest[0] in GROUPS and rest[1:2] and rest[1] in HELP):
        console.show(overview(rest[0] if rest[0] in GROUPS else ""))
        return
    name, entry, arguments = find_command(rest)
    # Set JSON output before the options are parsed, so that an error in an option is printed as
    # JSON too.
    console.is_json = console.is_json or ("--json" in arguments and not entry.takes_json)

    if name != "version":
        load_msgspec()
    from contextrelay.cli.parser import command

    parser, act = command(name, entry)
    args = parser.parse_args([*(each for each in options if each != "--json"), *arguments])
    console.obey(args)
    act(args, console)
