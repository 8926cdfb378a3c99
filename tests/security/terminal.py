"""A terminal for tests: commands in one process on a pty, and what reached it.

Run as a program, it takes a JSON list of commands, each a list of words, and runs them in turn.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

# Printed before each command by the program below; it holds nothing that is looked for.
_BEFORE = "\n@@@ command {} @@@\n"
_SPLIT = re.compile(r"\n@@@ command \d+ @@@\n")
# The codes that we write ourselves: bold, plain, and the line that counts the seconds of long work.
_OWN = re.compile(r"\x1b\[[01]m|\r\x1b\[K|(?:\x1b\[A)*\r\x1b\[J|\r(?=[a-z ]+ … \d+ s)")
# Everything that acts on a terminal, or hides: C0 but tab and line feed, DEL, C1, bidi, zero-width.
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe"
    r"\U000e0000-\U000e007f]"
)


def harmful(shown: str) -> list[str]:
    """What in a text acts on a terminal and is none of our own codes, with what stands around."""
    text = _OWN.sub("", shown)
    return [
        f"U+{ord(found[0]):04X} in {text[max(0, found.start() - 40) : found.end() + 40]!r}"
        for found in _HARMFUL.finditer(text)
    ]


def on_a_terminal(
    commands: list[list[str]], env: dict[str, str], cwd: Path, timeout_s: float = 300
) -> list[str]:
    """What each command showed, with stdin, stdout and stderr on one terminal."""
    words = [sys.executable, str(Path(__file__)), json.dumps(commands)]
    shown = _SPLIT.split(shown_by(words, env, cwd, timeout_s))
    assert len(shown) == len(commands) + 1, shown[-1][-2000:]
    return shown[1:]


def shown_by(
    words: list[str], env: dict[str, str], cwd: Path, timeout_s: float, until: str = "\0"
) -> str:
    """What a program showed on a terminal until it ended, or until it showed a text."""
    ours, theirs = pty.openpty()
    env = {**env, "TERM": "xterm-256color"}
    running = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
    )
    os.close(theirs)
    came = b""
    deadline_s = time.monotonic() + timeout_s
    try:
        while time.monotonic() < deadline_s and until.encode() not in came:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # Linux says so when nobody has the other end any more.
                    break
                if not part:
                    break
                came += part
            elif running.poll() is not None:
                break
        else:
            assert until.encode() in came, f"not done in time: {came[-2000:]!r}"
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(20)
        os.close(ours)
    # The terminal itself makes each line feed a carriage return and a line feed.
    return came.decode(errors="surrogateescape").replace("\r\n", "\n")


def _run(commands: list[list[str]]) -> None:
    from contextrelay.cli.main import run

    for number, words in enumerate(commands):
        sys.stdout.write(_BEFORE.format(number))
        sys.stdout.flush()
        run(words)


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
