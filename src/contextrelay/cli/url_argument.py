"""REF arguments that are URLs with a key, read without showing the key to anybody else.

Rule: a key is never printed. `-` reads the URL from stdin, so that it appears neither in the
history of the shell nor in the process list. A key in an argument causes a warning.
"""

from __future__ import annotations

import sys

from msgspec import Struct

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.errors import Invalid
from contextrelay.limits import URL_CHARS_MAX
from contextrelay.seal.keys import SealKey, split_key

FROM_STDIN = "a ref or a URL; - reads it from stdin (for a URL with a key)"


class Given(Struct, frozen=True):
    """A REF argument, split into the text without the key, and the key."""

    text: str
    key: SealKey | None

    def keyed(self, ref: str) -> str:
        """Return a ref with the key appended, so that a pull can decrypt the body."""
        return ref if self.key is None else ref + self.key.fragment


def read(console: Console, text: str) -> Given:
    """Read a REF from an argument, or from the first line of stdin.

    Raises:
        Sealed: the key is malformed.
        Invalid: stdin is empty.
    """
    if text != "-":
        bare, key = split_key(text)
        if key is not None:
            console.note(
                "warning: the key is visible in the shell history and the process list; pass - "
                "and pipe the URL in"
            )
        return Given(bare, key)
    if sys.stdin.isatty():
        console.note("URL:")
    line = sys.stdin.readline(URL_CHARS_MAX).strip()
    if not line:
        raise Invalid("no URL on stdin", "pipe in the output of relay push, or name a REF")
    return Given(*split_key(line))


def resolved(console: Console, text: str) -> tuple[display.Relay, str]:
    """Return the relay that has an artifact, and the ref of the artifact.

    For a URL of another server, only that server is used, because several stores may have the same
    ref.
    """
    relay = console.relay_of(text)
    return relay, display.resolve(relay, text)
