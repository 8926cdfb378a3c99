"""A child process: started at once, read while it writes, with signals forwarded to it.

Rule: the child decides when and how it ends. Signals are forwarded to the child, and this process
exits with the exit status of the child: 128 plus the signal number if a signal killed it, as in a
shell.

This module imports little, because the command is started before anything else is imported.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import termios

from contextrelay.errors import Invalid, NotFound, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 128
# A terminal sends these signals to all foreground processes, including a child that shares the
# terminal.
_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (*_FROM_KEYS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_READ_BYTES = 64 * 1024
# Python ignores these signals by default, but a command expects their default actions.
_AS_USUAL = (signal.SIGPIPE, signal.SIGXFSZ)


class Signals:
    """Receives the signals of this process as bytes that a loop can read, until `restore` is
    called.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        wanted = (*_PASSED_ON, signal.SIGCHLD, signal.SIGWINCH)
        self._before: dict[int, Any] = {
            each: signal.signal(each, _heard)
            for each in wanted
            # An ignored signal, as with nohup, stays ignored, for the child too.
            if signal.getsignal(each) != signal.SIG_IGN
        }
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def taken(self) -> bytes:
        """Return the numbers of the received signals, one byte each."""
        try:
            return os.read(self.reader, _READ_BYTES)
        except BlockingIOError:
            return b""

    def restore(self) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        os.close(self.reader)
        os.close(self._writer)


def _heard(number: int, frame: object) -> None:
    """Do nothing, because the number of the signal has already been written to the pipe."""


class Child:
    """A started command, and the stream of its output."""

    def __init__(self, words: list[str], stdin: int | None = None, is_shown: bool = False) -> None:
        """Start a command. `stdin` is a file for its input; by default, the command shares the
        stdin of this process.

        The output is stdout and stderr as one stream. With `is_shown` it is stdout only, to be
        forwarded to the stdout of this process. If that is a terminal, the command gets a terminal
        too, so that colours are kept.

        Raises:
            NotFound: there is no such command (exit status 127).
            Refused: the command cannot be executed (126).
        """
        self._signals = Signals()
        self._has_terminal = is_shown and os.isatty(1)
        self._output, writer = _terminal() if self._has_terminal else os.pipe()
        actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, writer, 1)]
        if not is_shown:
            actions.append((os.POSIX_SPAWN_DUP2, writer, 2))
        if stdin is not None:
            actions.append((os.POSIX_SPAWN_DUP2, stdin, 0))
        try:
            self.pid = os.posix_spawnp(
                words[0], words, os.environ, file_actions=actions, setsigdef=_AS_USUAL
            )
        except (OSError, ValueError) as error:
            self._signals.restore()
            os.close(self._output)
            raise not_started(words[0], error) from error
        finally:
            os.close(writer)
        self.exit_status: int | None = None
        self.is_interrupted = False
        """True if a signal ended the command or was forwarded to it."""

    def output(self) -> Iterator[bytes]:
        """Yield the output of the command as it is written, and wait until the command ends."""
        try:
            yield from self._read()
            while self.exit_status is None:
                select.select([self._signals.reader], [], [])
                self._pass_on()
        finally:
            os.close(self._output)
            self._signals.restore()

    def _read(self) -> Iterator[bytes]:
        reader, output = self._signals.reader, self._output
        while True:
            ready = select.select([reader, output], [], [])[0]
            if output in ready:
                piece = self._piece()
                if not piece:
                    return
                yield piece
            elif reader in ready:
                self._pass_on()
                # A leftover process may keep the pipe open for long, but the output of the command
                # itself is complete.
                if self.exit_status is not None and not select.select([output], [], [], 0)[0]:
                    return

    def _piece(self) -> bytes:
        try:
            return os.read(self._output, _READ_BYTES)
        except OSError as error:
            if error.errno == errno.EIO:  # The other end of a terminal is closed.
                return b""
            raise

    def _pass_on(self) -> None:
        for number in self._signals.taken():
            if number == signal.SIGCHLD:
                self._look_for_end()
            elif number == signal.SIGWINCH and self._has_terminal:
                _copy_size(self._output)
                self.send(number)
            elif number in _PASSED_ON:
                self.is_interrupted = True
                if number not in _FROM_KEYS or not self._shares_terminal():
                    self.send(number)

    def _shares_terminal(self) -> bool:
        """Return True if the terminal sends its signals to the child directly."""
        for file in (0, 1, 2):
            try:
                return os.tcgetpgrp(file) == os.getpgrp()
            except OSError:
                continue
        return False

    def send(self, number: int) -> None:
        """Send a signal to the child if it is still running."""
        if self.exit_status is None:
            os.kill(self.pid, number)

    def _look_for_end(self) -> None:
        if self.exit_status is not None:
            return
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._end(status)

    def _end(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.is_interrupted = self.is_interrupted or code < 0
        self.exit_status = KILLED - code if code < 0 else code


def _terminal() -> tuple[int, int]:
    """Return a new pseudo-terminal of the size of ours, as two descriptors: our end, and the end of
    the command.
    """
    ours, theirs = os.openpty()
    settings = termios.tcgetattr(theirs)
    # Our own terminal processes the output, so that the stored output is unprocessed.
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    _copy_size(ours)
    return ours, theirs


def _copy_size(terminal: int) -> None:
    try:
        termios.tcsetwinsize(terminal, termios.tcgetwinsize(1))
    except (OSError, termios.error):
        return  # The size of the pseudo-terminal stays unchanged.


def check_command(command: str) -> None:
    """Check that a command can be started, before anything is changed for the command.

    Raises:
        NotFound: there is no such command (exit status 127).
        Refused: the command cannot be executed (126).
    """
    folders = [""] if "/" in command else os.get_exec_path()
    paths = [os.path.join(folder, command) for folder in folders]
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):
        return
    code = errno.EACCES if any(map(os.path.exists, paths)) else errno.ENOENT
    raise not_started(command, OSError(code, os.strerror(code)))


def not_started(command: str, error: OSError | ValueError) -> Invalid | NotFound:
    """Return the error for a command that cannot be started, with the exit status that shells
    use.
    """
    if isinstance(error, FileNotFoundError):
        place = "no such file" if "/" in command else "not on PATH"
        missing = NotFound(
            f"command not found: {command!r} ({place})", "check the name, or install it"
        )
        missing.exit_code = NOT_FOUND
        return missing
    why = getattr(error, "strerror", None) or str(error)
    if getattr(error, "errno", None) == errno.E2BIG:
        return Refused(
            f"the arguments of {command!r} are too long", "use --pass stdin or --pass file"
        )
    hint = "make the file executable: chmod +x FILE; or run it with its interpreter: sh FILE"
    refused = Refused(f"cannot execute {command!r}: {why}", hint)
    refused.exit_code = NOT_EXECUTABLE
    return refused
