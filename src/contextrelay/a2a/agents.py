"""The agents that A2A can serve, and their cards.

An agent is a command-line tool, a model, a Python function, or a channel.

Rule: an agent blocks only a thread of the agents' pool, never a thread that answers other requests.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future, wait
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar, cast

from msgspec import Struct

from contextrelay.a2a.parts import INPUT_TYPES
from contextrelay.a2a.schema import GRPC, HTTP_JSON, JSONRPC, REFS_EXTENSION, VERSION, Part
from contextrelay.a2a.work import WORDS, Agent, Asked, Made, Output
from contextrelay.build import build
from contextrelay.client.bridge.bridge import CORRELATION, DONE_CHANNEL
from contextrelay.client.bridge.bridge import FAILED as FAILED_MARK
from contextrelay.client.relay import Relay
from contextrelay.errors import Failed, Invalid, RelayError
from contextrelay.limits import A2A_TASKS_AT_ONCE_MAX
from contextrelay.runs.provider import Provider

A2A_AGENTS_MAX = 32
ROOT = "/a2a/"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HINT = "use NAME=cli:BIN, NAME=py:MODULE:FUNCTION, NAME=model:PROVIDER or NAME=bridge:CHANNEL"
_FOLDER = "use py:MODULE:FUNCTION, and set PYTHONPATH to the folder of the module"
_TAKES = "define the function as def NAME(text: str), or as def NAME(asked) for the whole message"
DEFAULT = "relay=bridge:agent-tasks"
"""The default agent of a server: the one behind `relay bridge start`."""
Document = dict[str, Any]
Result = TypeVar("Result")
_END: Any = object()
# Seconds between two checks of an agent on a channel whether its task was canceled.
_STEP_S = 2.0


def open_agents(specs: tuple[str, ...]) -> dict[str, Agent]:
    """Open agents given as `NAME=KIND:WHAT`, and return them by name.

    Raises:
        Invalid: a specification is malformed, a duplicate, or cannot be opened.
    """
    if len(specs) > A2A_AGENTS_MAX:
        raise Invalid(f"too many agents: {len(specs)}", f"the limit is {A2A_AGENTS_MAX}")
    agents: dict[str, Agent] = {}
    for spec in specs or (DEFAULT,):
        name, _, what = spec.partition("=")
        if not _NAME.fullmatch(name) or not what:
            raise Invalid(f"invalid agent {spec[:80]!r}", _HINT)
        if name in agents:
            raise Invalid(f"duplicate agent {name}", "use another name for one of them")
        agents[name] = _open(what)
    return agents


def _open(what: str) -> Agent:
    kind, _, rest = what.partition(":")
    match kind if rest else "":
        case "cli" | "model":
            return ModelAgent(rest if kind == "model" else what)
        case "py":
            return FunctionAgent(rest)
        case "bridge":
            return BridgeAgent(rest)
        case _:
            raise Invalid(f"unknown kind of agent {what[:80]!r}", _HINT)


class AgentPool:
    """A bounded pool of daemon threads: a process that ends does not wait for long for an agent.

    The threads of a ThreadPoolExecutor are joined when the process ends.
    """

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads = 0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._open: set[Future[Any]] = set()
        self._lock = Lock()

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Call a function in a thread of the pool, as soon as one is free."""
        future: Future[Result] = Future()
        with self._lock:
            self._open.add(future)
            self._calls.put((future, call))
            if self._threads < min(len(self._open), self._threads_max):
                self._threads += 1
                Thread(target=self._work, name="relay-agent", daemon=True).start()
        return future

    def settle(self, seconds: float) -> None:
        """Wait until all calls have ended, at most this long."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            with self._lock:
                calls = tuple(self._open)
            if not calls:
                return
            wait(calls, left_s)

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # Its caller raises it.
                    future.set_exception(error)
            with self._lock:
                self._open.discard(future)
            del future, call  # A waiting thread keeps nothing alive.


pool = AgentPool(A2A_TASKS_AT_ONCE_MAX)


class ModelAgent:
    """An agent that answers on the thread of the task, with a model or a command-line tool."""

    lives_elsewhere = False

    def __init__(self, model: str | Provider) -> None:
        self._model = model
        name = model if isinstance(model, str) else model.name
        self.description = f"Answers with {name}; refs in a message are available to it."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Yield the words of the answer, then the artifact that contains them."""
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
    """An agent that is a function or generator function, synchronous or asynchronous.

    The function gets the text of the message, or the whole message if its parameter is named
    `asked` or annotated `Asked`.
    """

    lives_elsewhere = False

    def __init__(self, place: str) -> None:
        module, _, name = place.partition(":")
        try:
            self._function: Callable[[Any], Any] = getattr(import_module(module), name)
            signature = inspect.signature(self._function)
        except ModuleNotFoundError as error:
            raise Invalid(f"cannot load py:{place[:80]}: {error}", _FOLDER) from error
        except Exception as error:  # Importing the module may raise any exception.
            said = f"{type(error).__name__}: {error}"
            raise Invalid(f"cannot load py:{place[:80]}: {said[:500]}", _HINT) from error
        try:
            signature.bind("one")
        except TypeError:
            raise Invalid(f"py:{place[:80]} must take exactly one argument", _TAKES) from None
        parameter = next(iter(signature.parameters.values()))
        self._takes_all = parameter.name == "asked" or "Asked" in str(parameter.annotation)
        said = (inspect.getdoc(self._function) or "").partition("\n")[0]
        self.description = said or f"The Python function {name}."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Yield what the function returns or yields."""
        given = asked if self._takes_all else asked.text
        if inspect.isasyncgenfunction(self._function):
            async for made in self._function(given):
                yield made
        elif inspect.iscoroutinefunction(self._function):
            made = await self._function(given)
            if made is not None:
                yield _returned(made)
        else:
            made = await asyncio.wrap_future(pool.submit(lambda: self._function(given)))
            if isinstance(made, Iterator):
                pieces = cast("Iterator[Made]", made)
                async for each in _in_pool(lambda: (piece for piece in pieces)):
                    yield each
            elif made is not None:
                yield _returned(made)


def _returned(made: Any) -> Made:
    """Return the return value of a function as a complete answer of the agent."""
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
    """The agent behind the channel of a bridge, which keeps working without the server."""

    lives_elsewhere = True

    def __init__(self, channels: str) -> None:
        self._tasks, _, done = channels.partition(":")
        self._done = done or DONE_CHANNEL
        self.description = f"Forwards tasks to the agent behind the channel {self._tasks}."

    async def work(self, asked: Asked) -> AsyncGenerator[Made]:
        """Push the task, unless it was already pushed, and yield the answer."""
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
        # The task is pushed only once, even if the server is killed here.
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
            yield ""  # An empty step, after which the agent may be stopped.

    def _body(self, relay: Relay, ref: str | None, correlation: str) -> Made | None:
        """Return the answer in this push, or None. Raise Failed if the other agent failed."""
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
    """Run a generator in threads of the pool, and yield its values. It is closed there, too."""
    made = begin()
    step = pool.submit(lambda: next(made, _END))
    try:
        while (item := await asyncio.wrap_future(step)) is not _END:
            yield item
            step = pool.submit(lambda: next(made, _END))
    finally:
        # The generator may be inside a step, which cannot be interrupted. It is closed after that
        # step.
        step.add_done_callback(lambda done: pool.submit(made.close))


class AgentPlace(Struct, frozen=True):
    """The address of a server's agents, and the authentication that they require."""

    origin: str
    needs_token: bool
    grpc_address: str = ""


def card(name: str, agent: Agent, place: AgentPlace) -> Document:
    """Return the public card of an agent."""
    root = f"{place.origin}{ROOT}{name}"
    interfaces = [_interface(root, JSONRPC), _interface(root, HTTP_JSON)]
    if place.grpc_address:
        interfaces.append(_interface(place.grpc_address, GRPC, name))
    about = {"name": name, "description": agent.description}
    shown: Document = {
        **about,
        "version": build().version,
        "provider": {"organization": "Context Relay", "url": place.origin},
        "supportedInterfaces": interfaces,
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extendedAgentCard": True,
            "extensions": [
                {
                    "uri": REFS_EXTENSION,
                    "description": "Long parts are sent as refs: a url part with sha256, size,"
                    " tokens and preview of its body in its metadata.",
                }
            ],
        },
        "defaultInputModes": list(INPUT_TYPES),
        "defaultOutputModes": ["text/plain", "application/json", "application/octet-stream"],
        "skills": [{"id": name, **about, "tags": ["context-relay"]}],
    }
    if place.needs_token:
        shown["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        shown["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return shown


def extended_card(name: str, agents: dict[str, Agent], place: AgentPlace) -> Document:
    """Return the card for callers with a key, with every agent of the server as a skill."""
    shown = card(name, agents[name], place)
    shown["skills"] = [
        {"id": each, "name": each, "description": agent.description, "tags": [f"a2a/{each}"]}
        for each, agent in agents.items()
    ]
    return shown


def _interface(url: str, binding: str, tenant: str = "") -> Document:
    fields = {"url": url, "protocolBinding": binding, "protocolVersion": VERSION}
    return {**fields, **({"tenant": tenant} if tenant else {})}
