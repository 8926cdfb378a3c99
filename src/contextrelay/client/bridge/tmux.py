"""tmux: a task typed into a pane where an agent runs, and what the pane shows when it is done.

A pane says nothing about when an agent has finished: it is done when its screen shows a prompt, no
sign of work, and has stood still for a while.
"""

from __future__ import annotations

import subprocess
import threading
import time

from contextrelay.errors import Unavailable
from contextrelay.limits import BRIDGE_S_DEFAULT

LOOK_EVERY_S = 0.5
STILL_S = 3.0
COMMAND_S_MAX = 5
# What agents show while they work, and where they wait for the next task.
BUSY_SIGNS = ("esc to interrupt", "Generating…", "Writing file…", "Reading file…", "⠋", "⠁", "⡆")
IDLE_SIGNS = ("│ >", "vibe>", "$ ", "> ", "❯")


class TmuxPane:
    """The agent in one window; it does one task at a time."""

    def __init__(
        self, session: str = "vibe", window: int = 0, timeout_s: float = BRIDGE_S_DEFAULT
    ) -> None:
        self._target = f"{session}:{window}"
        self._timeout_s = timeout_s
        self._lock = threading.Lock()

    def __call__(self, task: str) -> str:
        """Type a task, and return the screen once the agent is done.

        Raises:
            Unavailable: there is no such window, or the agent is not done in time.
        """
        with self._lock:
            before = self._screen()
            self._tmux("send-keys", "-t", self._target, "-l", "--", task)
            self._tmux("send-keys", "-t", self._target, "Enter")
            return self._settled(before)

    def _settled(self, before: str) -> str:
        deadline_s = time.monotonic() + self._timeout_s
        last, since_s = before, time.monotonic()
        while time.monotonic() < deadline_s:
            time.sleep(LOOK_EVERY_S)
            screen = self._screen()
            if screen != last:
                last, since_s = screen, time.monotonic()
            elif is_idle(screen, before) and time.monotonic() - since_s >= STILL_S:
                return screen
        raise Unavailable(
            f"the agent in {self._target} was not done in {self._timeout_s:g} s", "allow it more"
        )

    def _screen(self) -> str:
        return self._tmux("capture-pane", "-t", self._target, "-p")

    def _tmux(self, *words: str) -> str:
        try:
            done = subprocess.run(
                ["tmux", *words], capture_output=True, text=True, timeout=COMMAND_S_MAX
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"tmux cannot be used: {error}", "see whether it runs") from error
        if done.returncode:
            raise Unavailable(
                f"tmux has no {self._target}: {done.stderr.strip()}", "see: tmux list-windows -a"
            )
        return done.stdout


def is_idle(screen: str, before: str) -> bool:
    """Whether a screen is that of an agent that has done something and waits again."""
    is_busy = any(sign in screen for sign in BUSY_SIGNS)
    return screen != before and not is_busy and any(sign in screen for sign in IDLE_SIGNS)
