"""A run: a model works on a thread and calls tools, and its answer is stored together with its
changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar
from uuid import uuid4

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from contextrelay import verbs
from contextrelay.client.flow import Emit, Flow, InThread, Items, SendBody, Step, Stopped
from contextrelay.client.transport.local import AsyncLocal, Local
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import Failed, Invalid, Refused, RelayError
from contextrelay.limits import (
    BUNDLE_TURN_BYTES_MAX,
    EVENT_BYTES_MAX,
    LABEL_CHARS_MAX,
    RUN_ANSWER_BYTES_MAX,
    RUN_OUTPUT_TOKENS_DEFAULT,
    RUN_ROUNDS_DEFAULT,
    RUN_ROUNDS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.ref import parse_ref
from contextrelay.model.run import RunResult, ToolUse
from contextrelay.model.settings import Settings
from contextrelay.model.thread import ThreadView
from contextrelay.runs.bundle import GatheredBundle, gather
from contextrelay.runs.draft import commit, committed
from contextrelay.runs.prices import PRICES, Rates, Tally, prices_here, since_ms
from contextrelay.runs.provider import (
    Message,
    Prompt,
    Provider,
    Reply,
    Tokens,
    ToolCall,
    ToolResult,
)
from contextrelay.runs.providers.registry import home_folder, open_provider
from contextrelay.runs.tools import Toolbox, TrackedFiles, Used, is_tracked_folder
from contextrelay.store.engine import settings_in
from contextrelay.verbs.runs import RunNote

RUN_CALLS_MAX = 32


class ReplyPieces:
    """The pieces of one model call. Another thread than the one that waits for a piece may close
    them.
    """

    def __init__(self, provider: Provider, prompt: Prompt) -> None:
        self._name = provider.name
        self._pieces: Any = provider.answer(prompt)
        self._lock = Lock()
        self._is_closed = False

    def next(self) -> str | Reply | None:
        """Return the next piece, or None at the end.

        Raises:
            RelayError: an error of the provider; Failed if the provider raised any other exception.
        """
        with self._lock:
            try:
                return None if self._is_closed else next(self._pieces, None)
            except RelayError:
                raise
            except Exception as error:
                # The text of the exception may quote the whole request and the key.
                raise Failed(
                    f"the provider {self._name} failed with {type(error).__name__}",
                    "retry, or use another provider: -m",
                ) from None
            finally:
                if self._is_closed:
                    self._end()

    def close(self) -> None:
        """End the call. If a thread waits for a piece, the call ends as soon as the piece
        arrives.
        """
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def written(text: str) -> str:
    """Return a text in which lone surrogates are replaced by question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def spelled(reply: Reply) -> Reply:
    """Return a reply in which lone surrogates are replaced by question marks."""
    calls = tuple(
        ToolCall(written(call.id), written(call.name), written(call.arguments))
        for call in reply.calls
    )
    return replace(
        reply,
        text=written(reply.text),
        calls=calls,
        model=written(reply.model),
        native=written(reply.native),
    )


def cut_bytes(text: str, bytes_max: int) -> str:
    """Return a text cut to a number of bytes, at a character boundary."""
    return text.encode(errors="replace")[:bytes_max].decode(errors="ignore")


def tokens_in(prompt: Prompt) -> int:
    """Return the estimated number of tokens of a prompt without its tools."""
    results = (result.text for message in prompt.messages for result in message.results)
    texts = (prompt.system, *(message.text for message in prompt.messages), *results)
    return sum(map(count_tokens, texts))


Result = TypeVar("Result")
Steps = Generator[Step | Emit[str | RunResult], Any, Result]
_LAST_ROUND = "This was the last round with tools: answer now, with what you have."
_WORDS_SHOWN = 200
_REASON_CHARS_MAX = 2_000


class RunOptions(Struct, frozen=True, kw_only=True):
    """The options of a run, except the prompt and the model."""

    refs: tuple[str, ...] = ()
    system: str | None = None
    budget_tokens: int | None = None
    files: TrackedFiles | None = None
    rounds_max: int = RUN_ROUNDS_DEFAULT
    output_tokens_max: int = RUN_OUTPUT_TOKENS_DEFAULT
    by: str = ""
    prices: Mapping[str, Rates] = PRICES
    on_tool: Callable[[ToolUse], object] | None = None
    is_alone: bool = False
    """True if nothing of the thread is shown. The model can then only read refs, and the caller has
    to store the answer.
    """


def run_thread(
    thread: str, user: str, provider: Provider, options: RunOptions
) -> Items[str | RunResult]:
    """Ask a model. Yield its words as they arrive, and finally the result.

    Raises:
        Refused: the thread is closed.
        Failed: the model gave no answer, or did not finish.
        RelayError: an error of the provider or the store, also recorded as the event run.failed.
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
        yield Emit([(yield from run.interrupted())])
        raise
    except RelayError as error:
        yield from run.fail(error)
        raise
    finally:
        run.close()
    yield Emit([result])


class _Run:
    """A run in progress."""

    def __init__(
        self, thread: str, user: str, provider: Provider, options: RunOptions, begun: GatheredBundle
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
        self._pieces: ReplyPieces | None = None
        self._partial: list[str] = []
        self._prompt: Prompt | None = None
        self._called_s = 0.0
        self._tally = Tally(options.prices)
        self._is_finishing = False
        self._stop: Literal["end", "length", "refused", "interrupted"] = "end"

    def close(self) -> None:
        """End the call of the provider, if one is open."""
        if self._pieces is not None:
            self._pieces.close()

    def begin(self) -> Flow[None]:
        """Record the prompt and the start of the run."""
        refs = list(self._options.refs)
        said: dict[str, Any] = {"text": self._user}
        if len(encode(said)) > EVENT_BYTES_MAX // 2:
            push = verbs.Push(created_by=self._options.by, metadata={"run": self.id})
            artifact: Artifact = yield SendBody(push, self._user.encode(errors="replace"))
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
        """Ask the model and run its tool calls, until it calls no more tools."""
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
                    f"the model still calls tools after {self._tally.rounds} rounds",
                    "ask for less, or raise the limit: relay config set rounds_max N",
                )
            is_last = self._tally.rounds + 1 == self._options.rounds_max
            if is_last:
                *others, last = results
                results = (*others, replace(last, text=f"{last.text}\n\n[{_LAST_ROUND}]"))
            result = Message(role="user", results=results)
            self._messages = (*self._messages, reply.message(), result)

    def _call(self, prompt: Prompt) -> Steps[Reply]:
        """Yield the words of one model call as they arrive, and return its reply.

        Raises:
            Failed: the stream ended without a reply, or the reply is too long.
        """
        pieces = self._pieces = ReplyPieces(self._provider, prompt)
        size_bytes = 0
        while True:
            piece = yield InThread(pieces.next)
            if isinstance(piece, Reply):
                pieces.close()
                self._pieces = None
                return spelled(piece)
            if piece is None:
                raise Failed(f"the answer of {self._by} ended early", "retry")
            text = written(piece)
            size_bytes += len(text.encode())
            if size_bytes > RUN_ANSWER_BYTES_MAX:
                raise Failed(
                    f"the answer is over {RUN_ANSWER_BYTES_MAX:,} bytes",
                    "ask for parts of the answer, or for a document stored with relay_put",
                )
            if not text:
                yield Emit([""])  # An empty step, after which the run may be stopped.
                continue
            # Text that follows a tool call starts a new paragraph.
            between = "" if self._partial else _between(self._text())
            self._partial.append(text)
            yield Emit([between + text])

    def _use(self, reply: Reply) -> Flow[tuple[list[dict[str, Any]], tuple[ToolResult, ...]]]:
        """Run the tool calls of a reply, and return their event fields and their results."""
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
        """Record a model call: the request, the reply and the costs."""
        detail = {
            "round": self._tally.rounds,
            "model": reply.model[:LABEL_CHARS_MAX],
            **self._tally.add(reply),
            "duration_ms": since_ms(self._called_s),
            "tools": uses,
        }
        exchange = encode({"prompt": prompt, "reply": reply, "results": results})
        verb = verbs.RecordCall(thread=self._thread, run=self.id, detail=detail, by=self._by)
        yield SendBody(verb, exchange)

    # Ends

    def finish(self, status: Literal["finished", "interrupted"]) -> Flow[RunResult]:
        """Store the answer together with the changes that the model made, and return the result of
        the run.

        Raises:
            Failed: the model gave no answer.
            Refused: the changes are no longer allowed.
        """
        text = self._text()
        if not text.strip():
            reason = "refused to answer" if self._stop == "refused" else "gave no answer"
            raise Failed(f"{self._by} {reason}", "rephrase the prompt, or use another model")
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
        """Store the partial answer of a stopped run, mark the run as interrupted, and return its
        result.
        """
        self.close()
        if self._is_finishing:
            # If the complete answer is already stored, it is not stored twice.
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
        """Record why the run failed, and which changes it would have made."""
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
            return  # The store itself failed, and the error already says so.

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


Folder = str | os.PathLike[str]


def ask_model(
    thread: Any,
    user: str,
    model: str | Provider | None = None,
    *,
    refs: Sequence[str] = (),
    system: str | None = None,
    budget_tokens: int | None = None,
    files: Folder | None = None,
    rounds_max: int | None = None,
    output_tokens_max: int = RUN_OUTPUT_TOKENS_DEFAULT,
    by: str = "",
    on_tool: Callable[[ToolUse], object] | None = None,
) -> Items[str | RunResult]:
    """Return the steps of a run on a thread. Nothing is sent until the steps are taken.

    Raises:
        Invalid: the provider is unknown, or a value is out of range.
    """
    settings = settings_of(thread.transport)
    rounds = settings.rounds_max if rounds_max is None else rounds_max
    if not 1 <= rounds <= RUN_ROUNDS_MAX:
        raise Invalid(f"{rounds} rounds", f"use 1 to {RUN_ROUNDS_MAX}")
    if output_tokens_max < 1:
        raise Invalid(f"invalid output_tokens_max: {output_tokens_max}", "use at least 1")
    options = RunOptions(
        refs=tuple(dict.fromkeys(map(parse_ref, refs))),
        system=system,
        budget_tokens=budget_tokens,
        files=tracked_files(files),
        rounds_max=rounds,
        output_tokens_max=output_tokens_max,
        by=by,
        on_tool=on_tool,
        prices=prices_here(os.environ),
    )
    return run_thread(thread.id, user, chosen_provider(thread.transport, model), options)


def chosen_provider(
    transport: Any, model: str | Provider | None, environ: Mapping[str, str] = os.environ
) -> Provider:
    """Return the given provider, or else that of the store's settings, or else that of RELAY_MODEL.

    Raises:
        Invalid: the provider is unknown.
    """
    if model is None or isinstance(model, str):
        return open_provider(model or settings_of(transport, environ).model, environ=environ)
    return model


def settings_of(transport: Any, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that apply to model calls of this process.

    For a thread on a server, the settings are those of RELAY_HOME, as for keys and prices, because
    the model is called from this machine. The settings of the server are not requested.
    """
    if isinstance(transport, Local | AsyncLocal):
        return transport.stores.settings
    return settings_in(home_folder(environ))


def tracked_files(folder: Folder | None) -> TrackedFiles | None:
    """Return the files of a folder that a model may read, or None if git tracks no files there."""
    if folder is None:
        return None
    path = Path(folder).absolute()
    return TrackedFiles(path) if is_tracked_folder(path) else None
