"""Arguments: argparse, with our errors, and the forms that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from contextrelay.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Parser(ArgumentParser):
    """An argument parser that raises instead of exiting, and never guesses abbreviations."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise Invalid(message, f"see: {self.prog} --help")


def ttl(text: str) -> int | None:
    """A time to live in seconds out of 90, 90s, 30m, 24h, 7d, 2w, or `never`."""
    if text == "never":
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS_S else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is no time: write 90s, 30m, 24h, 7d or never")
    return int(number) * _UNITS_S[unit]


def pair(text: str) -> tuple[str, str]:
    """A key and a value out of key=value."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is no key=value")
    return key, value
