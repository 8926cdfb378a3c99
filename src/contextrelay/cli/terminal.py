"""Stdout and stderr of the command line, with nothing in them that acts on a terminal.

`run` puts both in place before a command begins. So whatever a command, a log or an error writes
passes here, and no command can forget it.

Rule: control characters, bidi controls and invisible characters are written as `<U+001B>`: on a
terminal always, on stderr always, in a pipe not, for that is how bytes are got as they are. The few
codes of our own are written as marks, which nobody else can guess, and put in here at the end.
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
# What stands in our own texts: such a text need not be looked through, which costs an import.
_USUAL = frozenset(map(chr, range(32, 127))) | frozenset("\n\t·…–→✔✗⚠⚑─━“”")


class OutputError(OSError):
    """Stdout or stderr does not take what is written; a reader that is gone is BrokenPipeError."""


def _told(write: Callable[..., Any], *args: Any) -> Any:
    """Write, so that an error is known as one of the output.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        return write(*args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


class Terminal:
    """A stream of text that cleans what is written to it; else as the stream that it stands for."""

    def __init__(self, stream: TextIO, cleans_text: bool, cleans_bytes: bool) -> None:
        self.stream = stream
        self.cleans_text = cleans_text
        self._buffer = _Bytes(self) if cleans_bytes else _Plain(stream)

    def write(self, text: str) -> int:
        _told(self.stream.write, clean(text) if self.cleans_text else text)
        return len(text)

    def flush(self) -> None:
        _told(self.stream.flush)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """Where bytes are written: on a terminal they are text, and cleaned as such."""
        return self._buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Plain:
    """Bytes for a pipe or a file, as they are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        return _told(self._stream.buffer.write, data)

    def flush(self) -> None:
        _told(self._stream.buffer.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


class _Bytes(BufferedIOBase):
    """Bytes for a terminal, written as the text that they are; what is no UTF-8 is marked."""

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
        # A carriage return is harmless before a line feed, which may come with the next bytes.
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
    """A text in which nothing acts on a terminal, but what we put there ourselves."""
    if _USUAL.issuperset(text):
        return _coded(text) if _MARK in text else text
    from contextrelay.content.untrusted.hidden_chars import spell_hidden

    return _coded(spell_hidden(text))


def _coded(text: str) -> str:
    for mark, code in _CODES.items():
        text = text.replace(mark, code)
    return text


def install() -> Callable[[], None]:
    """Put a `Terminal` in place of stdout and stderr; call what is returned to undo that."""
    out, err = sys.stdout, sys.stderr
    is_terminal = out.isatty()
    is_human = os.environ.get("RELAY_OUTPUT") == "human"
    streams: Any = sys
    streams.stdout = Terminal(out, is_terminal or is_human, is_terminal)
    streams.stderr = Terminal(err, True, True)

    def undo() -> None:
        sys.stdout, sys.stderr = out, err

    return undo
