"""URLs with a key: what a person gives as REF, read so that the key is seen by nobody else.

Rule: a key is shown to nobody. `-` reads the URL from stdin, which neither a shell's history nor a
list of processes shows; a key that is given as an argument is warned of.
"""

from __future__ import annotations

import sys

from msgspec import Struct

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.errors import Invalid
from contextrelay.limits import URL_CHARS_MAX
from contextrelay.seal.keys import SealKey, split_key

FROM_STDIN = "a ref or a URL; - reads it from stdin, for a URL with a key"


class Given(Struct, frozen=True):
    """What a REF means: without its key, and the key."""

    text: str
    key: SealKey | None

    def keyed(self, ref: str) -> str:
        """A ref with the key, as a relay opens it."""
        return ref if self.key is None else ref + self.key.fragment


def read(console: Console, text: str) -> Given:
    """Read a REF: an argument, or the first line of stdin.

    Raises:
        Sealed: there is a key, and it is none.
        Invalid: stdin has none.
    """
    if text != "-":
        bare, key = split_key(text)
        if key is not None:
            console.note(
                "note: the key stands in the command, where a shell's history and a list of "
                "processes show it; give - and pipe the URL in"
            )
        return Given(bare, key)
    if sys.stdin.isatty():
        console.note("the URL, and Enter:")
    line = sys.stdin.readline(URL_CHARS_MAX).strip()
    if not line:
        raise Invalid("there is no URL on stdin", "pipe in what push printed, or name a REF")
    return Given(*split_key(line))


def resolved(console: Console, text: str) -> tuple[display.Relay, str]:
    """Return the relay that has an artifact, and its ref.

    A URL of another server is asked of that server: a ref may be in several stores.
    """
    relay = console.relay_of(text)
    return relay, display.resolve(relay, text)
