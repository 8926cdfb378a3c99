"""`relay wrap run`: an LLM command line works on a thread.

It gets the bundle of the thread; what it writes to stdout is shown as it comes, stored whole, and
becomes an action of the thread. What it writes to stderr goes to ours.

Rule: a run changes its thread once, at its end. One that failed changes no state: its output is
stored by itself, and the event run.failed names it. One that was stopped keeps what came.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from msgspec.json import encode

from contextrelay.cli.console import Console
from contextrelay.cli.place import remember_push
from contextrelay.client.flow import run as run_flow
from contextrelay.client.relay import Relay
from contextrelay.client.thread import Thread
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Refused, RelayError
from contextrelay.limits import (
    BUNDLE_TURN_BYTES_MAX,
    EVENT_BYTES_MAX,
    LABEL_CHARS_MAX,
    OUTPUT_MEMORY_BYTES,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.runs.agents import SYSTEM, Passing, called, prompt_text
from contextrelay.runs.context import Gathered, gather
from contextrelay.runs.pieces import cut_bytes, written
from contextrelay.runs.price_file import prices_here
from contextrelay.runs.provider import Message, Prompt, Reply, Tokens
from contextrelay.runs.tally import Tally
from contextrelay.runs.wrap.child_process import Child
from contextrelay.runs.wrap.output import Output
from contextrelay.verbs import AddEvent, FinishRun, NoteRun, Push, RecordCall, Verb
from contextrelay.verbs.runs import RunNote

_WORDS_SHOWN = 200


class Wrapped(NamedTuple):
    """What is run: a binary with arguments, and how it gets the bundle."""

    binary: str
    args: list[str]
    passing: Passing | None

    @property
    def name(self) -> str:
        return os.path.basename(self.binary)


def run_agent(
    console: Console, thread: Thread, user: str, wrapped: Wrapped, refs: tuple[str, ...] = ()
) -> None:
    """Run an agent on a thread; the console has its exit status after that.

    Raises:
        NotFound, Refused: it cannot be started (127, 126), or the thread is closed.
    """
    relay = console.relay
    if thread.show().status != "open":
        raise Refused(f"thread {thread.id} is closed", "fork it: relay thread fork")
    user = written(user)
    gathered = run_flow(relay.transport, gather(thread.id, user, refs, SYSTEM))
    run = _Run(relay, thread.id, user, wrapped, gathered)
    try:
        with called(wrapped.binary, wrapped.args, run.text, wrapped.passing) as call:
            run.begin(refs)
            child = Child(call.words, call.stdin, is_shown=True)
            for piece in child.output():
                run.add(piece)
                if not console.is_json:
                    _show(piece)
    except RelayError as error:
        run.fail(error.message, error.code, None)
        raise
    assert child.exit_status is not None
    console.exit_code = child.exit_status
    artifact = run.end(child)
    if artifact is not None:
        remember_push(relay, artifact.ref)
    _say(console, run, child, artifact)


def _show(piece: bytes) -> None:
    """Pass output on as it is: a reader that went away stops no agent."""
    try:
        while piece:
            piece = piece[os.write(1, piece) :]
    except BrokenPipeError:
        return


def _say(console: Console, run: _Run, child: Child, artifact: Artifact | None) -> None:
    ref = None if artifact is None else artifact.ref
    if console.is_json:
        answer = {
            "run": run.id,
            "ref": ref,
            "exit_status": child.exit_status,
            "is_interrupted": child.is_interrupted,
            "text": run.said,
        }
        console.answer(answer, "")
    ended = "interrupted" if child.is_interrupted else f"exit status {child.exit_status}"
    if child.exit_status:
        kept = "nothing came" if ref is None else f"what came is kept: relay pull {ref[:8]}"
        console.note(f"{run.by}: {ended}; {kept}")
    elif console.is_human and ref is not None:
        console.note(f"stored: {ref[:8]}")


class _Run:
    """One run while it goes on."""

    def __init__(
        self, relay: Relay, thread: str, user: str, wrapped: Wrapped, gathered: Gathered
    ) -> None:
        self.id = os.urandom(8).hex()
        self.by = f"cli:{wrapped.name}"[:LABEL_CHARS_MAX]
        self._ask = relay.transport.ask
        self._thread, self._user, self._wrapped = thread, user, wrapped
        self._gathered = gathered
        turns = gathered.bundle.messages()
        self._prompt = Prompt(
            model=wrapped.name,
            system=gathered.bundle.system,
            messages=tuple(Message(role=turn.role, text=turn.text) for turn in turns),
            output_tokens_max=0,
        )
        self.text = prompt_text(self._prompt)
        self._output = Output(relay.transport, f"{wrapped.name} answer", self.id)
        self._tally = Tally(prices_here(os.environ))
        self._head = bytearray()

    @property
    def said(self) -> str:
        """What came so far, up to a length, as text."""
        return self._head.decode(errors="replace")

    def add(self, piece: bytes) -> None:
        self._output.add(piece)
        if len(self._head) < OUTPUT_MEMORY_BYTES:
            self._head += piece[: OUTPUT_MEMORY_BYTES - len(self._head)]

    def begin(self, refs: tuple[str, ...]) -> None:
        """Keep the user's words, and that the run has begun."""
        said: dict[str, Any] = {"text": self._user}
        if len(encode(said)) > EVENT_BYTES_MAX // 2:
            push = Push(metadata={"run": self.id}, thread=self._thread)
            said = {"ref": self._ask(push, self._user.encode(errors="replace")).ref}
        received = {"run": self.id, **said, "refs": list(refs)}
        self._ask(AddEvent(self._thread, "message.received", received))
        detail = {
            "kind": "wrap",
            "provider": "cli",
            "model": self._wrapped.name,
            "version": self._gathered.version,
        }
        self._note("started", detail)

    def _note(self, status: RunNote, detail: dict[str, Any], by: str = "you") -> None:
        self._ask(NoteRun(thread=self._thread, run=self.id, status=status, detail=detail, by=by))

    def end(self, child: Child) -> Artifact | None:
        """Record the call, and store the answer with what the thread is to know of it."""
        self._record()
        detail = {**self._tally.fields(), "exit_status": child.exit_status}
        if child.is_interrupted and not self._head:
            self._note("interrupted", {"ref": None, **detail}, self.by)
            artifact = None
        elif child.exit_status and not child.is_interrupted:
            artifact = self.fail(f"exit status {child.exit_status}", "failed", child.exit_status)
        else:
            status = "interrupted" if child.is_interrupted else "finished"
            artifact = self._output.store(lambda parts: self._finish(status, detail, parts))
        self._output.close()
        return artifact

    def _record(self) -> None:
        self._tally.rounds += 1
        tokens = Tokens(
            input=count_tokens(self.text), output=count_tokens(self.said), basis="estimated"
        )
        reply = Reply(text=self.said, model=self._wrapped.name[:LABEL_CHARS_MAX], tokens=tokens)
        detail: dict[str, Any] = {
            "round": 1,
            "model": reply.model,
            **self._tally.add(reply),
            "duration_ms": self._tally.duration_ms,
            "tools": [],
        }
        exchange = encode({"prompt": self._prompt, "reply": reply, "results": ()})
        call = RecordCall(thread=self._thread, run=self.id, detail=detail, by=self.by)
        self._ask(call, exchange)

    def _finish(self, status: Any, detail: dict[str, Any], parts: tuple[str, ...]) -> FinishRun:
        words = " ".join(self._user.split())[:_WORDS_SHOWN]
        return FinishRun(
            thread=self._thread,
            run=self.id,
            action=f"{self.by} answered: {words}",
            asked=cut_bytes(self._user, BUNDLE_TURN_BYTES_MAX),
            status=status,
            detail=detail,
            source_refs=self._gathered.sources[-SOURCE_REFS_MAX:],
            parts=parts,
            by=self.by,
        )

    def fail(self, reason: str, error: str, exit_status: int | None) -> Artifact | None:
        """Say in an event why the run failed; what came is stored by itself."""
        artifact = None
        if self._head:

            def verb(parts: tuple[str, ...]) -> Verb[Artifact]:
                return Push(metadata={"run": self.id}, created_by=self.by, parts=parts)

            artifact = self._output.store(verb)
        detail: dict[str, Any] = {
            "reason": reason,
            "error": error,
            "output": None if artifact is None else artifact.ref,
            "exit_status": exit_status,
            **self._tally.fields(),
            "draft": [],
        }
        self._note("failed", detail, self.by)
        return artifact
