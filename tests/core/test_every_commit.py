"""Each verb is done once or not at all, and its caller knows which, whatever happens to a commit.

A ledger whose engine fails at one commit stands in for a server: before the commit is applied,
after it (the reply is lost), or with no answer to the question either. Each verb that changes
something is run on each engine to a failure at every commit that it makes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from contextrelay.client.transport.local import Local
from contextrelay.core import Stores, answer_pushes
from contextrelay.errors import Unavailable
from contextrelay.model.settings import Settings
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.engine import Engine
from contextrelay.store.ledger import Ledger, Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.store.ledger.view import LedgerView, SettledLedger
from contextrelay.verbs import (
    VERBS,
    AddBlocks,
    BeginPipeline,
    BeginTask,
    Body,
    ExportThread,
    FinishStep,
    Invoke,
    List,
    Push,
    PushMany,
    PutSession,
    ReadSignals,
    Remove,
    RemoveThread,
    Sweep,
    Verb,
    Verify,
)
from tests.core.clock import Clock
from tests.core.keyed import body_of, examples, fill, over
from tests.core.twins import held_in
from tests.rigs import some
from tests.store.engines import LEDGERS, Servers, make_ledger, new_prefix

Failure = Literal["before", "after", "silence"]
FAILURES: tuple[Failure, ...] = ("before", "after", "silence")
LARGE = Random(1).randbytes(50_000)

# They work on files or on whole stores, and have tests of their own.
ON_FILES = {"MirrorThread", "AdoptState", "Backup", "Restore", "Migrate", "TryBlob"}
# They read, or build the index of searches, which is no part of a ledger. A session's log is
# dropped, which is no commit, and each patch compacts, so that nothing is left for CompactState.
READING = {
    *("ListKeys", "ReadUsage", "Verify", "Survey", "CheckLedger", "ReadSession", "TryPatch"),
    *("ListHooks", "ReadSent", "ListSent", "RebuildSearch", "ReadSearchIndex"),
    *("DeleteSession", "CompactState"),
}
# Sequences of commits that resume, each of them sound: asked again with its key it is done once.
SEQUENCES = {
    *("AddBlocks", "BeginPipeline", "CountUse", "ImportThread", "Invoke", "PruneContext"),
    *("PurgeCache", "PushMany", "Remove", "RemoveThread", "ReturnHandoff", "Sweep"),
}
ON_RUNS = {"ResumePipeline", "NotePipeline", "CancelPipeline", "DecideStep", "FinishStep"}
ON_TASKS = {"NoteTask", "PutOutput"}
CHANGING = [
    kind
    for kind in VERBS
    if kind.traits.needs != "read" and kind.__name__ not in ON_FILES | READING
]
KEY = "retry-7"
BEGIN_MS = time.time_ns() // 1_000_000_000 * 1_000 + 500
# What verbs say here, where what tests of access say would change nothing.
_CHANGED: dict[str, dict[str, Any]] = {
    "DecideStep": {"channel": None, "signal": 0},
    "Extend": {"ttl_s": 90_000},
    "OpenThread": {"name": "another"},
    "PruneContext": {"budget_tokens": 1},
    "UseThread": {"place": "/elsewhere"},
}


class FailingLedger(LedgerView):
    """A ledger whose engine fails at the commit with a number, once."""

    def __init__(self, inner: Ledger, number: int, failure: Failure) -> None:
        super().__init__(inner)
        self.commits = 0
        self._number = number
        self._failure = failure
        self._is_silent = False

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        self.commits += bool(writes)
        if not writes or self.commits != self._number:
            return super().commit(*writes, id=id)
        if self._failure != "before":
            super().commit(*writes, id=id)
        self._is_silent = self._failure == "silence"
        raise Unavailable("the store's server does not answer", "try again")

    def applied(self, id: bytes) -> list[int] | None:
        if self._is_silent:
            self._is_silent = False
            raise Unavailable("the store's server does not answer", "try again")
        return super().applied(id)


class World:
    """A store with one of each thing in it, the same each time."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._blobs = MemoryBlobs()
        self._clock = Clock()
        self._clock.at_ms = BEGIN_MS  # Texts of times are then of the same length in all worlds.
        self._random = Random(5)
        core = self.core(ledger)
        relay = over(core)
        self.things = fill(relay, relay.new_key(name="held"))
        self.ref = core.ask(Push(ttl_s=60_000), b"for a while").ref
        self.run = core.ask(BeginPipeline(name="campaign run"), b"{}").thread_id
        self.task = core.ask(BeginTask("task")).thread_id
        self.archive = core.ask(ExportThread(self.things.thread)).whole()

    def core(self, ledger: Ledger) -> Local:
        engine = Engine("test", ledger, self._blobs)
        return Local(Stores(engine, Settings(), self._clock, self._random.randbytes))

    def sweep(self) -> None:
        """Free what a verb of several commits has left for later."""
        self.core(self.ledger).ask(Sweep())

    def requests(self, kind: type[Verb[Any]]) -> list[tuple[Verb[Any], Body]]:
        """Return what is asked of a kind of verb, so that there is something to do."""
        name, body = kind.__name__, body_of(kind)
        verbs = examples(kind, self.things)
        if name == "ImportThread":
            body = self.archive
        elif name == "PushMany":
            items = [Push(), Push(thread=self.things.thread), Push(channel="news"), Push()]
            return [(PushMany(items, [2, 2, 2, len(LARGE)]), b"onetwo" + LARGE)]
        elif name == "Push":
            both = Push(thread=self.things.thread, channel=self.things.channel)
            return [*((verb, body) for verb in verbs), (both, body), (Push(), LARGE)]
        changed = {**(self._on(name) or {}), **_CHANGED.get(name, {})}
        return [(replace(verb, **changed), body) for verb in verbs]

    def _on(self, name: str) -> dict[str, Any] | None:
        """Make what a verb is about; the fields that say so."""
        ask = self.core(self.ledger).ask
        if name == "DecideStep":
            ask(FinishStep(thread=self.run, step="plan", status="waiting"))
        elif name == "PruneContext":
            ask(examples(AddBlocks, self.things)[0])
        elif name == "Sweep":
            ask(Push(ttl_s=1), LARGE)
            self._clock.pass_ms(3_600_000)
        elif name == "PurgeCache":
            ask(Invoke("retrieval.search", {"query": "dawn"}))
        elif name == "DeleteSession":
            ask(PutSession("s1", {}, {"b1": b"{}"}, ttl_s=60))
        if name in ("Pin", "Extend"):
            return {"ref": self.ref}
        if name in ON_RUNS:
            return {"thread": self.run}
        return {"thread": self.task} if name in ON_TASKS else None


@contextmanager
def world_on(kind: str, servers: Servers, folder: Path) -> Generator[World]:
    ledger = make_ledger(kind, servers, folder, new_prefix())
    try:
        yield World(ledger)
    finally:
        ledger.close()


def held(world: World) -> dict[str, Any]:
    return held_in(world.ledger, set())


CASES = [
    (kind, verb)
    for kind in LEDGERS
    for verb in (CHANGING if kind in ("memory", "sqlite") else some(CHANGING, 4))
]


@pytest.mark.parametrize(
    ("engine", "kind"), CASES, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_verb_is_done_once_or_not_at_all(
    engine: str, kind: type[Verb[Any]], servers: Servers, tmp_path: Path
) -> None:
    """Promise C3."""
    with world_on(engine, servers, tmp_path) as world:
        count = len(world.requests(kind))
    assert count
    for index in range(count if engine == "memory" else 1):
        with world_on(engine, servers, tmp_path) as world:
            verb, body = world.requests(kind)[index]
            untouched = held(world)
            counting = FailingLedger(world.ledger, 0, "before")
            world.core(SettledLedger(counting)).ask(verb, body, KEY)
            if kind.__name__ in SEQUENCES:
                world.sweep()
            done = held(world)
        assert counting.commits, f"{kind.__name__} changes nothing"
        for number in range(1, counting.commits + 1):
            for failure in FAILURES:
                with world_on(engine, servers, tmp_path) as world:
                    verb, body = world.requests(kind)[index]
                    _check(world, verb, body, number, failure, untouched, done)


def _check(
    world: World,
    verb: Verb[Any],
    body: Body,
    number: int,
    failure: Failure,
    untouched: dict[str, Any],
    done: dict[str, Any],
) -> None:
    """Ask with a failure at a commit, and again with the same key if the caller was told of it."""
    failing = FailingLedger(world.ledger, number, failure)
    core = world.core(SettledLedger(failing))
    name = type(verb).__name__
    try:
        core.ask(verb, body, KEY)
    except Unavailable:
        assert failure != "after"
        if name not in SEQUENCES:
            _check_same(held(world), untouched if failure == "before" else done)
        if not verb.traits.keyed:
            return
        core.ask(verb, body, KEY)
    if name in SEQUENCES:
        world.sweep()
    _check_same(held(world), done)
    assert core.ask(Verify()).problems == []


def _check_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert _all_in(one) == _all_in(other)
    assert one["counters"] == other["counters"]


def _all_in(held: dict[str, Any]) -> Counter[str]:
    """Return all that is held, but for events that a capability failed: they change nothing."""
    lines: Counter[str] = held["held"]
    return Counter({line: n for line, n in lines.items() if '"capability.failed"' not in line})


# A removal: tombstone, index, hold and event, then the bytes. Of a thread: its end, its artifacts,
# their bytes, its other rows. In a thread a capability is called, then its result is stored.
COMMITS: dict[type[Verb[Any]], list[int]] = {Remove: [2], RemoveThread: [4], Invoke: [1, 2]}


@pytest.mark.parametrize("kind", COMMITS, ids=lambda kind: kind.__name__)
def test_a_verb_makes_few_commits(kind: type[Verb[Any]]) -> None:
    """Promise C3."""
    made: list[int] = []
    for index in range(len(COMMITS[kind])):
        world = World(MemoryLedger())
        verb, body = world.requests(kind)[index]
        counting = FailingLedger(world.ledger, 0, "before")
        world.core(SettledLedger(counting)).ask(verb, body, KEY)
        made.append(counting.commits)

    assert made == COMMITS[kind]


@pytest.mark.parametrize("failure", FAILURES)
def test_pushes_side_by_side_are_never_stored_twice(failure: Failure) -> None:
    """Promise S4. A batch whose outcome is unknown is not pushed again one by one."""
    ledger = MemoryLedger()
    world = World(ledger)
    stores = world.core(SettledLedger(FailingLedger(ledger, 1, failure))).stores
    pushes = [(Push(channel="news", name=f"{number}"), b"%d" % number) for number in range(3)]

    answers = answer_pushes([(stores, *each, "") for each in pushes])

    core = world.core(ledger)
    stored = [each for each in core.ask(List(100)).artifacts if each.channel == "news"]
    sent = core.ask(ReadSignals("news", after=0)).signals
    assert [isinstance(each, Unavailable) for each in answers] == [failure != "after"] * 3
    assert len(stored) == len(sent) == (0 if failure == "before" else 3)
