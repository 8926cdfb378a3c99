"""Commands: a program that is given a text and prints another."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from contextrelay.errors import RelayError, Unavailable

_STDERR_CHARS = 2_000


def run_command(command: str | Sequence[str], task: str, timeout_s: float) -> str:
    """What a command prints when it is given a task; a text is run by the shell.

    Raises:
        RelayError: it failed, or did not end in time.
    """
    running = subprocess.Popen(
        command,
        shell=isinstance(command, str),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, complained = running.communicate(task, timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        raise Unavailable(f"the command did not end in {timeout_s:g} s", "allow more") from None
    if running.returncode:
        raise RelayError(
            f"the command ended with {running.returncode}: {complained[-_STDERR_CHARS:].strip()}"
        )
    return printed
