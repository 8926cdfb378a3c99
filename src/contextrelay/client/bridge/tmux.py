"""tmux: paste a task into a pane where an agent runs; return the screen when the agent is done.

A pane does not report when an agent has finished. The agent counts as done when the screen shows a
prompt and no activity, and has not changed for a while.

Rule: a task is text. Nothing in it controls the terminal, ends the paste or reaches a shell:
control characters are escaped, and nothing is pasted if a shell runs in place of the agent.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import threading
import time

from contextrelay.content.untrusted.hidden_chars import spell_hidden
from contextrelay.errors import Unavailable
from contextrelay.limits import BRIDGE_S_DEFAULT

LOOK_EVERY_S = 0.5
STILL_S = 3.0
COMMAND_S_MAX = 5
# Texts that agents show while they work, and texts that they show when they wait for a task.
BUSY_SIGNS = ("esc to interrupt", "Generating…", "Writing file…", "Reading file…", "⠋", "⠁", "⡆")
IDLE_SIGNS = ("│ >", "vibe>", "$ ", "> ", "❯")
# Shells, which would run a task as commands, under the names that tmux shows. A login shell has a
# dash before its name, a restricted shell an r, and a version may follow (ksh93, zsh-5.9).
_SHELL = re.compile(
    "-?r?(ash|bash|busybox|csh|dash|elvish|fish|ion|ksh|lksh|mksh|nu|oil|oksh|osh|pdksh|posh|"
    r"powershell|pwsh|sh|tcsh|toybox|xonsh|yash|ysh|zsh)([-.]?\d[-.\w]*|[-.]static)?(\.exe)?"
)
# The replacement for a newline, used if the program in the pane may treat a newline as Enter.
LINE_END = " ⏎ "
# A tmux format: the foreground program, then whether bracketed paste is on (empty before tmux 3.7).
_ABOUT = "#{pane_current_command} #{bracket_paste_flag}"


class TmuxPane:
    """An agent in one tmux window, which does one task at a time."""

    def __init__(
        self, session: str = "vibe", window: int = 0, timeout_s: float = BRIDGE_S_DEFAULT
    ) -> None:
        self._target = f"{session}:{window}"
        self._timeout_s = timeout_s
        self._lock = threading.Lock()

    def __call__(self, task: str) -> str:
        """Paste a task, press Enter, and return the screen once the agent is done.

        Raises:
            Unavailable: the window does not exist, a shell runs in it instead of an agent, or the
                agent is not done in time.
        """
        with self._lock:
            takes_paste = self._takes_paste()
            before = self._screen()
            self._paste(typed(task, takes_paste))
            # Nothing runs before Enter is pressed: check again, because the agent may have ended
            # since the paste.
            self._takes_paste()
            self._tmux("send-keys", "-t", self._target, "Enter")
            return self._wait_until_idle(before)

    def _takes_paste(self) -> bool:
        """Return True if the program in the pane is known to accept several lines as one paste.

        Raises:
            Unavailable: the program is a shell.
        """
        about = self._tmux("display-message", "-t", self._target, "-p", _ABOUT).strip("\n")
        program, _, flag = about.rpartition(" ")
        if _SHELL.fullmatch(program):
            raise Unavailable(
                f"no agent in {self._target}: a shell ({program}) is running there",
                "start the agent there; if a script starts it, use exec",
            )
        return flag == "1"

    def _paste(self, text: str) -> None:
        """Paste a text into the pane. If its program has enabled bracketed paste, that is used."""
        if not text:
            return
        buffer = f"relay-{secrets.token_hex(8)}"
        self._tmux("load-buffer", "-b", buffer, "-", given=text)
        self._tmux("paste-buffer", "-d", "-p", "-b", buffer, "-t", self._target)

    def _wait_until_idle(self, before: str) -> str:
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
            f"the agent in {self._target} was not done within {self._timeout_s:g} s",
            "increase the timeout",
        )

    def _screen(self) -> str:
        return self._tmux("capture-pane", "-t", self._target, "-p")

    def _tmux(self, *words: str, given: str = "") -> str:
        try:
            done = subprocess.run(
                ["tmux", *words],
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=COMMAND_S_MAX,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(
                f"tmux cannot be used: {error}", "check that it is running"
            ) from error
        if done.returncode:
            raise Unavailable(
                f"tmux has no {self._target}: {done.stderr.strip()}",
                "list the windows: tmux list-windows -a",
            )
        return done.stdout


def typed(task: str, takes_paste: bool) -> str:
    """Return a task as text to paste, as one line if several are not safe."""
    lines = task.replace("\r\n", "\n").replace("\t", " ").strip("\n").split("\n")
    # A carriage return without a line feed could hide text, so it is removed.
    return ("\n" if takes_paste else LINE_END).join(map(spell_hidden, lines))


def is_idle(screen: str, before: str) -> bool:
    """Return True if the agent has done something since `before`, and waits again."""
    is_busy = any(sign in screen for sign in BUSY_SIGNS)
    return screen != before and not is_busy and any(sign in screen for sign in IDLE_SIGNS)
