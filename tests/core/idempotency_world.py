"""A store with something in it, and every request that may have a key.

What the store shows after a request was asked once, without trouble, is what it has to show after
every other way of asking it once: the same artifacts, threads, events, hops and signals in number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec import Struct

from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.catalog import ADDED
from contextrelay.core.capabilities import capability
from contextrelay.model.package import Block
from contextrelay.store.engine import Engine, open_engine
from contextrelay.store.ledger import Ledger
from contextrelay.verbs import (
    AddBlocks,
    AddEvent,
    Body,
    CloseThread,
    CopyThread,
    ExportThread,
    FinishRun,
    ForkThread,
    GiveHandoff,
    ImportThread,
    Invoke,
    List,
    ListChannels,
    ListHandoffs,
    ListThreads,
    MakeCheckpoint,
    NewThread,
    OpenThread,
    PatchState,
    PruneContext,
    Publish,
    Pull,
    Push,
    PushMany,
    PutReport,
    ReadEvents,
    ReadStats,
    Remove,
    RemoveThread,
    RestoreState,
    ReturnHandoff,
    Sweep,
    Verb,
    Verify,
)
from tests.core.clock import DAY_MS, Clock, local

LARGE = os.urandom(50_000)
STOPS_MAX = 200
KEY = "retry-7"


class World(Struct, frozen=True):
    """A store with something in it to act on."""

    engine: Engine
    clock: Clock
    kept: str
    thread: str
    archive: bytes

    def core(self, ledger: Ledger | None = None) -> Local:
        engine = Engine("test", ledger or self.engine.ledger, self.engine.blobs)
        return local(self.clock, engine)


def new_world() -> World:
    engine, clock = open_engine("memory:"), Clock()
    core = local(clock, engine)
    kept = core.ask(Push(ttl_s=None), b"kept").ref
    thread = core.ask(NewThread("work")).thread_id
    core.ask(Push(thread=thread, name="notes.txt"), b"notes")
    core.ask(PatchState(thread, [fact("first")]))
    archive = core.ask(ExportThread(thread)).whole()
    return World(engine, clock, kept, thread, archive)


def fact(text: str) -> dict[str, Any]:
    return {"op": "add", "path": "/facts/-", "value": {"id": text, "key": "said", "value": text}}


def shown(core: Local) -> dict[str, Any]:
    """What can be seen of a store, but for ids and times."""
    artifacts = core.ask(List(1000)).artifacts
    threads = core.ask(ListThreads(1000)).threads
    return {
        "artifacts": sorted(
            (each.sha256, each.name or "", each.thread is not None) for each in artifacts
        ),
        "refs": len({each.ref for each in artifacts}),
        "threads": sorted(
            (
                each.name or "",
                each.status,
                each.version,
                each.artifacts,
                _event_types(core, each.thread_id),
                core.ask(ReadStats(each.thread_id)).hop_count,
            )
            for each in threads
        ),
        "channels": [(each.name, each.head) for each in core.ask(ListChannels()).channels],
        "handoffs": [
            (each.to, each.ask, len(each.accepted), len(each.returned))
            for each in core.ask(ListHandoffs(limit=100)).handoffs
        ],
    }


def _event_types(core: Local, thread: str) -> list[str]:
    """The types of a thread's events; that a run failed is an event too, and changes nothing."""
    types = [each.event.type for each in core.ask(ReadEvents(thread)).events]
    return [each for each in types if each != "capability.failed"]


Asked = Callable[[World], tuple[Verb[Any], Body]]

BODIES = [b"one", b"kept", b"two", b"one"]

REQUESTS: dict[str, Asked] = {
    "push": lambda world: (Push(), b"new content"),
    "push large": lambda world: (Push(), LARGE),
    "push same": lambda world: (Push(source_refs=(world.kept,)), b"kept"),
    "push to thread": lambda world: (Push(thread=world.thread, name="a.txt"), b"put"),
    "push to channel": lambda world: (Push(channel="news"), b"sent"),
    "push to both": lambda world: (Push(thread=world.thread, channel="news"), b"put and sent"),
    "push many": lambda world: (
        PushMany(
            [Push(), Push(thread=world.thread), Push(channel="news"), Push(thread=world.thread)],
            [len(body) for body in BODIES],
        ),
        b"".join(BODIES),
    ),
    "remove": lambda world: (Remove(world.kept), b""),
    "publish": lambda world: (Publish("news", {"text": "hello"}), b""),
    "new thread": lambda world: (NewThread("new"), b""),
    "open thread": lambda world: (OpenThread("opened"), b""),
    "fork": lambda world: (ForkThread(world.thread, name="fork"), b""),
    "copy": lambda world: (CopyThread(world.thread, name="copy"), b""),
    "import": lambda world: (ImportThread(name="imported"), world.archive),
    "close": lambda world: (CloseThread(world.thread), b""),
    "remove thread": lambda world: (RemoveThread(world.thread), b""),
    "finish_run": lambda world: (
        FinishRun(thread=world.thread, run="r1", action="asked", operations=[fact("second")]),
        b"answer",
    ),
    "patch": lambda world: (PatchState(world.thread, [fact("second")], expected=3), b""),
    "restore": lambda world: (RestoreState(world.thread, 1), b""),
    "add event": lambda world: (AddEvent(world.thread, "test.ran", {"passed": 3}), b""),
    "checkpoint": lambda world: (MakeCheckpoint(world.thread, "here"), b""),
    "invoke": lambda world: (Invoke("test.draw", {}, world.thread), b""),
    "invoke alone": lambda world: (Invoke("test.draw", {}, None), b""),
    "hand off": lambda world: (
        GiveHandoff(world.thread, "coder", "go on", refs=(world.kept,)),
        b"",
    ),
    "add blocks": lambda world: (
        AddBlocks(world.thread, [Block("b1", "one"), Block("b2", "two " * 40)]),
        b"",
    ),
    "prune": lambda world: (PruneContext(world.thread, budget_tokens=_pruned_to(world)), b""),
    "report": lambda world: (PutReport(world.thread), b"# A report"),
    "hand back": lambda world: (ReturnHandoff(_handed(world), "done.txt"), b"done"),
}


def _pruned_to(world: World) -> int:
    """A budget that a block more than it holds was added to."""
    world.core().ask(AddBlocks(world.thread, [Block("b1", "words " * 60)]))
    return 70


def _handed(world: World) -> str:
    return world.core().ask(GiveHandoff(world.thread, "coder", "go on")).ref


draws = count(1)


@capability("test.draw", cacheable=False)
def draw(args: dict[str, Any]) -> str:
    """Draw a number: another one each time, of the same length."""
    return f"number {next(draws):09d}"


def after_once(name: str) -> dict[str, Any]:
    world = new_world()
    verb, body = REQUESTS[name](world)
    world.core().ask(verb, body, KEY)
    return shown(world.core())


def check_nothing_stays(world: World, when: str) -> None:
    """Once all is removed, sweeps leave nothing of it."""
    core = world.core()
    for thread in core.ask(ListThreads(1000)).threads:
        core.ask(RemoveThread(thread.thread_id))
    for artifact in core.ask(List(1000)).artifacts:
        core.ask(Remove(artifact.ref))
    for _ in range(4):
        world.clock.pass_ms(31 * DAY_MS)
        core.ask(Sweep())
    logs = core.stores.ledger.logs("", "", 1000)
    assert [log for log in logs if log not in ("sweep", "i/n", ADDED)] == [], when
    assert list(core.stores.blobs.walk()) == [], when


def check(world: World, name: str, clean: dict[str, Any], when: str) -> None:
    core = world.core()
    seen = shown(core)
    if name.startswith(("invoke", "hand")):  # What they store is not the same in another world.
        seen["artifacts"], clean = len(seen["artifacts"]), {**clean}
        clean["artifacts"] = len(clean["artifacts"])
    assert seen == clean, when
    assert core.ask(Verify()).problems == [], when
    for artifact in core.ask(List(1000)).artifacts:
        assert len(core.ask(Pull(artifact.ref)).whole()) == artifact.size_bytes, when
