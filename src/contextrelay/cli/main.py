"""The command line: from words to a command, and from an error to its exit code.

Rule: a command's file is imported when it is called, and nothing heavy before that.
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
    """Run one command; its exit code."""
    return guarded(lambda console: _dispatch(words, console))


def guarded(act: Callable[[Console], None]) -> int:
    """Do something with a console of its own; the exit code, also of what goes wrong."""
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
        console.note("interrupted; nothing is half-done")
        return INTERRUPTED
    except (BrokenPipeError, OutputError) as error:
        # The reader of our output went away, or there is no room for it. Python must not complain
        # again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, OutputError):
            console.fail(RelayError(f"the output cannot be written: {error.strerror}"))
        return 1
    except OSError as error:
        what = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        hint = "see whether that file, its folder and the temporary folder can be used"
        console.fail(RelayError(f"{what}{error.strerror or error}", hint))
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
        rest = ["ask", *rest]  # What has white space in it is no command, but a prompt.
    rest = grouped(rest)
    if rest[0] in HELP or (rest[0] in GROUPS and rest[1:2] and rest[1] in HELP):
        console.show(overview(rest[0] if rest[0] in GROUPS else ""))
        return
    name, entry, arguments = find_command(rest)
    # Known before the options are read, so that an error in them is JSON too.
    console.is_json = console.is_json or ("--json" in arguments and not entry.takes_json)

    if name != "version":
        load_msgspec()
    from contextrelay.cli.parser import command

    parser, act = command(name, entry)
    args = parser.parse_args([*(each for each in options if each != "--json"), *arguments])
    console.obey(args)
    act(args, console)
