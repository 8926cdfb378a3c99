"""The end of `relay exec`: the output is stored, and printed in full or as a digest.

Rule: an error in this module never loses output of the command. If the output cannot be stored it
is printed, the error goes to stderr, and the exit status stays that of the command.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from contextrelay.cli.console import Console
from contextrelay.cli.main import guarded
from contextrelay.cli.place import remember_push
from contextrelay.content.output_digest import OutputDigest
from contextrelay.content.token_estimate import estimate_tokens_high
from contextrelay.errors import RelayError
from contextrelay.limits import MIB, OUTPUT_SEARCHED_BYTES_MAX, PIECE_BYTES_PER_TOKEN
from contextrelay.model.artifact import Artifact
from contextrelay.runs.child_process import Child
from contextrelay.runs.output import StoredOutput
from contextrelay.verbs import FinishRun, NoteRun, Push, Verb

if TYPE_CHECKING:
    from contextrelay.client.transport.local import Local
    from contextrelay.client.transport.remote import Remote
    from contextrelay.runs.exec_start import ExecOptions

COMMAND_CHARS_SHOWN = 300


def finish_started(
    options: ExecOptions, child: Child, first: bytes, pieces: Iterator[bytes]
) -> int:
    """Finish a command that was started before this module was imported, and return its exit
    status.
    """

    def act(console: Console) -> None:
        console.obey(options)
        finish(options, console, child, chain((first,), pieces))

    return guarded(act)


class _Kept(NamedTuple):
    """The artifact of the stored output, or the error that prevented storing it."""

    artifact: Artifact | None
    trouble: RelayError | None


def finish(
    options: ExecOptions,
    console: Console,
    child: Child,
    pieces: Iterator[bytes],
    thread: str | None = None,
) -> None:
    """Collect the output of a command until the command ends, store the output, and print it or a
    digest.
    """
    began_s = time.monotonic()
    run = _Run(options.command, thread, os.urandom(8).hex())
    plain = _plain(options)
    try:
        output = StoredOutput(console.transport, _name(options.command), run.run, plain)
        run.begin(console.transport)
    except RelayError as error:
        for piece in pieces:
            plain(piece)
        console.fail(error)
        console.exit_code = child.exit_status or 0
        return
    digest = OutputDigest()
    for piece in pieces:
        output.add(piece)
        digest.feed(piece)
    assert child.exit_status is not None
    ended = _Ended(
        child.exit_status, child.is_interrupted, int((time.monotonic() - began_s) * 1000)
    )
    kept = _stored(output, run, ended) if digest.size_bytes or thread else _Kept(None, None)
    _show(options, console, ended, _Printed(output, digest), kept)
    output.close()
    if kept.artifact is not None:
        remember_push(console.transport, kept.artifact.ref)
        if not options.json:
            console.note(f"stored as {kept.artifact.ref}")
    console.exit_code = ended.exit_status


class _Ended(NamedTuple):
    exit_status: int
    is_interrupted: bool
    duration_ms: int


class _Printed(NamedTuple):
    output: StoredOutput
    digest: OutputDigest


class _Run(NamedTuple):
    """A command, to be recorded as a run of a thread, or outside of any thread."""

    command: list[str]
    thread: str | None
    run: str

    @property
    def line(self) -> str:
        line = shlex.join(self.command)
        cut = line[: COMMAND_CHARS_SHOWN - 1] + "…" if len(line) > COMMAND_CHARS_SHOWN else line
        return "".join(char if char.isprintable() else " " for char in cut)

    def begin(self, transport: Local | Remote) -> None:
        if self.thread is not None:
            detail = {"kind": "exec", "provider": "exec", "model": self.line}
            transport.ask(
                NoteRun(thread=self.thread, run=self.run, status="started", detail=detail)
            )

    def verb(self, ended: _Ended, parts: tuple[str, ...]) -> Verb[Artifact]:
        """Return the verb that stores the output: in the thread, with a record of the run, or
        without a thread.
        """
        name = _name(self.command)
        detail: dict[str, Any] = {
            "command": self.line,
            "exit_status": ended.exit_status,
            "duration_ms": ended.duration_ms,
        }
        if self.thread is None:
            return Push(name=name, type="tool_output", metadata=detail, parts=parts)
        return FinishRun(
            thread=self.thread,
            run=self.run,
            action=f"ran {self.line}: exit status {ended.exit_status}",
            status="interrupted" if ended.is_interrupted else "finished",
            detail=detail,
            name=name,
            type="tool_output",
            parts=parts,
        )


def _name(command: list[str]) -> str:
    program = "".join(char for char in os.path.basename(command[0]) if char.isprintable())
    return f"{program[:80] or 'command'} output"


def _stored(output: StoredOutput, run: _Run, ended: _Ended) -> _Kept:
    try:
        return _Kept(output.store(lambda parts: run.verb(ended, parts)), None)
    except RelayError as error:
        return _Kept(None, error)


def _plain(options: ExecOptions) -> Callable[[bytes], None]:
    """Return the function that prints output. It prints to stderr if stdout is for JSON."""

    def write(piece: bytes) -> None:
        stream = sys.stderr if options.json else sys.stdout
        stream.buffer.write(piece)
        stream.buffer.flush()

    return write


def _show(
    options: ExecOptions, console: Console, ended: _Ended, printed: _Printed, kept: _Kept
) -> None:
    """Print the output if it is short, otherwise its digest, and then the error, if there is one.

    Output that was not stored is printed, however long it is.
    """
    output, digest = printed
    tokens_max = options.max_tokens
    whole: bytes | None = None
    if digest.size_bytes <= tokens_max * PIECE_BYTES_PER_TOKEN and not output.is_spilled:
        whole = output.whole()
        if not _fits(whole, tokens_max):
            whole = None
    ref = kept.artifact.ref if kept.artifact else None
    last = _last_line(ended, digest, ref)
    is_lost = kept.trouble is not None
    if is_lost and not output.is_spilled and (whole is None or not options.json):
        for chunk in output.chunks():
            _plain(options)(chunk)
    if options.json:
        if whole is not None:
            text = whole.decode(errors="replace")
        else:
            text = digest.text(tokens_max, last, estimate_tokens_high)
        answer: dict[str, Any] = {
            "ref": ref,
            "exit_status": ended.exit_status,
            "is_interrupted": ended.is_interrupted,
            "size": digest.size_bytes,
            "line_count": digest.line_count,
            "error_count": digest.error_count,
            "duration_ms": ended.duration_ms,
            "text": text,
            "is_digest": whole is None,
        }
        console.answer(answer, "")
    elif is_lost:
        pass  # The output has been printed already.
    elif whole is not None:
        sys.stdout.buffer.write(whole)
        sys.stdout.buffer.flush()
    else:
        console.show(digest.text(tokens_max, last, estimate_tokens_high))
    if kept.trouble is not None:
        console.fail(kept.trouble)


def _fits(whole: bytes, tokens_max: int) -> bool:
    """Return True if an output has at most this many tokens."""
    # A token has at least one byte.
    if len(whole) <= tokens_max:
        return True
    text = whole.decode(errors="replace")
    if estimate_tokens_high(text) <= tokens_max:
        return True
    # Imported here, because loading the tokenizer takes longer than everything else.
    from contextrelay.content.tokens import count_tokens

    return count_tokens(text) <= tokens_max


def _last_line(ended: _Ended, digest: OutputDigest, ref: str | None) -> str:
    """Return the last line of a digest: exit status, size, and the commands that read the
    output.
    """
    errors = f", {digest.error_count:,} with errors"
    if digest.is_searched and not digest.error_count:
        errors = ""
    if not digest.is_searched:
        errors += f" (searched in the first {OUTPUT_SEARCHED_BYTES_MAX // MIB} MiB)"
    said = f"exit {ended.exit_status}, {digest.line_count:,} lines{errors}"
    if ref is None:
        return f"[{said}; not stored]"
    short = ref[:8]
    return f"[relay {short}: {said}. relay get {short} --lines A:B | --grep RE]"
