"""Latency of peeks at 16 connections, and what the slow ones are made of.

Each curve changes one thing: no queue (one connection), no garbage collector, cores that others
keep busy, pushes to the same server, and those with the interpreter's lock changing hands sooner.
The difference between two curves is the share of what differs. nginx shows how much of it is the
machine. All of them in turn, five times; medians.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.http.load import Load, Pushes, Run, gets
from bench.http.pulls import METADATA, text
from bench.http.servers import Served, check_parts, nginx, program, relay
from bench.measure import ROUNDS, Curve, Result
from contextrelay import Relay

SECONDS = 3
PUSHING_CONNECTIONS = 4
KINDS = {
    "": "pass",
    ", no collector": "import gc; gc.disable()",
    ", lock passed on every 0.5 ms": "sys.setswitchinterval(0.0005)",
}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    check_parts("wrk", "nginx")
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        other = stack.enter_context(program("discarding"))
        pushes_elsewhere = _pushes(other)
        anchor = stack.enter_context(nginx(folder / "nginx"))
        constant = gets(anchor, ["/constant"])
        runs["nginx, constant reply"] = constant
        runs["nginx, while others push elsewhere"] = _beside(constant, pushes_elsewhere)
        for number, (kind, before) in enumerate(KINDS.items()):
            served = stack.enter_context(relay(folder / f"store{number}", before))
            paths = [f"/peek/{_pushed(served)}"]
            peeks = gets(served, paths)
            runs[f"peek{kind}"] = peeks
            if not kind:
                runs["peek, one connection"] = gets(served, paths, connections=1)
                runs["peek, while others push elsewhere"] = _beside(peeks, pushes_elsewhere)
            runs[f"peek, while others push{kind}"] = _beside(peeks, _pushes(served))
        yield from _curves(runs)


def _curves(runs: dict[str, Run]) -> Iterator[Curve]:
    found: dict[str, list[Load]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(run(SECONDS))
    for name, loads in found.items():
        points = {
            share: statistics.median(load.latency_us[share] for load in loads)
            for share in loads[0].latency_us
        }
        yield Curve(f"latency of {name}", "us", points, "", True)


def _pushes(server: Served) -> Run:
    return Pushes(server, text(988, 7), as_json=True, connections=PUSHING_CONNECTIONS)


def _beside(run: Run, other: Run) -> Run:
    """The one while the other runs too."""

    def both(seconds: float) -> Load:
        thread = threading.Thread(target=other, args=(seconds,))
        thread.start()
        found = run(seconds)
        thread.join()
        return found

    return both


def _pushed(served: Served) -> str:
    with Relay(served.url) as relay:
        return relay.push("a" * 1_000, metadata=METADATA, ttl_s=None).ref
