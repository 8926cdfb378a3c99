"""Thread handles: a thread's verbs without naming it each time, blocking or awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from msgspec.json import decode

from contextrelay import verbs
from contextrelay.client.flow import AsyncBody, Flow, Give, Items, Wait, Work, write_file
from contextrelay.client.methods import (
    asks_of_thread,
    build,
    flow,
    items,
    pushes_to_thread,
    returns_thread,
    run_streams,
    runs,
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
    from contextrelay.state.entries import Kind

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

    show = asks_of_thread(verbs.ShowThread, same)
    state = asks_of_thread(verbs.ReadState, _state)
    header = asks_of_thread(verbs.ReadHeader, _header)
    patch = asks_of_thread(verbs.PatchState, same)
    diff = asks_of_thread(verbs.DiffState, same)
    restore = asks_of_thread(verbs.RestoreState, same)
    compact = asks_of_thread(verbs.CompactState, same)
    events = asks_of_thread(verbs.ReadEvents, _events)
    add_event = asks_of_thread(verbs.AddEvent, same)
    checkpoint = asks_of_thread(verbs.MakeCheckpoint, same)
    pack = asks_of_thread(verbs.Pack, same)
    add_blocks = asks_of_thread(verbs.AddBlocks, same)
    prune = asks_of_thread(verbs.PruneContext, same)
    hand_off = asks_of_thread(verbs.GiveHandoff, same)
    stats = asks_of_thread(verbs.ReadStats, same)
    artifacts = asks_of_thread(verbs.ListThreadArtifacts, same)
    mirror = asks_of_thread(verbs.MirrorThread, same)
    adopt = asks_of_thread(verbs.AdoptState, same)
    close = asks_of_thread(verbs.CloseThread, same)
    remove = asks_of_thread(verbs.RemoveThread, same)
    put = pushes_to_thread(PushAndSeal)

    def __init__(self, relay: Any, thread: str) -> None:
        self.relay = relay
        self.transport = relay.transport
        self.id = thread

    def once(self, key: str) -> Self:
        """Return this thread with an idempotency key for one request.

        For example: `thread.once(key).patch(...)`.
        """
        return type(self)(self.relay.once(key), self.id)

    @flow
    def add_fact(self: Any, text: str, key: str | None = None, by: str = "you") -> Flow[Added]:
        """Add a fact. One with a key replaces the older facts with that key."""
        return (yield from _add(self.id, "fact", text, by, key=key))

    @flow
    def add_constraint(
        self: Any, text: str, severity: Literal["hard", "soft"] = "hard", by: str = "you"
    ) -> Flow[Added]:
        """Add a constraint."""
        return (yield from _add(self.id, "constraint", text, by, severity=severity))

    @flow
    def add_question(self: Any, text: str, by: str = "you") -> Flow[Added]:
        """Add an open question; pass the id of the question to `resolve` when it is answered."""
        return (yield from _add(self.id, "question", text, by))

    @flow
    def add_step(self: Any, text: str, by: str = "you") -> Flow[Added]:
        """Add a step to the plan; pass the id of the step to `resolve` when it is done."""
        return (yield from _add(self.id, "step", text, by))

    @flow
    def add_decision(
        self: Any,
        text: str,
        reasons: Sequence[str] = (),
        evidence: Sequence[str] = (),
        confidence: float = 1.0,
        by: str = "you",
    ) -> Flow[Added]:
        """Add a decision, with reason codes, and refs of artifacts in this thread as evidence."""
        options: Any = {"reasons": reasons, "evidence": evidence, "confidence": confidence}
        return (yield from _add(self.id, "decision", text, by, **options))

    @flow
    def resolve(self: Any, id: str, by: str = "you") -> Flow[Patched]:
        """Mark a question as resolved, or a step of the plan as done, by its id."""
        from contextrelay.client.entries import resolve_entry

        if not isinstance(cast("object", id), str):
            raise TypeError(f"resolve takes the id of an entry, a text such as q1, not {id!r:.80}")
        return (yield from resolve_entry(self.id, id, by))

    @flow
    def invoke(
        self: Any,
        capability: str,
        args: Document | None = None,
        by: str = "you",
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
        by: str = "you",
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

    @flow
    def send_to(
        self: Any,
        url: str,
        text: str,
        refs: Sequence[str] = (),
        on_words: Callable[[str], object] | None = None,
        handoff: str | None = None,
        by: str = "you",
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

    run = runs(_asks)
    run_stream = run_streams(_asks)

    @returns_thread
    def fork(
        self: Any, version: int | None = None, name: str | None = None, by: str = "you"
    ) -> Flow[ThreadView]:
        """Create a thread that starts with the state of this thread at a version, by default the
        newest.
        """
        return (yield build(verbs.ForkThread, (self.id, version, name, by), {}))

    @items
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
        yield Give(states(each.event for each in events))

    @flow
    def trace(self: Any, runs_max: int = TRACE_RUNS_DEFAULT) -> Flow[Trace]:
        """Return the newest runs, with their calls, tools, tokens, prices and times, and the
        totals.
        """
        from contextrelay.runs.trace import trace_thread

        return (yield from trace_thread(self.id, runs_max))

    @flow
    def replay(
        self: Any,
        from_version: int | None = None,
        model: str | Provider | None = None,
        is_dry: bool = False,
        by: str = "you",
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

    @flow
    def export(self: Any, path: str | os.PathLike[str]) -> Flow[ThreadView]:
        """Write the thread to one zip file."""
        stream = yield verbs.ExportThread(self.id)
        yield Work(lambda: write_file(path, stream.chunks()))
        return stream.value

    @items
    def tail(self: Any, after: int = 0, timeout_s: float | None = None) -> Items[Numbered]:
        """Yield new events as they arrive; end after `timeout_s` without an event."""
        while True:
            page: list[Numbered] = (yield build(verbs.ReadEvents, (self.id, after), {})).events
            yield Give(page)
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
