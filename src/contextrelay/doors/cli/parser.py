"""Arguments: argparse, with our errors, and the forms that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from importlib import import_module
from keyword import iskeyword

from contextrelay.errors import Invalid
from contextrelay.limits import TTL_S_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Callable
    from typing import NoReturn

    from contextrelay.doors.cli.command_table import Entry
    from contextrelay.doors.cli.console import Console

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_VERSION_DIGITS_MAX = 15


class Parser(ArgumentParser):
    """An argument parser that raises instead of exiting, and never guesses abbreviations."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise Invalid(message, f"see: {self.prog} --help")

    @property
    def declared(self) -> list[Action]:
        """Every argument and option, in the order of --help."""
        return list(self._actions)


def command(name: str, entry: Entry) -> tuple[Parser, Callable[[Namespace, Console], None]]:
    """The parser of a command, and what it does: `state add` is state_add, `import` is import_."""
    module = import_module(f"contextrelay.doors.cli.commands.{entry.file}")
    function = name.replace(" ", "_")
    declare: Callable[[ArgumentParser], None] = getattr(module, f"{function}_arguments")
    act = getattr(module, f"{function}_" if iskeyword(function) else function)
    parser = Parser(prog=f"relay {name}", description=act.__doc__ or "")
    everywhere = parser.add_argument_group("everywhere")
    if entry.takes_json:
        parser.set_defaults(json=False)
    else:
        everywhere.add_argument("--json", action="store_true", help="answer as one JSON value")
    everywhere.add_argument("-q", "--quiet", action="store_true", help="no notes on stderr")
    everywhere.add_argument("--no-color", action="store_true", help="no colour")
    everywhere.add_argument(
        "--store", "--url", metavar="ADDRESS", help="a folder, or the URL of an engine or a server"
    )
    declare(parser)
    return parser, act


def thread_option(parser: ArgumentParser, help: str = "") -> None:
    """Take a thread by -t."""
    parser.add_argument(
        "-t", "--thread", metavar="THREAD", help=help or "else RELAY_THREAD, else the last used"
    )


def thread_arguments(parser: ArgumentParser, metavar: str = "THREAD") -> None:
    """Take a thread by its place or by -t."""
    parser.add_argument("place", nargs="?", metavar=metavar, help="an id, its beginning, or a name")
    thread_option(parser)


def version(text: str) -> int:
    """A version out of v7 or 7."""
    digits = text.removeprefix("v")
    if not (digits.isascii() and digits.isdigit()) or not 0 < len(digits) <= _VERSION_DIGITS_MAX:
        raise ArgumentTypeError(f"{text!r} is no version: write v7")
    if int(digits) < 1:
        raise ArgumentTypeError("versions count from v1")
    return int(digits)


def seconds(text: str) -> float:
    """A number of seconds to wait."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _WAIT_S_MAX:
        raise ArgumentTypeError(f"{text!r} is no time to wait: write seconds, such as 2.5")
    return number


_WAIT_S_MAX = 365 * _UNITS_S["d"]


def ttl(text: str) -> int | None:
    """A time to live in seconds out of 90, 90s, 30m, 24h, 7d, 2w, or `never`."""
    if text == "never":
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS_S else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is no time: write 90s, 30m, 24h, 7d or never")
    seconds = int(number) * _UNITS_S[unit]
    if not 1 <= seconds <= TTL_S_MAX:
        raise ArgumentTypeError(f"{text!r} is out of range: take 1s to {TTL_S_MAX // 86_400}d")
    return seconds


def pair(text: str) -> tuple[str, str]:
    """A key and a value out of key=value."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is no key=value")
    return key, value
