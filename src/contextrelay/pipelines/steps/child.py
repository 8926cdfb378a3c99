"""Child processes of steps, and the leftover processes that they start.

Leftover processes are found by the step's key in their environment, even if they left the process
group as daemons do. This requires an operating system that shows the environment of processes, such
as Linux.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

from contextrelay.errors import Failed, RelayError
from contextrelay.limits import STEP_ERROR_BYTES_KEPT
from contextrelay.runs.child_process import KILLED, not_started

STEP_GRACE_S = 3.0
STEP_KILLED_S = 0.5


KEY_VARIABLE = "RELAY_STEP_KEY"
_POLL_S = 0.02


def end_leftovers(run: str) -> int:
    """End the leftover processes of a run on this machine, and return their number."""
    return _end(f"\0{KEY_VARIABLE}={run}/".encode())


def end_step(step_key: str) -> int:
    """End the leftover processes of a step, or of one item of a step, and return their number."""
    return _end(f"\0{KEY_VARIABLE}={step_key}\0".encode())


def _end(mark: bytes) -> int:
    """Terminate the processes whose environment contains a mark, kill those that remain, and return
    their number.
    """
    found = marked = _marked(mark)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + STEP_GRACE_S
        for pid in marked:
            with suppress(OSError):
                os.killpg(os.getpgid(pid), number)
        while marked and time.monotonic() < until_s:
            time.sleep(_POLL_S)
            marked = _marked(mark)
    return len(found)


def _marked(mark: bytes) -> list[int]:
    own, found = os.getpgid(0), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid = int(folder.name)
            if mark in b"\0%b\0" % (folder / "environ").read_bytes() and os.getpgid(pid) != own:
                found.append(pid)
    return found


_READ_BYTES = 64 * 1024
_LOOK_S = 0.1


class Cancelled(RelayError):
    """The run was cancelled while a step was running."""


class Ended(NamedTuple):
    """The exit status of a command, and the last part of its stderr."""

    exit_status: int
    errors: str

    def reason(self, command: str) -> str:
        """Return why a command failed, with the last output of the command."""
        name = os.path.basename(command)
        if self.exit_status > KILLED:
            number = self.exit_status - KILLED
            with suppress(ValueError):
                return f"{name} was killed by {signal.Signals(number).name}{self._said}"
        return f"{name} exited with status {self.exit_status}{self._said}"

    @property
    def _said(self) -> str:
        return f": {self.errors.strip()}" if self.errors.strip() else ""


def run_child(
    words: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    stop: Event,
    timeout_s: float | None,
    take: Callable[[bytes], None],
    take_errors: Callable[[bytes], None],
    stdin: int | None = None,
) -> Ended:
    """Run a command until it ends. `take` and `take_errors` are called with its stdout and stderr.

    Raises:
        NotFound, Refused: the command cannot be started.
        Failed: the command exceeded its time limit.
        Cancelled: the run was cancelled.
    """
    try:
        running = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise not_started(words[0], error) from error
    errors = bytearray()
    try:
        with running:
            try:
                streams = (take, take_errors, errors)
                _read(running, streams, StepDeadline(timeout_s, stop, words[0]))
                code = running.wait()
            finally:
                end_group(running.pid, running.poll)
    finally:
        end_step(env.get(KEY_VARIABLE, ""))
    said = bytes(errors[-STEP_ERROR_BYTES_KEPT:]).decode(errors="replace")
    return Ended(KILLED - code if code < 0 else code, said)


class StepDeadline:
    """The time limit of an operation. A cancellation of the run also ends the operation."""

    def __init__(self, timeout_s: float | None, stop: Event, what: str) -> None:
        self._ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._timeout_s, self._stop, self._what = timeout_s, stop, what

    def check(self) -> None:
        """Raise an error if the time limit was exceeded or the run was cancelled."""
        if self._stop.is_set():
            raise Cancelled("the run was cancelled", "resume with: relay pipeline resume RUN")
        if self._ends_s is not None and time.monotonic() >= self._ends_s:
            raise Failed(
                f"{os.path.basename(self._what)} exceeded its time limit of {self._timeout_s:g} s",
                "increase the limit, for example timeout: 10m",
            )

    def left_s(self) -> float:
        """Return the seconds until the next call of `check`."""
        if self._ends_s is None:
            return _LOOK_S
        return max(0.0, min(_LOOK_S, self._ends_s - time.monotonic()))


def _read(
    running: subprocess.Popen[bytes],
    streams: tuple[Callable[[bytes], None], Callable[[bytes], None], bytearray],
    deadline: StepDeadline,
) -> None:
    take, take_errors, errors = streams
    assert running.stdout is not None
    assert running.stderr is not None
    output, complaints = running.stdout.fileno(), running.stderr.fileno()
    is_over = False
    with selectors.DefaultSelector() as selector:
        for file in (output, complaints):
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(0 if is_over else deadline.left_s())
            for key, _ in ready:
                piece = os.read(key.fd, _READ_BYTES)
                if not piece:
                    selector.unregister(key.fd)
                elif key.fd == output:
                    take(piece)
                else:
                    take_errors(piece)
                    errors += piece
                    del errors[: -2 * STEP_ERROR_BYTES_KEPT]
            # Leftover processes may keep the pipes open, but the output of the command itself is
            # complete.
            if is_over and not ready:
                return
            is_over = running.poll() is not None
            if not is_over:
                deadline.check()
    while running.poll() is None:
        deadline.check()
        with suppress(subprocess.TimeoutExpired):
            running.wait(deadline.left_s())


def end_group(pid: int, poll: Callable[[], int | None] = lambda: None) -> None:
    """Terminate a process and its process group, and kill what remains.

    `poll` waits for a child of this process, which would otherwise stay in its group as a zombie.
    """
    for number, wait_s in ((signal.SIGTERM, STEP_GRACE_S), (signal.SIGKILL, STEP_KILLED_S)):
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s:
            poll()
            try:
                os.killpg(pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(_LOOK_S / 10)
