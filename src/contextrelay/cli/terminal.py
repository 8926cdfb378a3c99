"""Stdout and stderr of the command line, without sequences that control a terminal.

`run` installs both before a command starts, so everything that a command, a log or an error writes
passes through here, and no command can forget it.

Rule: control characters, bidi controls and invisible characters are written as `<U+001B>`, always
on a terminal and on stderr, but not in a pipe, which carries the exact bytes. The few codes of our
own are written as unguessable marks and inserted at the end.
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
# Characters of our own texts. A text of only these is not scanned, which saves an import.
_USUAL = frozenset(map(chr, range(32, 127))) | frozenset("\n\t·…–→✔✗⚠⚑─━“”")


class OutputError(OSError):
    """Stdout or stderr cannot be written. A closed pipe raises BrokenPipeError instead."""


def _checked_write(write: Callable[..., Any], *args: Any) -> Any:
    """Write, and mark an OSError as one of the output.

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
    """A text stream that cleans what is written to it, and otherwise acts as the wrapped stream."""

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
        """Return the binary stream; on a terminal, its bytes are cleaned as text."""
        return self._buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Plain:
    """Bytes for a pipe or a file, unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        return _checked_write(self._stream.buffer.write, data)

    def flush(self) -> None:
        _checked_write(self._stream.buffer.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


class _Bytes(BufferedIOBase):
    """Bytes for a terminal, cleaned as text; invalid UTF-8 is marked."""

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
    """Replace everything that controls a terminal, except our own codes."""
    if _USUAL.issuperset(text):
        return _coded(text) if _MARK in text else text
    from contextrelay.content.untrusted.hidden_chars import spell_hidden

    return _coded(spell_hidden(text))


def _coded(text: str) -> str:
    for mark, code in _CODES.items():
        text = text.replace(mark, code)
    return text


def install() -> Callable[[], None]:
    """Wrap stdout and stderr in `Terminal`; return a function that undoes it."""
    out, err = sys.stdout, sys.stderr
    is_terminal = out.isatty()
    is_human = os.environ.get("RELAY_OUTPUT") == "human"
    streams: Any = sys
    streams.stdout = Terminal(out, is_terminal or is_human, is_terminal)
    streams.stderr = Terminal(err, True, True)

    def undo() -> None:
        sys.stdout, sys.stderr = out, err

    return undo
