"""A shell for tests: the command line in real processes, with a store and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RELAY = (sys.executable, "-m", "contextrelay")


class Shell:
    """Runs relay in a folder of its own, as if piped, or as on a terminal with `human`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        self.env = {**kept, "RELAY_HOME": str(home / "store"), "NO_COLOR": "1"}

    def run(
        self, *words: str, stdin: bytes = b"", human: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        env = {**self.env, **({"RELAY_OUTPUT": "human"} if human else {})}
        return subprocess.run(
            [*RELAY, *words], input=stdin, capture_output=True, env=env, cwd=self.home, timeout=60
        )

    def out(self, *words: str, stdin: bytes = b"", human: bool = False) -> str:
        done = self.run(*words, stdin=stdin, human=human)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *words: str, stdin: bytes = b"") -> Any:
        return json.loads(self.out("--json", *words, stdin=stdin))

    def fails(self, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        done = self.run(*words, stdin=stdin)
        assert done.stdout == b""
        return done.returncode, done.stderr.decode()
