"""The parser pool: a few child processes that parse bodies, within limits of time and memory.

Untrusted content may trigger bugs in parsers. In a separate process such a bug costs limited time
and memory, blocks no other request, and the process can be ended.

Rule: `run` returns for every body: with the result, or with the reason why the parser was stopped.
A child that exceeded a limit is ended, and another child is started when needed. Children end with
their parent.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder, decode

from contextrelay.bounded.parser_child import (
    DONE,
    ERROR,
    LENGTH_BYTES,
    Hello,
    ParserReply,
    ParserRequest,
)
from contextrelay.errors import Broken
from contextrelay.limits import MIB, PARSER_REAL_S_MAX, PARSER_ROOM_BYTES_MAX
from contextrelay.verbs.problems import from_problem

# The number of children, and their memory besides the body; timeouts for a free child, its start,
# its reply, and its idle time.
PARSERS_MAX = 2
PARSER_REPLY_BYTES_MAX = 64 * MIB
PARSER_WAIT_S_MAX = 1.0
PARSER_START_S_MAX = 30

Why = Literal["time", "memory", "busy", "failed"]
# The size of a body in bytes, and a function that opens its bytes and may be called again.
Body = tuple[int, Callable[[], Iterator[bytes]]]

# The environment of the child contains no secrets, only what is needed to find libraries.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_WRITE_BYTES = 1 << 16
_LOOK_EVERY_S = 0.05
_STARTS = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n');"
    " from contextrelay.bounded.parser_child import main; main()"
)
_encoder = Encoder()


class TaskOutcome(Struct, frozen=True):
    """The result of a task, or the reason why it was stopped."""

    value: bytes = b""
    stopped: Why | None = None
    is_certain: bool = True  # Whether the task would be stopped again, even with more wall time.


_replies = Decoder(ParserReply)


def run(task: str, arguments: object, bodies: Sequence[Body], cpu_s: float) -> TaskOutcome:
    """Run a task of parser_child.py on bodies, with a limit of CPU time; return its outcome.

    Raises:
        RelayError: the task raised this error, or a body could not be read.
    """
    return _pool.run(task, _encoder.encode(arguments), bodies, cpu_s)


def close() -> None:
    """End the child processes of this process; new ones are started when needed."""
    _pool.close()


def pids() -> list[int]:
    """Return the process ids of the children of this process."""
    return _pool.pids()


@contextmanager
def held() -> Generator[None]:
    """Occupy all places of the pool during the block, so that calls find it busy; for tests."""
    with _pool.held():
        yield


class _Ended(Exception):
    """Raised if the child ended before it replied."""


class _TimedOut(Exception):
    """Raised if the child did not reply in time."""


class _TooLarge(Exception):
    """Raised if the child used more memory than allowed."""


class _Child:
    """One child process."""

    def __init__(self) -> None:
        flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        path = [str(Path(__file__).parents[2]), *(each or "." for each in sys.path)]
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", _STARTS, "\n".join(map(os.path.abspath, path))],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT if name in os.environ}
            | {"MALLOC_ARENA_MAX": "1"},
            cwd="/",
            # Ctrl-C is for the parent, because the child may still answer.
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._room_bytes = sys.maxsize
        self._until = time.monotonic() + PARSER_START_S_MAX
        try:
            self._resident_bytes = decode(self._frame(), type=Hello).resident_bytes
        except BaseException:
            self.end()
            raise

    def ask(self, head: bytes, bodies: Sequence[Body]) -> ParserReply:
        """Send a request to the child and return its reply.

        Raises:
            _Ended, _TimedOut, _TooLarge: the child did not reply.
        """
        self._until = time.monotonic() + PARSER_REAL_S_MAX
        body_bytes = sum(size for size, _ in bodies)
        self._room_bytes = self._resident_bytes + body_bytes + PARSER_ROOM_BYTES_MAX
        self._write(len(head).to_bytes(LENGTH_BYTES, "big") + head)
        for size_bytes, opens in bodies:
            for chunk in opens():
                self._write(chunk)
                size_bytes -= len(chunk)
            if size_bytes:
                hint = "check the store: relay verify"
                raise Broken("a body does not have the length in its record", hint)
        return _replies.decode(self._frame())

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> int:
        """Kill the process and return its exit code."""
        with suppress(OSError):
            self._process.kill()
        code = self._process.wait()
        self.close_pipes()
        return code

    def ended(self) -> int:
        """Return the exit code of the process, after it ended by itself."""
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return self.end()
        self.close_pipes()
        return code

    def close_pipes(self, is_forked: bool = False) -> None:
        """Close the pipes to the child; `is_forked`: it belongs to the parent of this process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if is_forked:
            self._process.returncode = 0

    def _write(self, raw: bytes) -> None:
        left = memoryview(raw)
        while left:
            self._wait(self._in, select.POLLOUT)
            try:
                left = left[os.write(self._in, left[:_WRITE_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise _Ended from error

    def _frame(self) -> bytes:
        size_bytes = int.from_bytes(self._read(LENGTH_BYTES), "big")
        if size_bytes > PARSER_REPLY_BYTES_MAX:
            raise _Ended
        return self._read(size_bytes)

    def _read(self, size_bytes: int) -> bytes:
        parts: list[bytes] = []
        while size_bytes > 0:
            self._wait(self._out, select.POLLIN)
            part = os.read(self._out, size_bytes)
            if not part:
                raise _Ended
            parts.append(part)
            size_bytes -= len(part)
        return b"".join(parts)

    def _wait(self, pipe: int, event: int) -> None:
        """Wait until a pipe is ready, and check the time and the child's memory while waiting."""
        poll = select.poll()
        poll.register(pipe, event)
        while not poll.poll(_LOOK_EVERY_S * 1000):
            if time.monotonic() > self._until:
                raise _TimedOut
            if resident_bytes(self._process.pid) > self._room_bytes:
                raise _TooLarge


def resident_bytes(pid: int) -> int:
    """Return the memory of a process in bytes; 0 if it is unknown."""
    with suppress(OSError, IndexError):
        pages = Path(f"/proc/{pid}/statm").read_bytes().split()
        return int(pages[1]) * os.sysconf("SC_PAGE_SIZE")
    words = ["ps", "-o", "rss=", "-p", str(pid)]  # A system without /proc.
    try:
        kib = subprocess.run(words, capture_output=True, timeout=1, check=True).stdout
        return int(kib) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


class _Pool:
    """The child processes of this process: the idle ones, and a limit on their number."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(PARSERS_MAX)
        self._lock = threading.Lock()
        self._waiting: list[_Child] = []
        self._children: set[_Child] = set()

    def run(self, task: str, arguments: bytes, bodies: Sequence[Body], cpu_s: float) -> TaskOutcome:
        if not self._free.acquire(timeout=PARSER_WAIT_S_MAX):
            return TaskOutcome(stopped="busy", is_certain=False)
        try:
            sizes = [size for size, _ in bodies]
            head = _encoder.encode(ParserRequest(task, arguments, sizes, cpu_s))
            # A child that was idle for long may have ended just before it was used.
            for _ in range(PARSERS_MAX + 1):
                if (outcome := self._run(head, bodies)) is not None:
                    return outcome
            return TaskOutcome(stopped="failed", is_certain=False)
        finally:
            self._free.release()

    def _run(self, head: bytes, bodies: Sequence[Body]) -> TaskOutcome | None:
        try:
            child, is_new = self._take()
        except (OSError, ValueError, _Ended, _TimedOut, DecodeError):
            return TaskOutcome(stopped="failed", is_certain=False)
        try:
            reply = child.ask(head, bodies)
        except _Ended:
            self._drop(child)
            return _outcome_of(child.ended(), is_new)
        except _TimedOut:
            self._drop(child)
            child.end()
            return TaskOutcome(stopped="time", is_certain=False)
        except (_TooLarge, DecodeError) as error:
            self._drop(child)
            child.end()
            return TaskOutcome(stopped="memory" if isinstance(error, _TooLarge) else "failed")
        except BaseException:
            self._drop(child)
            child.end()
            raise
        if reply.is_last:
            self._drop(child)
            child.ended()
        else:
            with self._lock:
                self._waiting.append(child)
        if reply.status == ERROR:
            problem = decode(reply.value)
            raise from_problem(problem, int(problem["status"]))
        return TaskOutcome(reply.value) if reply.status == DONE else TaskOutcome(stopped="memory")

    def _take(self) -> tuple[_Child, bool]:
        """Return an idle child or a new one, and True if it is new."""
        while True:
            with self._lock:
                child = self._waiting.pop() if self._waiting else None
            if child is None:
                child = _Child()
                with self._lock:
                    self._children.add(child)
                return child, True
            if child.is_alive():
                return child, False
            self._drop(child)
            child.ended()

    def _drop(self, child: _Child) -> None:
        with self._lock:
            self._children.discard(child)

    def pids(self) -> list[int]:
        with self._lock:
            return [child.pid for child in self._children]

    @contextmanager
    def held(self) -> Generator[None]:
        for _ in range(PARSERS_MAX):
            self._free.acquire()
        try:
            yield
        finally:
            for _ in range(PARSERS_MAX):
                self._free.release()

    def close(self) -> None:
        """End all children."""
        with self._lock:
            children, self._children, self._waiting = self._children, set(), []
        for child in children:
            child.end()

    def forget(self) -> None:
        """Abandon the children of the parent process, in a forked process."""
        for child in self._children:
            child.close_pipes(is_forked=True)


def _outcome_of(code: int, is_new: bool) -> TaskOutcome | None:
    """Return the reason why a child ended, by its exit code; None to try another child.

    A child that was idle may have ended, or been killed, just before it was used.
    """
    import signal

    if code in (0, -signal.SIGKILL) and not is_new:
        return None
    if -code in (signal.SIGPROF, signal.SIGXCPU):
        return TaskOutcome(stopped="time")
    if -code == signal.SIGALRM:
        return TaskOutcome(stopped="time", is_certain=False)
    # Native code ends its process if there is no memory left.
    return TaskOutcome(stopped="memory" if -code == signal.SIGABRT else "failed")


_pool = _Pool()
atexit.register(close)


def _forget() -> None:
    global _pool
    _pool.forget()
    _pool = _Pool()


os.register_at_fork(after_in_child=_forget)
