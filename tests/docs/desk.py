"""Desk: a fresh place in which one document's blocks are run, with nothing of the user's around.

Rule: everything started here ends here; every command and every Python block is bounded in time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO

import pytest

COMMAND_SECONDS_MAX = 60
OUTPUT_CHARS_MAX = 2_000
KEPT_VARIABLES = ("LANG", "LC_ALL", "TMPDIR")

# Remembers variables and the folder from one command to the next, as a terminal does. Variables
# that bash does not let us set again are of no interest, hence the silence.
SCRIPT = """
source "$DESK_MEMORY/variables" 2>/dev/null
cd "$(cat "$DESK_MEMORY/folder" 2>/dev/null || pwd)"
eval "$1"
desk_status=$?
declare -p >"$DESK_MEMORY/variables"
pwd >"$DESK_MEMORY/folder"
exit "$desk_status"
"""

# Runs one block a line in one namespace, and answers with a traceback or nothing.
PYTHON_LOOP = """
import json, sys, traceback
names = {"__name__": "__main__"}
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    path, start, code = json.loads(line)
    problem = ""
    try:
        exec(compile("\\n" * (start - 1) + code, path, "exec"), names)
    except BaseException:
        problem = traceback.format_exc()
    sys.stderr.flush()
    print(json.dumps(problem), file=answers, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed, on both streams, and how it ended."""

    output: str
    exit_code: int


def fresh_environment(folder: Path) -> dict[str, str]:
    """Variables that lead nowhere but into the folder; our own scripts come first on the PATH."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    scripts = str(Path(sys.executable).parent)
    return kept | {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "HOME": str(folder / "home"),
        "RELAY_HOME": str(folder / "home" / ".relay"),
        "NO_COLOR": "1",
        "RELAY_OUTPUT": "human",  # Documents show what a person sees on a terminal.
        "PYTHONUTF8": "1",
    }


class Desk:
    """Runs shell commands and Python blocks in a folder, a home and a store of their own."""

    def __init__(self, folder: Path) -> None:
        self._work, self._memory = folder / "work", folder / "memory"
        for path in (self._work, self._memory, folder / "home"):
            path.mkdir(parents=True)
        self._environment = fresh_environment(folder)
        self._environment["DESK_MEMORY"] = str(self._memory)
        self._groups: list[int] = []
        self._python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._python:
            self._end(self._python)
        # A command may have left a server in the background, in its own process group.
        for group in self._groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def run(self, command: str) -> Result:
        """Run a command in bash, as if typed after the ones before it."""
        # A file and not a pipe: a server left in the background would hold a pipe open.
        output_path = self._memory / "output"
        with output_path.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", SCRIPT, "bash", command],
                cwd=self._work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            try:
                exit_code = process.wait(COMMAND_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                pytest.fail(f"took longer than {COMMAND_SECONDS_MAX} s: {command}")
        return Result(output_path.read_text(errors="replace"), exit_code)

    def run_python(self, path: str, line: int, code: str) -> str:
        """Run a block after the ones before it; return what went wrong, or nothing."""
        log_path = self._memory / "python-output"
        if self._python is None:
            with log_path.open("w") as log:
                self._python = self._start_python(log)
        process = self._python
        assert process.stdin
        assert process.stdout
        bound = Timer(COMMAND_SECONDS_MAX, process.kill)
        bound.start()
        try:
            process.stdin.write(json.dumps([path, line, code]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            bound.cancel()
        if not answer:
            self._end(process)
            self._python = None
            printed = log_path.read_text(errors="replace")[-OUTPUT_CHARS_MAX:]
            is_killed = process.returncode == -signal.SIGKILL
            why = f"took longer than {COMMAND_SECONDS_MAX} s" if is_killed else "ended its process"
            return f"the block {why}\n{printed}"
        problem: str = json.loads(answer)
        return problem

    def _start_python(self, log: IO[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PYTHON_LOOP],
            cwd=self._work,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        self._groups.append(process.pid)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        for stream in (process.stdin, process.stdout):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
