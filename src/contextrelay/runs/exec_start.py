"""The options of `relay exec`, parsed without the argument parser, whose import takes longer than
the command.
"""

from __future__ import annotations

import os

from contextrelay.errors import RelayError
from contextrelay.limits import OUTPUT_TOKENS_DEFAULT, OUTPUT_TOKENS_MAX, OUTPUT_TOKENS_MIN
from contextrelay.runs.child_process import Child


class ExecOptions:
    """The options of `relay exec`, with the same names as in the argument parser."""

    def __init__(self) -> None:
        self.json = self.quiet = self.no_color = False
        self.store: str | None = None
        self.thread: str | None = None
        self.max_tokens = OUTPUT_TOKENS_DEFAULT
        self.command: list[str] = []


_FLAGS = {"--json": "json", "-q": "quiet", "--quiet": "quiet", "--no-color": "no_color"}


def read_options(words: list[str]) -> ExecOptions | None:
    """Parse the words after `exec`, or return None if the argument parser is needed."""
    options = ExecOptions()
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if word == "--":
            options.command = list(left)
        elif word in _FLAGS:
            setattr(options, _FLAGS[word], True)
        elif name in ("--store", "--url") and (value := value if equals else next(left, "")):
            options.store = value
        elif name == "--max-tokens" and _is_number(value := value if equals else next(left, "")):
            options.max_tokens = int(value)
        else:
            return None
    return options if options.command else None


def _is_number(text: str) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return is_number and OUTPUT_TOKENS_MIN <= int(text) <= OUTPUT_TOKENS_MAX


def run(words: list[str]) -> int | None:
    """Run the command after `exec` and return its exit status, or None if the argument parser is
    needed.
    """
    options = read_options(words)
    if options is None or os.environ.get("RELAY_THREAD"):
        return None
    try:
        child = Child(options.command)
    except RelayError:
        return None  # The argument parser finds the same error and prints it.
    pieces = child.output()
    first = next(pieces, b"")
    if not first and child.exit_status is not None and not options.json:
        return child.exit_status

    # The modules of the store are imported while the command runs.
    from contextrelay.cli.console import load_msgspec

    load_msgspec()
    from contextrelay.runs.exec_finish import finish_started

    return finish_started(options, child, first, pieces)
