"""Child processes for `python` steps, which are started at first use, reused, and ended with the
run.

A function runs in a child process, so that it can be killed at its time limit and functions can run
in parallel. When a process has finished a function, it can run the next one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from select import select
from tempfile import TemporaryFile
from threading import Event, Lock
from typing import Any

from msgspec import Struct
from msgspec.json import decode, encode

from contextrelay.errors import Failed
from contextrelay.limits import STEP_ERROR_BYTES_KEPT
from contextrelay.pipelines.steps.child import KEY_VARIABLE, StepDeadline, end_group, end_step
from contextrelay.pipelines.steps.python_worker import read_message, write_message

_MODULE = "contextrelay.pipelines.steps.python_worker"


class Returned(Struct, frozen=True):
    """The result of calling a function in a child process."""

    body: bytes
    has_result: bool = True
    media_type: str | None = None


class PythonPool:
    """The child processes for functions of one run, or of one worker machine."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._lock = Lock()

    def call(
        self,
        function: str,
        args: dict[str, Any],
        env: Mapping[str, str],
        folder: Path,
        stop: Event,
        timeout_s: float | None,
    ) -> Returned:
        """Call a function in a child process, and return what it returned.

        Raises:
            Failed: the function raised an error, its process ended, or it exceeded its time limit.
            Cancelled: the run was cancelled.
        """
        deadline = StepDeadline(timeout_s, stop, function)
        with self._lock:
            here = [worker for worker in self._idle if worker.folder == folder]
            worker = here[-1] if here else None
            if worker is not None:
                self._idle.remove(worker)
        worker = worker or _Worker(folder, env)
        try:
            returned = worker.call({"function": function, "args": args, "env": dict(env)}, deadline)
        except BaseException:
            if worker.is_usable:
                self._keep(worker)
            else:
                worker.end()
            raise
        finally:
            if worker.has_children:
                end_step(env[KEY_VARIABLE])
        self._keep(worker)
        return returned

    def _keep(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def close(self) -> None:
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.end()


class _Worker:
    """A child process, and the reply that is expected from it."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.is_usable = True
        self.has_children = True
        """True if the last function may have started processes of its own."""
        self._errors = TemporaryFile()  # noqa: SIM115 (until end)
        # The key of this process belongs to no step, so that the process is not ended with the
        # leftover processes of a function.
        key = env[KEY_VARIABLE].partition("/")[0] + "/"
        # The folder is added to the import path of the process after its own imports (-P), because
        # files in the folder may have the name of any module.
        self._running = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # The environment of a step applies only to its own functions, so it is sent with each
            # call.
            env={**os.environ, KEY_VARIABLE: key},
            cwd=folder,
            start_new_session=True,
        )

    def call(self, request: dict[str, Any], deadline: StepDeadline) -> Returned:
        self.is_usable, self.has_children = False, True
        try:
            reply = self._asked(encode(request), deadline)
        except (OSError, ValueError):
            reply = None
        if reply is None:
            status = self._running.wait()
            raise Failed(
                f"{request['function']} ended its process ({status}): {self._said()}",
                "check the function",
            )
        self.is_usable = True
        header: dict[str, Any] = decode(reply[0])
        self.has_children = header["has_children"]
        if "error" in header:
            what = f"{header['at']}{request['function']} raised {header['error']}"
            raise Failed(what, "fix the function")
        return Returned(reply[1], header["has_result"], header.get("media_type"))

    def _asked(self, request: bytes, deadline: StepDeadline) -> tuple[bytes, bytes] | None:
        """Return the reply to a request as soon as it arrives, or None if the process ended."""
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        write_message(self._running.stdin, request)
        # Waiting in another thread would double the cost of a call.
        while not select([self._running.stdout], [], [], deadline.left_s())[0]:
            deadline.check()
        header = read_message(self._running.stdout)
        body = None if header is None else read_message(self._running.stdout)
        return None if header is None or body is None else (header, body)

    def _said(self) -> str:
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(
            self._errors.fileno(), STEP_ERROR_BYTES_KEPT, max(0, size - STEP_ERROR_BYTES_KEPT)
        ).decode(errors="replace")

    def end(self) -> None:
        end_group(self._running.pid, self._running.poll)
        self._running.communicate()
        self._errors.close()


def module_sha256(function: str, folder: Path) -> str | None:
    """Return the hash of the file of a function, or None if there is no file. Nothing is
    imported.
    """
    file = module_file(function.partition(":")[0], folder)
    try:
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def module_file(module: str, folder: Path) -> Path | None:
    """Return the path of the file of a module, or None if there is no file. Nothing is imported."""
    path: Sequence[str] | None = [str(folder), *sys.path]
    spec: ModuleSpec | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = None if path is None else PathFinder.find_spec(name, path)
        path = None if spec is None else spec.submodule_search_locations
    return None if spec is None or spec.origin is None else Path(spec.origin)
