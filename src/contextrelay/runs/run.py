"""Runs: a model answers on a thread, round by round, with tools; what it said and did is kept.

Rule: a run changes its thread once, at its end, by `FinishRun`: the answer and the draft, or
nothing. Whatever happens before that is an event. A run that is stopped keeps what came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, TypeVar
from uuid import uuid4

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay import verbs
from contextrelay.client.flow import Ask, Flow, Give, Items, Step, Stopped, Work
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed, Refused, RelayError
from contextrelay.limits import (
    BUNDLE_TURN_BYTES_MAX,
    EVENT_BYTES_MAX,
    LABEL_CHARS_MAX,
    RUN_ANSWER_BYTES_MAX,
    RUN_CALLS_MAX,
    RUN_OUTPUT_TOKENS_DEFAULT,
    RUN_ROUNDS_DEFAULT,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.run import RunResult, ToolUse
from contextrelay.model.thread import ThreadView
from contextrelay.runs.context import Gathered, gather
from contextrelay.runs.draft import commit, committed
from contextrelay.runs.files import TrackedFiles
from contextrelay.runs.pieces import Pieces, cut_bytes, spelled, tokens_in, written
from contextrelay.runs.prices import PRICES, Rates
from contextrelay.runs.provider import (
    Message,
    Prompt,
    Provider,
    Reply,
    Tokens,
    ToolCall,
    ToolResult,
)
from contextrelay.runs.tally import Tally, since_ms
from contextrelay.runs.tools import Toolbox, Used
from contextrelay.verbs.runs import RunNote

Result = TypeVar("Result")
Steps = Generator[Step | Give[str | RunResult], Any, Result]
_LAST_ROUND = "This was the last round with tools: answer now, with what you have."
_WORDS_SHOWN = 200
_REASON_CHARS_MAX = 2_000


class Options(Struct, frozen=True, kw_only=True):
    """What a run may be given besides the words and the model."""

    refs: tuple[str, ...] = ()
    system: str | None = None
    budget_tokens: int | None = None
    files: TrackedFiles | None = None
    rounds_max: int = RUN_ROUNDS_DEFAULT
    output_tokens_max: int = RUN_OUTPUT_TOKENS_DEFAULT
    by: str = "you"
    prices: Mapping[str, Rates] = PRICES
    on_tool: Callable[[ToolUse], object] | None = None
    is_alone: bool = False
    """Whether nothing of the thread is shown. The model can then look into refs and do nothing
    else, and its answer is not stored: that is left to the caller."""


def run_thread(
    thread: str, user: str, provider: Provider, options: Options
) -> Items[str | RunResult]:
    """Ask a model; give its words as they come, and last the result.

    Raises:
        Refused: the thread is closed.
        Failed: the model said nothing, or did not come to an end.
        RelayError: what the provider or the store raises; the event run.failed says so too.
    """
    view: ThreadView = yield verbs.ShowThread(thread)
    if view.status != "open":
        raise Refused(f"thread {thread} is closed", "fork it: relay thread fork")
    user = written(user)
    begun = yield from gather(
        thread, user, options.refs, options.system, options.budget_tokens, options.is_alone
    )
    run = _Run(thread, user, provider, options, begun)
    yield from run.begin()
    try:
        yield from run.rounds()
        result = yield from run.finish("finished")
    except Stopped:
        yield Give([(yield from run.interrupted())])
        raise
    except RelayError as error:
        yield from run.fail(error)
        raise
    finally:
        run.close()
    yield Give([result])


class _Run:
    """One run while it goes on."""

    def __init__(
        self, thread: str, user: str, provider: Provider, options: Options, begun: Gathered
    ) -> None:
        self.id = uuid4().hex[:16]
        self._thread, self._user = thread, user
        self._provider, self._options = provider, options
        self._bundle, self._version = begun.bundle, begun.version
        self._model = provider.model
        self._by = f"{provider.name}:{provider.model}"[:LABEL_CHARS_MAX]
        self._tools = Toolbox(thread, self.id, self._by, options.files, options.is_alone)
        self._tools.refs.update(dict.fromkeys(begun.sources))
        messages = [Message(role=turn.role, text=turn.text) for turn in begun.bundle.messages()]
        self._messages = tuple(messages)
        self._stable_messages = len(messages) - 1
        self._said: list[str] = []
        self._pieces: Pieces | None = None
        self._partial: list[str] = []
        self._prompt: Prompt | None = None
        self._called_s = 0.0
        self._tally = Tally(options.prices)
        self._is_finishing = False
        self._stop: Literal["end", "length", "refused", "interrupted"] = "end"

    def close(self) -> None:
        """End the provider's call, if one goes on."""
        if self._pieces is not None:
            self._pieces.close()

    def begin(self) -> Flow[None]:
        """Keep the user's words, and that the run has begun."""
        refs = list(self._options.refs)
        said: dict[str, Any] = {"text": self._user}
        if len(encode(said)) > EVENT_BYTES_MAX // 2:
            push = verbs.Push(created_by=self._options.by, metadata={"run": self.id})
            artifact: Artifact = yield Ask(push, self._user.encode(errors="replace"))
            self._tools.refs[artifact.ref] = None
            said = {"ref": artifact.ref}
        received = {"run": self.id, **said, "refs": refs}
        yield verbs.AddEvent(self._thread, "message.received", received, self._options.by)
        detail = {
            "kind": "ask",
            "provider": self._provider.name,
            "model": self._model,
            "version": self._version,
            "rounds_max": self._options.rounds_max,
            "output_tokens_max": self._options.output_tokens_max,
        }
        if self._options.budget_tokens is not None:
            detail["budget_tokens"] = self._options.budget_tokens
        yield self._note("started", detail, self._options.by)

    def _note(self, status: RunNote, detail: dict[str, Any], by: str) -> verbs.NoteRun:
        return verbs.NoteRun(thread=self._thread, run=self.id, status=status, detail=detail, by=by)

    # Rounds

    def rounds(self) -> Steps[None]:
        """Ask, do what the model asks for, and ask again, until it asks for nothing more."""
        while True:
            self._tally.rounds += 1
            self._called_s = time.monotonic()
            self._prompt = Prompt(
                model=self._model,
                system=self._bundle.system,
                messages=self._messages,
                tools=self._tools.tools() if self._options.rounds_max > 1 else (),
                stable_messages=self._stable_messages,
                output_tokens_max=self._options.output_tokens_max,
            )
            reply = yield from self._call(self._prompt)
            uses, results = yield from self._use(reply)
            yield from self._record(self._prompt, reply, results, uses)
            self._said.append(reply.text)
            self._partial, self._prompt = [], None
            if not reply.calls:
                self._stop = "end" if reply.stop == "tools" else reply.stop
                return
            if self._tally.rounds >= self._options.rounds_max:
                raise Failed(
                    f"the model still asks for tools after {self._tally.rounds} rounds",
                    "ask for less at once, or allow more: relay config set rounds_max N",
                )
            is_last = self._tally.rounds + 1 == self._options.rounds_max
            if is_last:
                *others, last = results
                results = (*others, replace(last, text=f"{last.text}\n\n[{_LAST_ROUND}]"))
            result = Message(role="user", results=results)
            self._messages = (*self._messages, reply.message(), result)

    def _call(self, prompt: Prompt) -> Steps[Reply]:
        """Give the words of one call as they come; its whole reply.

        Raises:
            Failed: the stream ended without a reply, or there is too much of it.
        """
        pieces = self._pieces = Pieces(self._provider, prompt)
        size_bytes = 0
        while True:
            piece = yield Work(pieces.next)
            if isinstance(piece, Reply):
                pieces.close()
                self._pieces = None
                return spelled(piece)
            if piece is None:
                raise Failed(f"the answer of {self._by} ended before it was whole", "ask again")
            text = written(piece)
            size_bytes += len(text.encode())
            if size_bytes > RUN_ANSWER_BYTES_MAX:
                raise Failed(
                    f"the answer is over {RUN_ANSWER_BYTES_MAX:,} bytes",
                    "ask for parts of it, or for a document by relay_put",
                )
            if not text:
                yield Give([""])  # A step, after which it may be ended.
                continue
            # What is said after a look is a paragraph of its own.
            between = "" if self._partial else _between(self._text())
            self._partial.append(text)
            yield Give([between + text])

    def _use(self, reply: Reply) -> Flow[tuple[list[dict[str, Any]], tuple[ToolResult, ...]]]:
        """Use the tools that a reply asks for: what events say of it, and the results."""
        uses: list[dict[str, Any]] = []
        results: list[ToolResult] = []
        for index, call in enumerate(reply.calls):
            started_s = time.monotonic()
            if index >= RUN_CALLS_MAX:
                said = f"error: at most {RUN_CALLS_MAX} calls at once; ask again"
                used = Used(ToolResult(call.id, said, is_error=True))
            else:
                used = yield from self._tools.use(call)
            duration_ms = since_ms(started_s)
            results.append(used.result)
            uses.append(
                {
                    "id": call.id,
                    "name": call.name[:LABEL_CHARS_MAX],
                    "duration_ms": duration_ms,
                    "is_error": used.result.is_error,
                    "refs": list(used.refs),
                }
            )
            if self._options.on_tool is not None:
                self._options.on_tool(_shown(call, used, duration_ms))
        return uses, tuple(results)

    def _record(
        self,
        prompt: Prompt,
        reply: Reply,
        results: tuple[ToolResult, ...],
        uses: list[dict[str, Any]],
    ) -> Flow[None]:
        """Keep a call: what was sent, what came, and what it took."""
        detail = {
            "round": self._tally.rounds,
            "model": reply.model[:LABEL_CHARS_MAX],
            **self._tally.add(reply),
            "duration_ms": since_ms(self._called_s),
            "tools": uses,
        }
        exchange = encode({"prompt": prompt, "reply": reply, "results": results})
        verb = verbs.RecordCall(thread=self._thread, run=self.id, detail=detail, by=self._by)
        yield Ask(verb, exchange)

    # Ends

    def finish(self, status: Literal["finished", "interrupted"]) -> Flow[RunResult]:
        """Store the answer, and with it what the model wants to change.

        Raises:
            Failed: the model said nothing.
            Refused: what it wants to change is not allowed any more.
        """
        text = self._text()
        if not text.strip():
            reason = "refused to answer" if self._stop == "refused" else "said nothing"
            raise Failed(f"{self._by} {reason}", "ask in other words, or another model")
        if self._options.is_alone:
            yield self._note("finished", {"ref": None, **self._totals()}, self._by)
            return self._result(text, None, status)
        words = " ".join(self._user.split())[:_WORDS_SHOWN]
        verb = verbs.FinishRun(
            thread=self._thread,
            run=self.id,
            action=f"{self._by} answered: {words}",
            asked=cut_bytes(self._user, BUNDLE_TURN_BYTES_MAX),
            status=status,
            detail=self._totals(),
            media_type="text/markdown",
            by=self._by,
        )
        refs = list(self._tools.refs)[-SOURCE_REFS_MAX:]
        self._is_finishing = True
        artifact = yield from commit(verb, text.encode(), self._tools.draft, refs)
        return self._result(text, artifact, status)

    def interrupted(self) -> Flow[RunResult]:
        """Keep what came until the run was stopped, marked so."""
        self.close()
        if self._is_finishing:
            # The answer may be stored already: then it is whole, and not stored twice.
            artifact = yield from committed(self._thread, self.id)
            if artifact is not None:
                return self._result(self._text(), artifact, "finished")
        self._stop = "interrupted"
        partial = "".join(self._partial)
        if self._prompt is not None:
            reply = Reply(
                text=partial,
                model=self._model,
                tokens=Tokens(
                    input=tokens_in(self._prompt),
                    output=count_tokens(partial),
                    basis="estimated",
                ),
            )
            yield from self._record(self._prompt, reply, (), [])
            self._said.append(partial)
            self._partial, self._prompt = [], None
        text = self._text()
        if text.strip():
            return (yield from self.finish("interrupted"))
        yield self._note("interrupted", {"ref": None, **self._totals()}, self._by)
        return self._result("", None, "interrupted")

    def fail(self, error: RelayError) -> Flow[None]:
        """Say in an event why the run failed, and what it would have changed."""
        self.close()
        if self._prompt is not None:
            self._tally.lose()
        detail: dict[str, Any] = {
            "reason": error.message[:_REASON_CHARS_MAX],
            "error": error.code,
            **self._totals(),
            "draft": self._tools.draft.listed(),
        }
        if len(encode(detail)) > EVENT_BYTES_MAX // 2:
            detail["draft"] = [f"{len(detail['draft'])} changes, too long to list"]
        try:
            yield self._note("failed", detail, self._by)
        except RelayError:
            return  # The store is what failed: the error itself says so.

    def _text(self) -> str:
        joined = ""
        for text in filter(None, self._said):
            joined += _between(joined) + text
        return joined

    def _totals(self) -> dict[str, Any]:
        return {**self._tally.fields(), "stop": self._stop}

    def _result(
        self, text: str, artifact: Artifact | None, status: Literal["finished", "interrupted"]
    ) -> RunResult:
        return RunResult(
            text=text,
            ref=None if artifact is None else artifact.ref,
            run=self.id,
            thread=self._thread,
            status=status,
            stop=self._stop,
            provider=self._provider.name,
            model=self._model,
            rounds=self._tally.rounds,
            tokens=self._tally.tokens,
            price=self._tally.price,
            duration_ms=self._tally.duration_ms,
            source_refs=tuple(self._tools.refs)[-SOURCE_REFS_MAX:]
            if artifact is None
            else artifact.provenance.source_refs,
        )


def _between(said: str) -> str:
    return "\n\n" if said and not said.endswith("\n") else ""


def _shown(call: ToolCall, used: Used, duration_ms: int) -> ToolUse:
    return ToolUse(
        name=call.name[:LABEL_CHARS_MAX],
        arguments=cut_bytes(call.arguments, _WORDS_SHOWN),
        is_error=used.result.is_error,
        refs=used.refs,
        duration_ms=duration_ms,
    )
