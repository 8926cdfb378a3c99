"""Stdout and stderr of the command line, without sequences that control a terminal.

`run` installs both streams before a command starts, so everything that a command, a log or an
error writes is cleaned here.

Rule: control characters, bidi controls and invisible characters are written as `<U+001B>`. This
always applies to a terminal and to stderr, but not to stdout in a pipe, which carries the exact
bytes. Our own control codes are written as marks that nobody can guess, and replaced last.
"""

from __future__ import annotations

import os
import sys
from io import BufferedIOBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

_MARK = os.urandom(8).hex()
BOLD, PLAIN, REDRAW, ERASE, UP, ERASE_BELOW = (
    f"[{_MARK} {name}]" for name in ("bold", "plain", "redraw", "erase", "up", "below")
)
_CODES = {
    BOLD: "\x1b[1m",
    PLAIN: "\x1b[0m",
    REDRAW: "\r",
    ERASE: "\r\x1b[K",
    UP: "\x1b[A",
    ERASE_BELOW: "\x1b[J",
}
# Characters of our own texts. A text of only these characters needs no scan, which saves an import.
_USUAL = frozenset(map(chr, range(32, 127))) | frozenset("\n\t·…–→✔✗⚠⚑─━“”")


class OutputError(OSError):
    """An error in writing stdout or stderr. For a closed pipe, BrokenPipeError is raised
    instead.
    """


def _checked_write(write: Callable[..., Any], *args: Any) -> Any:
    """Call a function that writes, and convert an OSError to an OutputError.

    Raises:
        OutputError: the output cannot be written.
    """
    try:
        return write(*args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


class Terminal:
    """A text stream that cleans the text written to it. Everything else is passed to the wrapped
    stream.
    """

    def __init__(self, stream: TextIO, cleans_text: bool, cleans_bytes: bool) -> None:
        self.stream = stream
        self.cleans_text = cleans_text
        self._buffer = _Bytes(self) if cleans_bytes else _Plain(stream)

    def write(self, text: str) -> int:
        _checked_write(self.stream.write, clean(text) if self.cleans_text else text)
        return len(text)

    def flush(self) -> None:
        _checked_write(self.stream.flush)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """Return the binary stream. On a terminal, bytes written to this stream are also
        cleaned.
        """
        return self._buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Plain:
    """A binary stream for a pipe or a file, whose bytes are not changed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        return _checked_write(self._stream.buffer.write, data)

    def flush(self) -> None:
        _checked_write(self._stream.buffer.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


class _Bytes(BufferedIOBase):
    """A binary stream for a terminal, whose bytes are cleaned as text. Invalid UTF-8 is marked."""

    def __init__(self, terminal: Terminal) -> None:
        from codecs import getincrementaldecoder

        self._terminal = terminal
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        raw = bytes(data)
        self._put(self._held + self._decoder.decode(raw))
        return len(raw)

    def _put(self, text: str) -> None:
        # A carriage return is harmless before a line feed, and the line feed may come with the next
        # bytes.
        self._held = "\r" if text.endswith("\r") else ""
        self._terminal.write(text.removesuffix("\r"))

    def flush(self) -> None:
        self._terminal.write(self._held + self._decoder.decode(b"", final=True))
        self._held = ""
        self._decoder.reset()
        self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.stream.fileno()

    def isatty(self) -> bool:
        return self._terminal.stream.isatty()


def clean(text: str) -> str:
    """Replace all characters that control a terminal, except our own codes, by visible names."""
    if _USUAL.issuperset(text):
        return _coded(text) if _MARK in text else text
    from contextrelay.content.untrusted.hidden_chars import spell_hidden

    return _coded(spell_hidden(text))


def _coded(text: str) -> str:
    for mark, code in _CODES.items():
        text = text.replace(mark, code)
    return text


def install() -> Callable[[], None]:
    """Wrap stdout and stderr in `Terminal`, and return a function that restores them."""
    out, err = sys.stdout, sys.stderr
    is_terminal = out.isatty()
    is_human = os.environ.get("RELAY_OUTPUT") == "human"
    streams: Any = sys
    streams.stdout = Terminal(out, is_terminal or is_human, is_terminal)
    streams.stderr = Terminal(err, True, True)

    def undo() -> None:
        sys.stdout, sys.stderr = out, err

    return undo
