"""The provider `cli:BIN[:MODEL]`: any LLM command-line tool, called as described in wrap.py."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile

from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed, Invalid, Unavailable
from contextrelay.limits import CHUNK_BYTES, PROVIDER_REPLY_S_MAX, RUN_ANSWER_BYTES_MAX
from contextrelay.runs.provider import Prompt, Reply, Tokens
from contextrelay.runs.providers.registry import ANOTHER
from contextrelay.runs.wrap import AGENTS, called, prompt_text

_ERROR_BYTES_SHOWN = 1_000
# Seconds between two chances to stop a command that writes nothing.
_STEP_MS = 500


class CommandLine:
    """A provider that runs a command for each call. The command cannot use the tools of Context
    Relay.
    """

    name = "cli"

    def __init__(self, binary: str, model: str = "", reply_s: float = PROVIDER_REPLY_S_MAX) -> None:
        self.model = f"{binary}:{model}" if model else binary
        self._reply_s = reply_s
        self._binary, self._model = binary, model

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Yield the stdout of the command as it is written, then the complete answer.

        While the command writes nothing, empty pieces are yielded, so that the call can be stopped.
        """
        text = prompt_text(prompt)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces: list[str] = []
        with called(self._binary, (), text, model=self._model) as call, TemporaryFile() as errors:
            running = _start(call.words, call.stdin, errors.fileno())
            size_bytes = 0
            until_s = time.monotonic() + self._reply_s
            try:
                assert running.stdout is not None
                for chunk in _chunks(running.stdout.fileno()):
                    size_bytes += len(chunk)
                    self._check(max(size_bytes, os.fstat(errors.fileno()).st_size), until_s)
                    pieces.append(decoder.decode(chunk))
                    yield pieces[-1]
                pieces.append(decoder.decode(b"", final=True))
                status = running.wait(max(0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._late() from None
            finally:
                _end(running)
            if status:
                errors.seek(max(0, os.fstat(errors.fileno()).st_size - _ERROR_BYTES_SHOWN))
                said = errors.read().decode(errors="replace").strip() or "".join(pieces).strip()
                raise Failed(
                    f"{self._binary} exited with status {status}: {said[-_ERROR_BYTES_SHOWN:]}",
                    f"check that the tool works: {self._binary} --help",
                )
        answer = "".join(pieces)
        tokens = Tokens(input=count_tokens(text), output=count_tokens(answer), basis="estimated")
        yield Reply(text=answer, model=self.model, tokens=tokens)

    def _check(self, size_bytes: int, until_s: float) -> None:
        if size_bytes > RUN_ANSWER_BYTES_MAX:
            raise Failed(
                f"{self._binary} wrote more than {RUN_ANSWER_BYTES_MAX:,} bytes",
                "ask for a shorter answer, or use: relay wrap run",
            )
        if time.monotonic() > until_s:
            raise self._late()

    def _late(self) -> Unavailable:
        return Unavailable(
            f"{self._binary} exceeded its time limit of {self._reply_s:,} seconds",
            f"run it again, {ANOTHER}",
        )


def _end(running: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children, because the children may keep its output open."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(running.pid, signal.SIGKILL)
    assert running.stdout is not None
    running.stdout.close()
    running.wait()


def _chunks(pipe: int) -> Iterator[bytes]:
    """Yield the bytes that are written to a pipe, and b"" periodically if there are none."""
    poll = select.poll()
    poll.register(pipe)
    while True:
        if not poll.poll(_STEP_MS):
            yield b""
        elif chunk := os.read(pipe, CHUNK_BYTES):
            yield chunk
        else:
            return


def _start(words: list[str], stdin: int | None, stderr: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Invalid(
            f"command not found: {words[0]!r}", "install it, or choose another model: -m echo"
        ) from error
    except (OSError, ValueError) as error:
        raise Invalid(
            f"cannot execute {words[0]!r}: {error}", "make the file executable: chmod +x FILE"
        ) from error


def open_cli(model: str, environ: Mapping[str, str]) -> CommandLine:
    """Open the provider `cli:BIN[:MODEL]`.

    Raises:
        Invalid: the name contains no BIN.
    """
    binary, _, inner = model.partition(":")
    if not binary:
        known = ", ".join(AGENTS)
        raise Invalid("missing command-line tool", f"use cli:BIN; known tools: {known}")
    return CommandLine(binary, inner)
