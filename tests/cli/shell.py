"""A shell for tests: the command line with a store and a folder of its own.

Commands run in this process, which is ten times as fast. A test whose subject is the process
(what it imports, signals, a full disk, other processes at the same time) uses `started` or
`real=True`.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from contextrelay.cli.main import run

RELAY = (sys.executable, "-m", "contextrelay")
LINE_S_MAX = 30
END_S_MAX = 20


class Shell:
    """Runs relay in a folder of its own, as if piped, or as on a terminal with `human`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        ours = ("RELAY_", "CONTEXTRELAY_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.env = {**kept, "RELAY_HOME": str(home / "store"), "NO_COLOR": "1"}

    def run(
        self, *words: str, stdin: bytes = b"", human: bool = False, real: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        env = {**self.env, **({"RELAY_OUTPUT": "human"} if human else {})}
        if real:
            command = [*RELAY, *words]
            return subprocess.run(
                command, input=stdin, capture_output=True, env=env, cwd=self.home, timeout=60
            )
        out, err = io.BytesIO(), io.BytesIO()
        with (
            chdir(self.home),
            patch.dict(os.environ, env, clear=True),
            patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
            patch("sys.stdout", io.TextIOWrapper(out, "utf-8", write_through=True)),
            patch("sys.stderr", io.TextIOWrapper(err, "utf-8", write_through=True)),
        ):
            code = run([*words])
            sys.stdout.flush()
            sys.stderr.flush()
            return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def out(self, *words: str, stdin: bytes = b"", human: bool = False, real: bool = False) -> str:
        done = self.run(*words, stdin=stdin, human=human, real=real)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *words: str, stdin: bytes = b"", real: bool = False) -> Any:
        return json.loads(self.out("--json", *words, stdin=stdin, real=real))

    def fails(self, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        done = self.run(*words, stdin=stdin)
        assert done.stdout == b""
        return done.returncode, done.stderr.decode()

    @contextmanager
    def started(self, *words: str) -> Generator[Started]:
        """A command that goes on until it is text to end, at the latest with the block."""
        running = subprocess.Popen(
            [*RELAY, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=self.env,
            cwd=self.home,
            start_new_session=True,
        )
        try:
            yield Started(running)
        finally:
            if running.poll() is None:
                running.send_signal(signal.SIGTERM)
            try:
                running.communicate(timeout=END_S_MAX)
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.communicate()


class Started:
    """A command that goes on."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        self.running = running

    def line(self) -> str:
        """The next line of its answer."""
        return _line(self.running.stdout)

    def note(self) -> str:
        """The next line of its stderr."""
        return _line(self.running.stderr)

    def ended(self, by: signal.Signals | None = None) -> tuple[int, str, str]:
        """Its exit code, the rest of its answer, and of its stderr."""
        if by is not None:
            self.running.send_signal(by)
        out, err = self.running.communicate(timeout=END_S_MAX)
        return self.running.returncode, out.decode(), err.decode()


def _line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    text = b""
    # Not buffered, byte by byte: what is buffered here, select would not know of.
    while not text.endswith(b"\n"):
        assert select.select([stream], [], [], LINE_S_MAX)[0], f"no more came after {text!r}"
        byte = stream.read(1)
        assert byte, f"it ended after {text!r}"
        text += byte
    return text.decode().rstrip("\n")
