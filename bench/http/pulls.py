"""Pulls against nginx serving the same bytes from files, and peeks against a constant reply of it.

16 connections that stay open, one process each. The bodies are asked for in turn, so no side lives
from a single one. An envelope's anchor is a file with that envelope in it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

from msgspec.json import decode

from bench.http.load import SECONDS, WARM_SECONDS, Load, compared, gets
from bench.http.servers import ROOT, Served, check_parts, nginx, relay
from bench.measure import ROUNDS, Curve, Result, flat
from contextrelay import Relay

# Name: bytes, how many bodies, the rates asked for as a share of nginx's, raw and in an envelope.
PULLED = {
    "1 KB": (1_000, 32, 0.45, 0.45),
    "125 KB": (125_000, 32, 0.65, 0.65),
    "5 MB": (5_000_000, 8, 1.0, 0.75),
}
PEEKED = {"1 KB": 1_000, "125 KB": 125_000, "5 MB": 5_000_000, "50 MB": 50_000_000}
METADATA = {"title": "release notes", "kind": "report", "agent": "writer"}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    check_parts("wrk", "nginx")
    with relay(folder / "store") as ours:
        for name, (size, count, raw_least, envelope_least) in PULLED.items():
            refs = _pushed(ours, size, count)
            asked = (("raw", "?raw=1", raw_least), ("envelope", "", envelope_least))
            for kind, query, at_least in asked:
                paths = [f"/pull/{ref}{query}" for ref in refs]
                place = folder / f"{kind}{size}"
                with nginx(place) as anchor:
                    files = _saved(ours, paths, place / "files", size, is_raw=bool(query))
                    title = f"pull {name}, {kind} / nginx, sendfile"
                    yield from compared(title, gets(ours, paths), gets(anchor, files), at_least)
        yield from peeks(folder, ours)


def peeks(folder: Path, ours: Served) -> Iterator[Result | Curve]:
    paths = {
        name: [f"/peek/{ref}" for ref in _pushed(ours, size, 2)] for name, size in PEEKED.items()
    }
    with urlopen(ours.url + paths["1 KB"][0]) as reply:
        constant: bytes = reply.read()
    assert decode(constant) == METADATA
    with nginx(folder / "constant", constant.decode()) as anchor:
        peek, fixed = gets(ours, paths["1 KB"]), gets(anchor, ["/constant"])
        yield from compared("peek / nginx, constant reply", peek, fixed, 0.35)
    runs = {name: gets(ours, asked) for name, asked in paths.items()}
    for run in runs.values():
        run(WARM_SECONDS)
    found: dict[str, list[Load]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(run(SECONDS))

    def by_size(cost: Callable[[Load], float]) -> dict[str, float]:
        return {name: statistics.median(map(cost, loads)) for name, loads in found.items()}

    taken_us, used_us = by_size(lambda load: 1e6 / load.rate), by_size(lambda load: load.cpu_us)
    yield flat("peek, by size of the body", taken_us, "us a request", 1.5)
    yield flat("peek, by size of the body: processor", used_us, "us a request", 1.5)


def text(size: int, seed: int) -> str:
    """A text as agents write them: words, quotes and lines; the same for the same seed."""
    words = (ROOT / "STYLE.md").read_text().split()
    dice = random.Random(seed)
    some = " ".join(dice.choices(words, k=min(size, 100_000) // 4)).replace(". ", ".\n")
    some = some.encode("ascii", "replace").decode()
    return (some * (size // len(some) + 1))[:size]


def _pushed(ours: Served, size: int, count: int) -> list[str]:
    with Relay(ours.url) as relay:
        return [
            relay.push(text(size, seed), metadata=METADATA, ttl_s=None).ref for seed in range(count)
        ]


def _saved(ours: Served, paths: list[str], files: Path, size: int, is_raw: bool) -> list[str]:
    """Put what our server answers where nginx finds it; the paths there."""
    for number, path in enumerate(paths):
        with urlopen(ours.url + path) as reply:
            body: bytes = reply.read()
        content = body.decode() if is_raw else decode(body)["data"]
        assert content == text(size, number), "not what was pushed"
        (files / f"{number}").write_bytes(body)
    return [f"/{number}" for number in range(len(paths))]
