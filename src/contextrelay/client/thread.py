"""Thread handles: a thread's verbs without naming it each time, blocking or awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from msgspec.json import decode

from contextrelay import verbs
from contextrelay.client.flow import AsyncBody, Emit, Flow, InThread, Items, Wait, write_file
from contextrelay.client.methods import (
    build,
    flow_method,
    items_method,
    run_method,
    run_stream_method,
    thread_method,
    thread_push_method,
    thread_verb_method,
)
from contextrelay.client.seal.push import PushAndSeal
from contextrelay.limits import LIST_ITEMS_MAX, RUN_OUTPUT_TOKENS_DEFAULT, TRACE_RUNS_DEFAULT
from contextrelay.model.capability import Invoked
from contextrelay.model.names import thread_log
from contextrelay.model.thread import (
    Added,
    EventPage,
    HeaderView,
    Numbered,
    Patched,
    StateView,
    ThreadView,
)
from contextrelay.verbs import Body, Verb

if TYPE_CHECKING:
    # Types of runs; client/signatures.py imports them too, for signatures.
    from contextrelay.a2a.schema import AgentAnswer
    from contextrelay.client.relay import AsyncRelay, Relay
    from contextrelay.model.run import Replay, RunResult, ToolUse, Trace
    from contextrelay.runs.provider import Provider
    from contextrelay.state.schema import Kind

Reply = TypeVar("Reply")
Document = dict[str, Any]


def same(reply: Reply) -> Reply:
    return reply


def _state(view: StateView) -> Document:
    return decode(view.state)


def _header(view: HeaderView) -> Document:
    return decode(view.header)


def _events(page: EventPage) -> list[Numbered]:
    return page.events


def _add(thread: str, kind: Kind, text: str, by: str, **options: Any) -> Flow[Added]:
    from contextrelay.client.entries import add_entry

    return add_entry(thread, kind, text, by, **options)


class _ThreadVerbs:
    """The methods of both handles."""

    show = thread_verb_method(verbs.ShowThread, same)
    state = thread_verb_method(verbs.ReadState, _state)
    header = thread_verb_method(verbs.ReadHeader, _header)
    patch = thread_verb_method(verbs.PatchState, same)
    diff = thread_verb_method(verbs.DiffState, same)
    restore = thread_verb_method(verbs.RestoreState, same)
    compact = thread_verb_method(verbs.CompactState, same)
    events = thread_verb_method(verbs.ReadEvents, _events)
    add_event = thread_verb_method(verbs.AddEvent, same)
    checkpoint = thread_verb_method(verbs.MakeCheckpoint, same)
    pack = thread_verb_method(verbs.Pack, same)
    add_blocks = thread_verb_method(verbs.AddBlocks, same)
    prune = thread_verb_method(verbs.PruneContext, same)
    hand_off = thread_verb_method(verbs.GiveHandoff, same)
    stats = thread_verb_method(verbs.ReadStats, same)
    artifacts = thread_verb_method(verbs.ListThreadArtifacts, same)
    mirror = thread_verb_method(verbs.MirrorThread, same)
    adopt = thread_verb_method(verbs.AdoptState, same)
    close = thread_verb_method(verbs.CloseThread, same)
    remove = thread_verb_method(verbs.RemoveThread, same)
    put = thread_push_method(PushAndSeal)

    def __init__(self, relay: Any, thread: str) -> None:
        self.relay = relay
        self.transport = relay.transport
        self.id = thread

    def once(self, key: str) -> Self:
        """Return this thread with an idempotency key for one request.

        For example: `thread.once(key).patch(...)`.
        """
        return type(self)(self.relay.once(key), self.id)

    @flow_method
    def add_fact(self: Any, text: str, key: str | None = None, by: str = "") -> Flow[Added]:
        """Add a fact. One with a key replaces the older facts with that key."""
        return (yield from _add(self.id, "fact", text, by, key=key))

    @flow_method
    def add_constraint(
        self: Any, text: str, severity: Literal["hard", "soft"] = "hard", by: str = ""
    ) -> Flow[Added]:
        """Add a constraint."""
        return (yield from _add(self.id, "constraint", text, by, severity=severity))

    @flow_method
    def add_question(self: Any, text: str, by: str = "") -> Flow[Added]:
        """Add an open question; pass the id of the question to `resolve` when it is answered."""
        return (yield from _add(self.id, "question", text, by))

    @flow_method
    def add_step(self: Any, text: str, by: str = "") -> Flow[Added]:
        """Add a step to the plan; pass the id of the step to `resolve` when it is done."""
        return (yield from _add(self.id, "step", text, by))

    @flow_method
    def add_decision(
        self: Any,
        text: str,
        reasons: Sequence[str] = (),
        evidence: Sequence[str] = (),
        confidence: float = 1.0,
        by: str = "",
    ) -> Flow[Added]:
        """Add a decision, with reason codes, and refs of artifacts in this thread as evidence."""
        options: Any = {"reasons": reasons, "evidence": evidence, "confidence": confidence}
        return (yield from _add(self.id, "decision", text, by, **options))

    @flow_method
    def resolve(self: Any, id: str, by: str = "") -> Flow[Patched]:
        """Mark a question as resolved, or a step of the plan as done, by its id."""
        from contextrelay.client.entries import resolve_entry

        if not isinstance(cast("object", id), str):
            raise TypeError(f"resolve takes the id of an entry, a text such as q1, not {id!r:.80}")
        return (yield from resolve_entry(self.id, id, by))

    @flow_method
    def invoke(
        self: Any,
        capability: str,
        args: Document | None = None,
        by: str = "",
        is_cached: bool = True,
    ) -> Flow[Invoked]:
        """Run a capability in this thread, or return its cached result. Both count as a hop."""
        return (yield build(verbs.Invoke, (capability, args or {}, self.id, by, is_cached), {}))

    def _asks(
        self: Any,
        user: str,
        model: str | Provider | None = None,
        *,
        refs: Sequence[str] = (),
        system: str | None = None,
        budget_tokens: int | None = None,
        files: str | os.PathLike[str] | None = None,
        rounds_max: int | None = None,
        output_tokens_max: int = RUN_OUTPUT_TOKENS_DEFAULT,
        by: str = "",
        on_tool: Callable[[ToolUse], object] | None = None,
    ) -> Items[str | RunResult]:
        """Ask a model on this thread, and iterate over the text of its answer as it arrives.

        The model gets a bounded bundle: the header of the state, previews of the newest artifacts
        and of `refs`, the last messages, and with `budget_tokens` a selection by `pack`. It has
        tools to read refs and, if `files` names a folder, the files that git tracks there. The
        answer is stored in one version together with the model's notes in the state.

        Raises:
            Invalid: the provider is unknown, or the text is empty or too long.
            Forbidden: the API key of the provider is missing or was refused.
            Unavailable: the provider is unreachable; the state is unchanged.
            Failed: the provider's answer is invalid; the state is unchanged.
        """
        from contextrelay.runs.run import ask_model

        return ask_model(
            self,
            user,
            model,
            refs=refs,
            system=system,
            budget_tokens=budget_tokens,
            files=files,
            rounds_max=rounds_max,
            output_tokens_max=output_tokens_max,
            by=by,
            on_tool=on_tool,
        )

    @flow_method
    def send_to(
        self: Any,
        url: str,
        text: str,
        refs: Sequence[str] = (),
        on_words: Callable[[str], object] | None = None,
        handoff: str | None = None,
        by: str = "",
    ) -> Flow[AgentAnswer]:
        """Send text and refs to a remote agent over A2A; its answer is stored in this thread.

        Refs are sent as refs if the agent supports them and can reach this relay's server, else in
        full. With `on_words` the answer is streamed, and its text is passed to that function. With
        the ref of a `handoff`, the handoff is given to the agent, and the answer is the result of
        the handoff. An agent that has answered in this thread before gets the same context, and the
        task that is waiting for input.

        Raises:
            Unavailable: the agent is unreachable.
            Invalid, Failed: the agent's answer is invalid.
        """
        from contextrelay.a2a.message import send_message

        return (yield from send_message(self, url, text, refs, on_words, by, handoff))

    run = run_method(_asks)
    run_stream = run_stream_method(_asks)

    @thread_method
    def fork(
        self: Any, version: int | None = None, name: str | None = None, by: str = ""
    ) -> Flow[ThreadView]:
        """Create a thread from the state of this thread at a version, by default the newest."""
        return (yield build(verbs.ForkThread, (self.id, version, name, by), {}))

    @items_method
    def history(self: Any) -> Items[Document]:
        """Yield the state at every version, oldest first.

        The states are read-only, because versions share parts.
        """
        from contextrelay.documents.patch import states

        events: list[Numbered] = []
        while page := (
            yield verbs.ReadEvents(self.id, events[-1].seq if events else 0, LIST_ITEMS_MAX)
        ).events:
            events += page
        yield Emit(states(each.event for each in events))

    @flow_method
    def trace(self: Any, runs_max: int = TRACE_RUNS_DEFAULT) -> Flow[Trace]:
        """Return the newest runs with calls, tools, tokens, prices and times, and the totals."""
        from contextrelay.runs.trace import trace_thread

        return (yield from trace_thread(self.id, runs_max))

    @flow_method
    def replay(
        self: Any,
        from_version: int | None = None,
        model: str | Provider | None = None,
        is_dry: bool = False,
        by: str = "",
        files: str | os.PathLike[str] | None = None,
    ) -> Flow[Replay]:
        """Repeat the runs after a version in a copy of this thread, which is not changed.

        Without `model`, or with the recorded model, the recorded answers are used: no model is
        called, and the copy ends where a tool result differs from the recorded one. Another model
        gets the same prompts, and `changes` are the operations from the recorded state to the new
        one. `is_dry`: nothing is called or written. `files`: the folder whose files are compared
        with the recorded files, or that another model may read.
        """
        from contextrelay.runs.replay import replay_thread

        return (yield from replay_thread(self, from_version, model, is_dry, by, files))

    @flow_method
    def export(self: Any, path: str | os.PathLike[str]) -> Flow[ThreadView]:
        """Write the thread to one zip file."""
        stream = yield verbs.ExportThread(self.id)
        yield InThread(lambda: write_file(path, stream.chunks()))
        return stream.value

    @items_method
    def tail(self: Any, after: int = 0, timeout_s: float | None = None) -> Items[Numbered]:
        """Yield new events as they arrive; end after `timeout_s` without an event."""
        while True:
            page: list[Numbered] = (yield build(verbs.ReadEvents, (self.id, after), {})).events
            yield Emit(page)
            after = page[-1].seq if page else after
            if not page and not (yield Wait(thread_log(self.id), after, timeout_s)):
                return


class Thread(_ThreadVerbs):
    """A thread of a `Relay`."""

    is_async: Literal[False] = False
    relay: Relay

    def ask(self, verb: Verb[Reply], body: Body = b"") -> Reply:
        return self.transport.ask(verb, body)


class AsyncThread(_ThreadVerbs):
    """A thread of an `AsyncRelay`."""

    is_async: Literal[True] = True
    relay: AsyncRelay

    async def ask(self, verb: Verb[Reply], body: AsyncBody = b"") -> Reply:
        return await self.transport.ask(verb, body)
