"""Pieces: grep against GNU grep, slices of a large body, and how both grow."""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Curve, Result, Skipped, flat, interleaved, timed, within
from contextrelay import Relay

LINE = "%08d worker-%d handled order %d for customer %d in %d ms, nothing to report here\n"
# What is looked for, with the options of grep.
PATTERNS: dict[str, tuple[tuple[str, ...], str]] = {
    "a rare word": (("FATAL",), "-F"),
    "a regular expression": (("order 99[0-9]+7 for .* in 1[0-9] ms",), "-E"),
    "either case": (("(?i)fatal|panic",), "-P"),
    "a word of either case": (("fatal",), "-iF"),
    "a common word": (("worker-3 ",), "-F"),
    "two words": (("FATAL", "panic"), "-F"),
    "two words, one of them common": (("worker-3 ", "disk"), "-F"),
    "two words of either case": (("fatal", "panic"), "-iF"),
}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    if shutil.which("grep") is None:
        raise Skipped("it needs grep")
    with Relay(folder / "store") as relay:
        yield from greps(relay, folder)
        yield from slices(relay)
        yield from growth(relay)


def log(size_bytes: int) -> bytes:
    lines: list[str] = []
    size = number = 0
    while size < size_bytes:
        number += 1
        line = LINE % (number, number % 16, number * 7919 % 1_000_003, number % 977, number % 83)
        if number % 50_000 == 0:
            line = line.replace("nothing to report here", "FATAL: the disk is full")
        lines.append(line)
        size += len(line)
    return "".join(lines).encode()


def greps(relay: Relay, folder: Path) -> Iterator[Result]:
    """50 megabytes, ours in a process that is there, grep as a process that is started."""
    body = log(50_000_000)
    path = folder / "log"
    path.write_bytes(body)
    ref = relay.push(body, ttl_s=None).ref
    for name, (patterns, option) in PATTERNS.items():
        asked: dict[str, Any] = {"is_fixed": "F" in option, "ignore_case": "i" in option}
        found = relay.grep(patterns, ref, **asked)
        command = ["grep", option, "-n", str(path)]
        command[3:3] = [word for each in patterns for word in ("-e", each)]

        def theirs(command: list[str] = command) -> float:
            before_s = _children_s()
            subprocess.run(command, capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=False)
            return _children_s() - before_s

        def ours(patterns: tuple[str, ...] = patterns, asked: dict[str, Any] = asked) -> float:
            before_s = time.process_time()
            relay.grep(patterns, ref, **asked)
            return time.process_time() - before_s

        ours_s, theirs_s = interleaved(ours, theirs)
        title = f"grep 50 MB for {name} ({found.count} lines) / GNU grep, processor time"
        yield within(title, ours_s * 1000, theirs_s * 1000, "ms", 2)


def _children_s() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def slices(relay: Relay) -> Iterator[Result]:
    """Bytes read of 50 MB for a piece of it, as a share of the whole."""
    body = log(50_000_000)
    artifact = relay.push(body, ttl_s=None)
    last = artifact.preview.line_count
    asks: dict[str, dict[str, Any]] = {
        "bytes in the middle": {"bytes": "25000000:25002000"},
        "the first lines": {"lines": "1:20"},
        "the last lines, the first time": {"lines": f"{last - 10}:"},
        "the last lines, again": {"lines": f"{last - 10}:"},
        "lines in the middle": {"lines": f"{last // 2}:{last // 2 + 20}"},
    }
    for name, asked in asks.items():
        read_bytes = _read_bytes(relay, artifact.ref, asked)
        most = 2.1 if "first time" in name else 0.01
        yield within(f"read of 50 MB for {name}", read_bytes, len(body), "bytes", most)


def _read_bytes(relay: Relay, ref: str, asked: dict[str, Any]) -> int:
    """How many bytes of blobs a slice reads."""
    blobs: Any = relay.transport.stores.blobs  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    read, counted = blobs.read, [0]

    def counting(*args: Any) -> Iterator[bytes]:
        for chunk in read(*args):
            counted[0] += len(chunk)
            yield chunk

    blobs.read = counting
    try:
        relay.slice(ref, **asked)
    finally:
        blobs.read = read
    return counted[0]


def growth(relay: Relay) -> Iterator[Curve]:
    """What a slice far inside costs by size, once its lines are known, and what room grep takes."""
    slices_ms: dict[str, float] = {}
    rooms_mb: dict[str, float] = {}
    greps_ms: dict[str, float] = {}
    for size_bytes in (4_000_000, 12_000_000, 24_000_000, 48_000_000):
        name = f"{size_bytes // 1_000_000} MB"
        artifact = relay.push(log(size_bytes), ttl_s=None)
        far = f"{artifact.preview.line_count - 30}:"
        relay.slice(artifact.ref, lines=far)

        def look(ref: str = artifact.ref, far: str = far) -> None:
            relay.slice(ref, lines=far)

        def seek(ref: str = artifact.ref) -> None:
            relay.grep("FATAL", ref)

        slices_ms[name] = statistics.median(timed(look) for _ in range(7)) * 1000
        greps_ms[name] = statistics.median(timed(seek) for _ in range(3)) * 1000
        tracemalloc.start()
        seek()
        rooms_mb[name] = tracemalloc.get_traced_memory()[1] / 1_000_000
        tracemalloc.stop()
    yield flat("slice of 30 lines at the end, by size", slices_ms, "ms", 3)
    yield Curve("grep, by size", "ms", greps_ms, "", True)
    yield flat("room that a grep takes, by size", rooms_mb, "MB", 2)
