"""Run the benchmarks: `python -m bench [WORD...]` runs those whose name has one of the words.

Prints a table, and writes it with the numbers to bench/results. What needs a part that is not there
is skipped, and says so; its last results stay.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from msgspec.json import encode, format

from bench import (
    bodies,
    bundle,
    ledger,
    libraries,
    outline,
    page,
    pipelines,
    project,
    pushes,
    seal,
    search,
    start,
    state,
    tokens,
)
from bench.engines import figures as engines
from bench.http import agents, fanout, hearing, keyed, latency, pulls
from bench.http import pushes as http_pushes
from bench.inside import pieces
from bench.mcp import starting
from bench.measure import Curve, Result, Skipped
from bench.quality import packing
from bench.quality.look import scenarios as look

RESULTS = Path(__file__).parent / "results"
FILES = {
    "engines": engines,
    "start": start,
    "ledger": ledger,
    "bodies": bodies,
    "state": state,
    "in-process-pushes": pushes,
    "bundle": bundle,
    "project": project,
    "seal": seal,
    "http-pulls": pulls,
    "http-pushes": http_pushes,
    "http-keyed": keyed,
    "http-fanout": fanout,
    "http-hearing": hearing,
    "http-latency": latency,
    "http-agents": agents,
    "inside-pieces": pieces,
    "mcp-starting": starting,
    "quality-look": look,
    "quality-packing": packing,
    "tokens": tokens,
    "outline": outline,
    "page": page,
    "pipelines": pipelines,
    "search": search,
    "libraries": libraries,
}


def main(words: list[str]) -> int:
    chosen = [name for name in FILES if not words or any(word in name for word in words)]
    for name in chosen:
        found: list[Result | Curve] = []
        folder = Path(tempfile.mkdtemp(prefix="relay-bench-"))
        try:
            for each in FILES[name].scenarios(folder):
                found.append(each)
                print(_line(each), flush=True)
        except Skipped as reason:
            print(f"skip {name}: {reason}", flush=True)
            continue
        finally:
            shutil.rmtree(folder)
        _write(name, found)
    return 0


def _line(each: Result | Curve) -> str:
    mark = "ok  " if each.is_met else "MISS"
    if isinstance(each, Curve):
        points = "  ".join(f"{size}: {value:.1f}" for size, value in each.points.items())
        return f"{mark} {each.name}: {points} {each.unit} {each.target}"
    figures = f"{each.ours:.1f} / {each.anchor:.1f} {each.unit}"
    return f"{mark} {each.name}: {figures} = {each.ratio:.2f} (asked {each.target})"


def _write(name: str, found: list[Result | Curve]) -> None:
    RESULTS.mkdir(exist_ok=True)
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "machine": platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "results": found,
    }
    (RESULTS / f"{name}.json").write_bytes(format(encode(record), indent=2) + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
