"""The bridge: send a task to another agent over a channel, and wait for its answer.

A task is a push to the task channel, and its answer a push to the done channel. Both have the same
random id in their metadata, so that callers do not receive each other's answers.

Rule: a caller subscribes before it sends the task, so that no answer is missed.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from contextrelay.client.bridge.tmux import TmuxPane
from contextrelay.client.contextrelay import ContextRelay
from contextrelay.client.subscription import Frame
from contextrelay.errors import Gone, Invalid, NotFound, RelayError, Unavailable
from contextrelay.limits import BRIDGE_S_DEFAULT, CONNECT_S_MAX, RUN_ANSWER_BYTES_MAX

BRIDGE_TASKS_MAX = 8


TASK_CHANNEL = "agent-tasks"
DONE_CHANNEL = "agent-done"
CORRELATION = "correlation_id"
FAILED = "failed"
# The bridge of contextrelay 0.2.0 identifies a task by the start of its URL, cut to this length.
_OLD_SUMMARY = "Result for task from "
_OLD_URL_CHARS = 60
# If fewer characters of an id are known, an answer could match another task.
_ID_CHARS_MIN = 8
_SUMMARY_CHARS = 80
_STDERR_BYTES = 2_000

Dispatcher = Callable[[str], str]
Urls = queue.SimpleQueue[str | RelayError]

log = logging.getLogger("contextrelay.bridge")


class AgentBridge:
    """Both sides of a bridge: `start` works on incoming tasks, `push_and_wait` sends a task.

    `dispatcher`: a function from text to text, or a command that reads the task and prints the
    answer.
    """

    def __init__(
        self,
        hub: ContextRelay,
        task_channel: str = TASK_CHANNEL,
        done_channel: str = DONE_CHANNEL,
        dispatcher: Dispatcher | str | Sequence[str] | None = None,
        timeout: float = BRIDGE_S_DEFAULT,
    ) -> None:
        self.hub = hub
        self.task_channel = task_channel
        self.done_channel = done_channel
        self._timeout_s = timeout
        self._dispatcher = dispatcher
        self._room = threading.BoundedSemaphore(BRIDGE_TASKS_MAX)

    @classmethod
    def for_tmux(
        cls,
        hub: ContextRelay,
        session: str = "vibe",
        window: int = 0,
        task_channel: str = TASK_CHANNEL,
        done_channel: str = DONE_CHANNEL,
        timeout: float = BRIDGE_S_DEFAULT,
    ) -> AgentBridge:
        """Return a bridge to an agent that runs in a tmux window."""
        pane = TmuxPane(session, window, timeout)
        return cls(hub, task_channel, done_channel, pane)

    # The worker's side

    def start(
        self,
        dispatcher: Dispatcher | str | Sequence[str] | None = None,
        on_open: Callable[[], object] = lambda: None,
    ) -> None:
        """Work on every incoming task, several at a time. Blocks until the hub is closed."""
        dispatch = self._dispatch(dispatcher or self._dispatcher)

        def hear(frame: Frame) -> None:
            url = frame.get("url")
            if isinstance(url, str):
                # A task that has to wait here is still in the channel, and is delivered again after
                # a restart.
                self._room.acquire()
                name = f"task {url[-36:]}"
                threading.Thread(target=work, args=(url,), daemon=True, name=name).start()

        def work(url: str) -> None:
            try:
                self._work(url, dispatch)
            except (RelayError, ValueError) as error:
                log.error("could not answer task %s: %s", url, error)
            finally:
                self._room.release()

        self.hub.hear(self.task_channel, hear, on_open=on_open)

    def _work(self, url: str, dispatch: Dispatcher) -> None:
        """Do the task at a URL and push its answer or its error."""
        metadata: dict[str, Any] = {"summary": f"{_OLD_SUMMARY}{url[:_OLD_URL_CHARS]}"}
        try:
            correlation = self.hub.peek(url).get(CORRELATION)
            if isinstance(correlation, str):
                metadata[CORRELATION] = correlation
            answer = dispatch(self.hub.pull(url))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
            metadata[FAILED] = True
        # An empty answer is valid, but an empty text cannot be pushed, so another text is pushed.
        self.hub.push(answer or "\n", channel=self.done_channel, metadata=metadata)

    def _dispatch(self, dispatcher: Dispatcher | str | Sequence[str] | None) -> Dispatcher:
        if dispatcher is None:
            return TmuxPane(timeout_s=self._timeout_s)
        if callable(dispatcher):
            return dispatcher
        return lambda task: run_command(dispatcher, task, self._timeout_s)

    # The caller's side

    def send(self, task: str, correlation: str = "") -> str:
        """Push a task without waiting for the answer; return the URL of the task."""
        metadata: dict[str, Any] = {"summary": task[:_SUMMARY_CHARS]}
        metadata[CORRELATION] = correlation or secrets.token_hex(16)
        return self.hub.push(task, channel=self.task_channel, metadata=metadata)

    def push_and_wait(self, task: str, timeout: float = BRIDGE_S_DEFAULT) -> str:
        """Push a task and return the other agent's answer.

        Raises:
            Unavailable: no answer arrived in time.
            RelayError: the other agent failed; the message contains the reason.
        """
        correlation = secrets.token_hex(16)
        deadline_s = time.monotonic() + timeout
        with _listening(self.hub, self.done_channel) as urls:
            task_url = self.send(task, correlation)
            while True:
                try:
                    url = urls.get(timeout=max(0.0, deadline_s - time.monotonic()))
                except queue.Empty:
                    raise Unavailable(
                        f"no answer within {timeout:g} s",
                        f"check that a bridge is running on channel {self.task_channel!r}",
                        {"task": task_url},
                    ) from None
                if isinstance(url, RelayError):
                    raise url
                metadata = self._seen(url)
                if metadata is not None and is_answer(metadata, correlation, task_url):
                    return self._answer(url, metadata)

    def _seen(self, url: str) -> dict[str, Any] | None:
        """Return the metadata of a push to the done channel, or None if it is no answer."""
        try:
            return self.hub.peek(url)
        except (NotFound, Gone, Invalid, ValueError) as error:
            log.info("skipped %s: %s", url, error)
            return None

    def _answer(self, url: str, metadata: dict[str, Any]) -> str:
        answer = self.hub.pull(url)
        if metadata.get(FAILED) is True:
            raise RelayError(
                f"the other agent failed: {answer}", "check the error, and send the task again"
            )
        return answer


@contextmanager
def _listening(hub: ContextRelay, channel: str) -> Generator[Urls]:
    """Subscribe to a channel in a thread; yield a queue of URLs.

    If the subscription ends, its error is put there.

    Raises:
        Unavailable: the subscription failed.
    """
    urls: Urls = queue.SimpleQueue()
    is_open = threading.Event()
    subscription = hub.hearing(channel)

    def hear(frame: Frame) -> None:
        if isinstance(url := frame.get("url"), str):
            urls.put(url)

    def listen() -> None:
        try:
            subscription.run(hear, is_open.set)
        except RelayError as error:
            urls.put(error)
            is_open.set()

    thread = threading.Thread(target=listen, daemon=True, name=f"hears {channel}")
    thread.start()
    try:
        if not is_open.wait(2 * CONNECT_S_MAX):
            raise Unavailable("cannot subscribe to the channel", "check that the relay is running")
        yield urls
    finally:
        subscription.close()
        thread.join(CONNECT_S_MAX)


def is_answer(metadata: dict[str, Any], correlation: str, task_url: str) -> bool:
    """Return True if a push is the answer to a task.

    A push without a task id is recognized by its summary.
    """
    if CORRELATION in metadata:
        return metadata[CORRELATION] == correlation
    url = task_url.partition("#")[0][:_OLD_URL_CHARS]
    id_chars = len(url) - task_url.find("/pull/") - len("/pull/")
    return id_chars >= _ID_CHARS_MIN and metadata.get("summary") == f"{_OLD_SUMMARY}{url}"


def run_command(command: str | Sequence[str], task: str, timeout_s: float) -> str:
    """Run a command that reads a task from stdin; return its output.

    If `command` is a str, a shell runs it.

    Raises:
        RelayError: the command failed, or did not end in time.
    """
    # Use files, so that a process that outlives the command can still write without filling memory.
    with TemporaryFile("w+", errors="replace") as printed, TemporaryFile("w+b") as complained:
        running = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=complained,
            text=True,
            start_new_session=True,
        )
        try:
            running.communicate(task, timeout_s)
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"the command did not end within {timeout_s:g} s", "increase the timeout"
            ) from None
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        if running.returncode:
            complained.seek(max(0, complained.seek(0, os.SEEK_END) - _STDERR_BYTES))
            said = complained.read().decode(errors="replace").strip()
            raise RelayError(f"the command failed with exit code {running.returncode}: {said}")
        if os.fstat(printed.fileno()).st_size > RUN_ANSWER_BYTES_MAX:
            raise RelayError(
                f"the command printed more than {RUN_ANSWER_BYTES_MAX:,} bytes",
                "push long output and print only its URL",
            )
        printed.seek(0)
        return printed.read()
