"""The command line: from words to a command, and from an error to its exit code.

Rule: a command's file is imported when it is called, and nothing heavy before that.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from contextrelay.doors.cli.desk import Desk
from contextrelay.doors.cli.tree import COMMANDS, GROUPS, close_to, overview
from contextrelay.errors import Invalid, RelayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

INTERRUPTED = 130


def run(words: list[str]) -> int:
    """Run one command; its exit code."""
    desk = Desk()
    try:
        _dispatch(words, desk)
    except RelayError as error:
        desk.fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        desk.note("interrupted; nothing is half-done")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away; Python must not complain again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else 1
    finally:
        desk.close()
    return desk.exit_code


def _dispatch(words: list[str], desk: Desk) -> None:
    options, rest = _leading_options(words)
    if not rest or rest[0] in ("help", "--help", "-h"):
        desk.show(overview(rest[1:]))
        return
    if rest[0] in ("--version", "-V"):
        rest = ["version"]
    name, module, arguments = _command(rest)
    declare: Callable[[ArgumentParser], None] = getattr(module, f"{name}_arguments")
    act: Callable[[Namespace, Desk], None] = getattr(module, name)
    parser = _parser(" ".join(rest[: len(rest) - len(arguments)]), act.__doc__ or "")
    declare(parser)
    args = parser.parse_args([*options, *arguments])
    desk.obey(args)
    act(args, desk)


def _leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Global options may stand before the command too."""
    index = 0
    while index < len(words) and words[index] in GLOBAL_OPTIONS:
        index += GLOBAL_OPTIONS[words[index]]
    return words[:index], words[index:]


GLOBAL_OPTIONS = {"--json": 1, "--quiet": 1, "-q": 1, "--no-color": 1, "--store": 2}


def _command(words: list[str]) -> tuple[str, object, list[str]]:
    """The function's name, the module it is in, and the words left for it."""
    if words[0] in COMMANDS:
        file = COMMANDS[words[0]].file
        return words[0], import_module(f"contextrelay.doors.cli.commands.{file}"), words[1:]
    if words[0] in GROUPS:
        commands = GROUPS[words[0]]
        if len(words) > 1 and words[1] in commands:
            file = commands[words[1]].file
            module = import_module(f"contextrelay.doors.cli.commands.{file}")
            return f"{words[0]}_{words[1]}", module, words[2:]
        if len(words) > 1 and not words[1].startswith("-"):
            raise Invalid(
                f"relay {words[0]} has no {words[1]!r}", close_to(words[1], commands, words[0])
            )
        raise Invalid(
            f"relay {words[0]} needs one of: {', '.join(commands)}",
            f"see: relay help {words[0]}",
        )
    raise Invalid(f"there is no command {words[0]!r}", close_to(words[0], {**COMMANDS, **GROUPS}))


def _parser(name: str, description: str) -> ArgumentParser:
    from contextrelay.doors.cli.parser import Parser

    parser = Parser(prog=f"relay {name}", description=description)
    everywhere = parser.add_argument_group("everywhere")
    everywhere.add_argument("--json", action="store_true", help="answer as one JSON value")
    everywhere.add_argument("-q", "--quiet", action="store_true", help="no notes on stderr")
    everywhere.add_argument("--no-color", action="store_true", help="no colour")
    everywhere.add_argument("--store", metavar="ADDRESS", help="a folder or URL; else RELAY_HOME")
    return parser
