"""Agents: what may be behind A2A, by name: a command line, a model, a Python function, a channel.

Rule: an agent blocks a thread of its own pool, never one of those that answer other requests.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from contextrelay.a2a.schema import Part
from contextrelay.a2a.work import WORDS, Agent, Asked, Made, Output
from contextrelay.client.bridge.bridge import CORRELATION, DONE_CHANNEL
from contextrelay.client.bridge.bridge import FAILED as FAILED_MARK
from contextrelay.client.relay import Relay
from contextrelay.errors import Failed, Invalid, RelayError
from contextrelay.limits import A2A_TASKS_AT_ONCE_MAX
from contextrelay.runs.provider import Provider

A2A_AGENTS_MAX = 32


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HINT = "write NAME=cli:BIN, NAME=py:MODULE:FUNCTION, NAME=model:PROVIDER or NAME=bridge:CHANNEL"
_FOLDER = "write py:MODULE:FUNCTION, and set PYTHONPATH to the folder of the module"
_TAKES = "write it as def NAME(text: str), or def NAME(asked) for all of the message"
DEFAULT = "relay=bridge:agent-tasks"
"""The agent of a server that none is named for: the one behind `relay bridge start`."""
_END: Any = object()
# How soon an agent on a channel sees that its task was canceled.
_STEP_S = 2.0

pool = ThreadPoolExecutor(A2A_TASKS_AT_ONCE_MAX, "relay-agent")


def open_agents(specs: tuple[str, ...]) -> dict[str, Agent]:
    """Agents by name, from `NAME=KIND:WHAT`.

    Raises:
        Invalid: one is written wrong, is there twice, or cannot be had.
    """
    if len(specs) > A2A_AGENTS_MAX:
        raise Invalid(f"{len(specs)} agents are too many", f"the limit is {A2A_AGENTS_MAX}")
    agents: dict[str, Agent] = {}
    for spec in specs or (DEFAULT,):
        name, _, what = spec.partition("=")
        if not _NAME.fullmatch(name) or not what:
            raise Invalid(f"{spec[:80]!r} names no agent", _HINT)
        if name in agents:
            raise Invalid(f"there are two agents {name}", "give each a name of its own")
        agents[name] = _open(what)
    return agents


def _open(what: str) -> Agent:
    kind, _, rest = what.partition(":")
    if rest and kind in ("cli", "model"):
        return ModelAgent(rest if kind == "model" else what)
    if rest and kind == "py":
        return FunctionAgent(rest)
    if rest and kind == "bridge":
        return BridgeAgent(rest)
    raise Invalid(f"{what[:80]!r} is no agent", _HINT)


class ModelAgent:
    """A model, or a command line, that answers on the task's thread."""

    lives_elsewhere = False

    def __init__(self, model: str | Provider) -> None:
        self._model = model
        name = model if isinstance(model, str) else model.name
        self.description = f"Answers by {name}, with the refs of the message at hand."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Yield its words, then the artifact that they are."""
        async for made in _in_pool(lambda: self._words(asked)):
            yield made

    def _words(self, asked: Asked) -> Generator[Made]:
        with asked.thread.run_stream(
            asked.text or "(see the refs)", self._model, refs=asked.refs()
        ) as words:
            yield from words
            result = words.result
        if result is not None and result.ref is not None:
            yield Output(id=WORDS, parts=[Part(text="")], refs=(result.ref,), append=True)


class FunctionAgent:
    """A function, or a generator function, awaited or not.

    It is given the words of the message; where its parameter is `asked`, or an `Asked`, all of it.
    """

    lives_elsewhere = False

    def __init__(self, place: str) -> None:
        module, _, name = place.partition(":")
        try:
            self._function: Callable[[Any], Any] = getattr(import_module(module), name)
            signature = inspect.signature(self._function)
        except ModuleNotFoundError as error:
            raise Invalid(f"py:{place[:80]} cannot be had: {error}", _FOLDER) from error
        except Exception as error:  # Whatever the module does when it is imported.
            said = f"{type(error).__name__}: {error}"
            raise Invalid(f"py:{place[:80]} cannot be had: {said[:500]}", _HINT) from error
        try:
            signature.bind("one")
        except TypeError:
            raise Invalid(f"py:{place[:80]} does not take one argument", _TAKES) from None
        parameter = next(iter(signature.parameters.values()))
        self._takes_all = parameter.name == "asked" or "Asked" in str(parameter.annotation)
        said = (inspect.getdoc(self._function) or "").partition("\n")[0]
        self.description = said or f"The Python function {name}."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Yield what the function makes."""
        given = asked if self._takes_all else asked.text
        if inspect.isasyncgenfunction(self._function):
            async for made in self._function(given):
                yield made
        elif inspect.iscoroutinefunction(self._function):
            made = await self._function(given)
            if made is not None:
                yield _returned(made)
        else:
            made = await asyncio.wrap_future(pool.submit(self._function, given))
            if isinstance(made, Iterator):
                pieces = cast("Iterator[Made]", made)
                async for each in _in_pool(lambda: (piece for piece in pieces)):
                    yield each
            elif made is not None:
                yield _returned(made)


def _returned(made: Any) -> Made:
    """What a function returned, which is all of its answer."""
    match made:
        case str():
            return Output(id=WORDS, parts=[Part(text=made)], is_all=True)
        case bytes():
            return Output(parts=[Part(raw=made)], is_all=True)
        case dict() | list():
            return Output(parts=[Part(data=made)], is_all=True)
        case _:
            return made


class BridgeAgent:
    """The agent behind a channel of a bridge; it goes on while the server does not run."""

    lives_elsewhere = True

    def __init__(self, channels: str) -> None:
        self._tasks, _, done = channels.partition(":")
        self._done = done or DONE_CHANNEL
        self.description = f"Passes tasks on to the agent behind the channel {self._tasks}."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Push the task, unless that was done, and yield the answer."""
        async for made in _in_pool(lambda: self._answer(asked)):
            yield made

    def _answer(self, asked: Asked) -> Generator[Made]:
        relay = asked.relay
        noted: dict[str, Any] = asked.noted
        correlation = f"{asked.task}/{asked.turn}"
        if noted.get("correlation") != correlation:
            head = relay.signals(self._done).head
            noted = {"correlation": correlation, "after": head, "refs": asked.refs()}
            asked.note(noted)
        text = "\n".join([asked.text, *(f"[REF {ref}]" for ref in noted.get("refs", ()))])
        metadata = {"summary": text[:80], CORRELATION: correlation}
        # Pushed once, however often the server is killed here.
        relay.once(f"a2a {correlation}").push(
            text or "\n", channel=self._tasks, metadata=metadata, created_by="a2a"
        )
        place = int(noted.get("after", 0))
        while True:
            for signal in relay.subscribe(self._done, place, _STEP_S, lambda first, last: None):
                place = signal.seq
                if (body := self._body(relay, signal.ref, correlation)) is not None:
                    yield body
                    return
            yield ""  # A step, after which it may be ended.

    def _body(self, relay: Relay, ref: str | None, correlation: str) -> Made | None:
        """The answer, if this push is it.

        Raises:
            Failed: it says that the other agent failed.
        """
        try:
            answer = None if ref is None else relay.peek(ref)
        except RelayError:
            return None
        if ref is None or answer is None or answer.metadata.get(CORRELATION) != correlation:
            return None
        body = relay.pull(ref)
        if answer.metadata.get(FAILED_MARK) is True:
            raise Failed(f"the other agent failed: {body[:500].decode(errors='replace')}")
        return body.decode() if answer.is_text else body


async def _in_pool(begin: Callable[[], Generator[Made]]) -> AsyncGenerator[Made]:
    """Iterate in threads of the agents' pool; closed early, the generator is closed there too."""
    made = begin()
    step = pool.submit(next, made, _END)
    try:
        while (item := await asyncio.wrap_future(step)) is not _END:
            yield item
            step = pool.submit(next, made, _END)
    finally:
        # It may be in the middle of a step, which nobody can end: it is closed behind that.
        step.add_done_callback(lambda done: _close(made))


def _close(made: Generator[Made]) -> None:
    """Close a generator in a thread of the pool, or in this one when the process ends."""
    try:
        pool.submit(made.close)
    except RuntimeError:  # The pool takes no more work, and this is one of its threads.
        with suppress(Exception):  # An agent's own code.
            made.close()
