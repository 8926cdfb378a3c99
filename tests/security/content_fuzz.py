"""Fuzz what looks into content: `python -m tests.security.content_fuzz --cases 1000`.

Each case is a hostile body by grammar (tests/fuzz/grammar.py) and some calls that look into it: its
outline, its digest, slices by every way, grep, diff, search. No call may take over 2 s of processor
time and 300 MiB above the body's size, or raise what is none of our errors.

A case is told by its seed, its number and the size; `--seed S --from N --cases 1` does it again.
Cases are independent: run several of these side by side, each from another number on.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tests.fuzz.measured import MIB, bound_memory, measure, resident_bytes

if TYPE_CHECKING:
    from tests.fuzz.calls import Call
    from tests.fuzz.grammar import Body

CPU_S_MAX = 2.0
MEMORY_BYTES_MAX = 300 * MIB
SIZE_BYTES_MAX = 300_000
# A process does so many cases and is followed by another: what it keeps is no part of a case.
CASES_A_PROCESS = 500
# It is followed by another earlier where it keeps more than this: calls would find room in that.
KEPT_BYTES_MAX = 64 * MIB


class Asked(Struct, frozen=True):
    """What to run."""

    cases: int
    start: int = 0
    seed: int = 0
    size_bytes_max: int = SIZE_BYTES_MAX
    size_bytes_min: int = 64
    calls: int = 4
    """Of each body, chosen by its number; 0 for all."""
    kinds: tuple[str, ...] = ()
    only: str = ""
    """Calls whose name has this in it."""
    is_sdk: bool = False


class Done(Struct, frozen=True):
    """One call and what it took."""

    case: int
    call: str
    kind: str
    shape: str
    size_bytes: int
    cpu_s: float = 0.0
    memory_bytes: int = 0
    failure: str = ""

    @property
    def is_over(self) -> bool:
        over = self.cpu_s > CPU_S_MAX or self.memory_bytes > MEMORY_BYTES_MAX
        return over or bool(self.failure)

    def __str__(self) -> str:
        what = (
            f"case {self.case} {self.call} of {self.kind} ({self.shape}, {self.size_bytes:,} bytes)"
        )
        took = f"{self.cpu_s:.2f} s, {self.memory_bytes / MIB:.0f} MiB"
        return f"{what}: {took}{' ' + self.failure if self.failure else ''}"


class Report:
    """What came of many calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.slowest: Done | None = None
        self.largest: Done | None = None
        self.over: list[Done] = []

    def add(self, done: Done) -> None:
        self.calls += 1
        if self.slowest is None or done.cpu_s > self.slowest.cpu_s:
            self.slowest = done
        if self.largest is None or done.memory_bytes > self.largest.memory_bytes:
            self.largest = done
        if done.is_over:
            self.over.append(done)


def run(asked: Asked) -> Iterator[Done]:
    """Run cases in child processes, one after the other."""
    start, stop = asked.start, asked.start + asked.cases
    while start < stop:
        count = min(CASES_A_PROCESS, stop - start)
        part = msgspec.structs.replace(asked, start=start, cases=count)
        reached = start
        for done in _in_child(part):
            yield done
            reached = done.case
        start = min(start + count, reached + 1)


def _in_child(asked: Asked) -> Iterator[Done]:
    """What a child tells of its calls; of one in which it died, how."""
    words = [sys.executable, "-m", "tests.security.content_fuzz", "--child"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(msgspec.json.encode(asked))
        child.stdin.close()
        begun: Done | None = None
        for line in child.stdout:
            answer = msgspec.json.decode(line, type=Done)
            if answer.failure == _BEGUN:
                begun = answer
                continue
            begun = None
            yield answer
        error = child.stderr.read().decode(errors="replace")
        code = child.wait()
    if begun is not None:
        ended = signal.Signals(-code).name if code < 0 else f"exit {code}: {error[-300:]}"
        yield msgspec.structs.replace(begun, failure=f"died: {ended}", cpu_s=0.0)
    elif code:
        raise RuntimeError(f"the child ended with {code}: {error[-2_000:]}")


_BEGUN = "begun"


def _child() -> None:
    """Run the cases that standard input asks for, and tell of each call before and after it."""
    from contextrelay.bounded import parser_pool
    from tests.fuzz import calls, grammar

    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    make_calls = calls.of_sdk if asked.is_sdk else calls.of_logic
    _warm(make_calls)
    # What is loaded once is no garbage to look through at every call.
    gc.collect()
    gc.freeze()
    bound_memory()
    base_bytes = resident_bytes()
    for case in range(asked.start, asked.start + asked.cases):
        rng = Random(f"{asked.seed}/{case}")
        size_bytes = _size(rng, asked)
        body = grammar.make(asked.seed, case, size_bytes, asked.kinds)
        known = make_calls(body, rng)
        chosen = [name for name in known if asked.only in name]
        if asked.calls and len(chosen) > asked.calls:
            chosen = rng.sample(chosen, asked.calls)
        for name in chosen:
            done = Done(case, name, body.kind, body.shape, len(body.content), failure=_BEGUN)
            _show(done)
            failure = ""
            try:
                took = measure(lambda call=known[name]: calls.guarded(call), parser_pool.pids)
                cpu_s, memory_bytes = took.cpu_s, took.memory_bytes
            except Exception as error:
                failure, cpu_s, memory_bytes = f"raised {error!r:.200}", 0.0, 0
            _show(
                msgspec.structs.replace(
                    done, cpu_s=cpu_s, memory_bytes=memory_bytes, failure=failure
                )
            )
        del body, known
        if resident_bytes() > base_bytes + KEPT_BYTES_MAX:
            return


def _size(rng: Random, asked: Asked) -> int:
    """As often small as large: between the least and the most by its logarithm."""
    least, most = max(1, asked.size_bytes_min), asked.size_bytes_max
    return min(most, int(least * (most / least) ** rng.random()))


def _warm(make_calls: Callable[[Body, Random], dict[str, Call]]) -> None:
    """Have everything loaded that is loaded once: tokenizer, patterns, search."""
    from tests.fuzz import calls, grammar

    for number in range(len(grammar.KINDS)):
        for call in make_calls(grammar.make(1, number, 500), Random(number)).values():
            try:
                calls.guarded(call)
            except Exception:
                continue  # It is found as a case.


def _show(done: Done) -> None:
    os.write(1, msgspec.json.encode(done) + b"\n")


def main() -> int:
    words = argparse.ArgumentParser(description="Fuzz what looks into content.")
    words.add_argument("--cases", type=int, default=1_000)
    words.add_argument("--from", type=int, default=0, dest="start", help="the first case's number")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--size-bytes-max", type=int, default=SIZE_BYTES_MAX)
    words.add_argument("--size-bytes-min", type=int, default=64)
    words.add_argument("--calls", type=int, default=4, help="calls of each case, 0 for all")
    words.add_argument("--kinds", default="", help="kinds of content, by commas")
    words.add_argument("--only", default="", help="calls whose name has this in it")
    words.add_argument("--sdk", action="store_true", help="through Relay('memory:')")
    words.add_argument("--json", action="store_true", help="a line of JSON for each call over")
    words.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    answer = words.parse_args()
    if answer.child:
        _child()
        return 0
    asked = Asked(
        cases=answer.cases,
        start=answer.start,
        seed=answer.seed,
        size_bytes_max=answer.size_bytes_max,
        size_bytes_min=min(answer.size_bytes_min, answer.size_bytes_max),
        calls=answer.calls,
        kinds=tuple(filter(None, answer.kinds.split(","))),
        only=answer.only,
        is_sdk=answer.sdk,
    )
    report = Report()
    started = time.monotonic()
    for done in run(asked):
        report.add(done)
        if done.is_over:
            line = json.dumps(msgspec.to_builtins(done)) if answer.json else str(done)
            print(line, flush=True)
    counts = Counter((done.call, done.kind) for done in report.over)
    for (call, kind), count in counts.most_common():
        print(f"over: {count} x {call} of {kind}")
    print(f"{asked.cases} cases from {asked.start} (seed {asked.seed}), {report.calls} calls")
    print(f"slowest: {report.slowest}")
    print(f"largest: {report.largest}")
    print(f"{len(report.over)} over the bounds, in {time.monotonic() - started:.0f} s")
    return 1 if report.over else 0


if __name__ == "__main__":
    sys.exit(main())
