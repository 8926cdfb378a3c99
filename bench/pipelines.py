"""Pipelines: 1,000 steps against a bare loop with the same appends, and what a resume takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Curve, Result, interleaved, timed, within
from contextrelay import AsyncRelay, Pipeline, Relay
from contextrelay.pipelines import runs
from contextrelay.verbs import BeginPipeline, FinishStep

STEPS = 1_000
PARALLEL = 16
RESUME_S_MAX = 1.0


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    (folder / "empty.py").write_text("def act():\n    return None\n")
    relay = Relay(folder / "store")
    for name, is_chain in (("a chain", True), ("parallel", False)):
        pipeline = Pipeline.load(_file(folder, is_chain))
        ours, anchor = interleaved(
            lambda pipeline=pipeline: timed(lambda: _run(relay, pipeline)),
            lambda is_chain=is_chain: timed(lambda: asyncio.run(_bare(folder, is_chain))),
        )
        yield within(f"{STEPS:,} empty steps, {name}", ours, anchor, "s", 2.0)
    yield _resume(relay, folder)


def _file(folder: Path, is_chain: bool) -> Path:
    """A pipeline of steps that do nothing, each after the other or all at once."""
    steps = {
        f"s{number}": {
            "python": "empty:act",
            **({"needs": f"s{number - 1}"} if is_chain and number else {}),
        }
        for number in range(STEPS)
    }
    file = folder / f"{'chain' if is_chain else 'parallel'}.yaml"
    file.write_text(json.dumps({"name": "empty", "steps": steps}))
    return file


def _run(relay: Relay, pipeline: Pipeline) -> str:
    ended = pipeline.run(relay, parallel=PARALLEL)
    assert ended.status == "done", ended.reason
    return ended.run


async def _bare(folder: Path, is_chain: bool) -> None:
    """The same appends, awaited: each after the other, or all at once."""
    relay = AsyncRelay(folder / "store")
    thread = (await relay.transport.ask(BeginPipeline(name="bare"), b"{}")).thread_id

    async def append(number: int) -> None:
        detail: dict[str, Any] = {
            "kind": "python",
            "key": f"{thread}/s{number}",
            "refs_in": [],
            "attempts": 1,
            "is_cached": False,
            "duration_ms": 0,
        }
        await relay.transport.ask(FinishStep(thread=thread, step=f"s{number}", detail=detail))

    if is_chain:
        for number in range(STEPS):
            await append(number)
    else:
        await asyncio.gather(*map(append, range(STEPS)))
    await relay.close()


def _resume(relay: Relay, folder: Path) -> Curve:
    """A resume of a run whose steps are all done but the last."""
    run = _run(relay, Pipeline.load(_file(folder, True)))
    relay.transport.ask(FinishStep(thread=run, step=f"s{STEPS - 1}", status="pending"))
    taken_s = timed(lambda: runs.resume(relay, run))
    points = {f"{STEPS:,} steps": taken_s}
    return Curve("resume of a run", "s", points, f"< {RESUME_S_MAX} s", taken_s < RESUME_S_MAX)
