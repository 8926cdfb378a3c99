"""Argument parsing: argparse with Context Relay errors, and the arguments that several commands
share.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter
from importlib import import_module
from time import time

from contextrelay.cli.command_table import close_option
from contextrelay.errors import Invalid
from contextrelay.limits import LIST_ITEMS_MAX, TTL_S_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Callable
    from typing import Any, NoReturn

    from contextrelay.cli.command_table import CommandEntry
    from contextrelay.cli.console import Console

    Act = Callable[[Namespace, Console], None]

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DIGITS_MAX = 15
_COLUMNS_DEFAULT = 80


class Parser(ArgumentParser):
    """An argument parser that raises Invalid instead of exiting, and accepts no abbreviated
    options.
    """

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise Invalid(message, f"{self._suggestion(message)}see: {self.prog} --help")

    def _suggestion(self, message: str) -> str:
        """Return a hint with the known options most similar to the unknown ones, or ""."""
        _, _, words = message.partition("unrecognized arguments: ")
        known = [option for action in self._actions for option in action.option_strings]
        typed = [word.partition("=")[0] for word in words.split() if word.startswith("--")]
        close = [option for word in typed if (option := close_option(word, known))]
        return f"did you mean {', '.join(close)}? " if close else ""

    @property
    def declared(self) -> list[Action]:
        """Return every argument and option of the command, in the order of --help."""
        return list(self._actions)


class _Formatter(HelpFormatter):
    """The help formatter, which asks for the width of the terminal without importing shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Return the width of the terminal in columns, as shutil.get_terminal_size does."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size().columns or _COLUMNS_DEFAULT
    except OSError:
        return _COLUMNS_DEFAULT


class Argument:
    """The parameters of an `ArgumentParser.add_argument` call."""

    __slots__ = ("names", "options")

    def __init__(self, names: tuple[str, ...], options: dict[str, Any]) -> None:
        self.names = names
        self.options = options

    def declare(self, container: Any) -> None:
        container.add_argument(*self.names, **self.options)


class OneOf:
    """A group of arguments of which only one may be given."""

    __slots__ = ("arguments", "title")

    def __init__(self, arguments: tuple[Argument, ...], title: str) -> None:
        self.arguments = arguments
        self.title = title

    def declare(self, container: Any) -> None:
        place = container.add_argument_group(self.title) if self.title else container
        group = place.add_mutually_exclusive_group()
        for each in self.arguments:
            each.declare(group)


def arg(*names: str, **options: Any) -> Argument:
    """Declare an argument or option of a command."""
    return Argument(names, options)


def one_of(*arguments: Argument, title: str = "") -> OneOf:
    """Declare arguments of which only one may be given."""
    return OneOf(arguments, title)


def arguments(*arguments: Argument | OneOf) -> Callable[[Act], Act]:
    """Return a decorator that declares the arguments of a command."""

    def declared(act: Act) -> Act:
        _ARGUMENTS[act] = arguments
        return act

    return declared


_ARGUMENTS: dict[Act, tuple[Argument | OneOf, ...]] = {}


def command(name: str, entry: CommandEntry) -> tuple[Parser, Act]:
    """Return the parser and the function of a command. `state add` is the function state_add, and
    `import` is import_.
    """
    module = import_module(f"contextrelay.{entry.file}")
    function = name.replace(" ", "_")
    # `import` is a Python keyword and `exec` a builtin.
    act: Act = getattr(module, f"{function}_", None) or getattr(module, function)
    parser = Parser(prog=f"relay {name}", description=act.__doc__ or "")
    everywhere = parser.add_argument_group("everywhere")
    if entry.takes_json:
        parser.set_defaults(json=False)
    else:
        everywhere.add_argument("--json", action="store_true", help="print the output as JSON")
    everywhere.add_argument("-q", "--quiet", action="store_true", help="print no notes to stderr")
    everywhere.add_argument("--no-color", action="store_true", help="print without colour")
    everywhere.add_argument(
        "--store",
        "--url",
        metavar="ADDRESS",
        help="the store: a folder, or the URL of an engine or a server",
    )
    for argument in _ARGUMENTS.get(act, ()):
        argument.declare(parser)
    return parser, act


def author_option(help: str, option: str = "--by", **more: Any) -> Argument:
    """Declare the option for the author; without it, the author is the agent of the client."""
    return arg(option, default="", help=help, **more)


def budget(default: int, help: str) -> Argument:
    """Declare the option --budget, a number of tokens."""
    shown = f"{help} (default: {default:,})"
    return arg("--budget", type=int, default=default, metavar="TOKENS", help=shown)


def thread_option(
    help: str = "the thread (default: RELAY_THREAD, or the current one)",
) -> Argument:
    """Declare the option -t for a thread."""
    return arg("-t", "--thread", metavar="THREAD", help=help)


def thread_arguments(metavar: str = "THREAD") -> tuple[Argument, Argument]:
    """Declare a thread both as a positional argument and as the option -t."""
    place = arg(
        "place",
        nargs="?",
        metavar=metavar,
        help="a thread: an id, the beginning of an id, or a name",
    )
    return place, thread_option()


def integer_between(least: int, most: int, says: str) -> Callable[[str], int]:
    """Return a parser of integers from `least` to `most`. In its error text, `says` follows the
    value.
    """

    def read(text: str) -> int:
        digits = text if text.isascii() and text.isdigit() else ""
        if not 0 < len(digits) <= _DIGITS_MAX or not least <= int(digits) <= most:
            raise ArgumentTypeError(f"{text!r} {says}")
        return int(digits)

    return read


items = integer_between(1, LIST_ITEMS_MAX, f"is out of range: use 1 to {LIST_ITEMS_MAX}")
LIMIT = arg("--limit", type=items, default=20, help="maximum number of items (default: 20)")
PAGE = (
    LIMIT,
    arg(
        "--after",
        default="",
        metavar="NEXT",
        help="continue a list after this value, which the previous page prints",
    ),
)


def version(text: str) -> int:
    """Parse a version, written v7 or 7."""
    digits = text.removeprefix("v")
    if not (digits.isascii() and digits.isdigit()) or not 0 < len(digits) <= _DIGITS_MAX:
        raise ArgumentTypeError(f"invalid version {text!r}: expected a number, for example v7")
    if int(digits) < 1:
        raise ArgumentTypeError("invalid version: the first is v1")
    return int(digits)


def seconds(text: str) -> float:
    """Parse a number of seconds to wait."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _WAIT_S_MAX:
        raise ArgumentTypeError(f"invalid time {text!r}: expected seconds, for example 2.5")
    return number


_WAIT_S_MAX = 365 * _UNITS_S["d"]


def ttl(text: str) -> int | None:
    """Parse a TTL such as 90, 90s, 30m, 24h, 7d or 2w, and return the seconds, or None for
    `never`.
    """
    if text == "never":
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS_S else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"invalid time {text!r}: expected 90s, 30m, 24h, 7d or never")
    seconds = int(number) * _UNITS_S[unit]
    if not 1 <= seconds <= TTL_S_MAX:
        raise ArgumentTypeError(f"{text!r} is out of range: use 1s to {TTL_S_MAX // 86_400}d")
    return seconds


def since(text: str) -> int:
    """Parse a time such as 24h (ago), 2026-05-01 or 2026-05-01T12:30, and return Unix
    milliseconds.
    """
    from datetime import datetime

    if text.isascii() and text.isdigit() and len(text) < _DATE_DIGITS:
        # A bare number such as 2026 could be a year or a number of seconds.
        example = f"{text}-01-01" if len(text) == _YEAR_DIGITS else "2026-05-01"
        raise ArgumentTypeError(f"missing unit in {text!r}: use {text}s, 24h, 7d or {example}")
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        ago_s = ttl(text) or 0
    except ArgumentTypeError:
        ago_s = 0
    if not ago_s:
        raise ArgumentTypeError(f"invalid time {text!r}: expected 24h, 7d or 2026-05-01")
    return int((time() - ago_s) * 1000)


_YEAR_DIGITS, _DATE_DIGITS = 4, 8


def pair(text: str) -> tuple[str, str]:
    """Parse key=value into a key and a value."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is not in the form key=value")
    return key, value
