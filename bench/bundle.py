"""Bundles: preparing one by the size of the thread, and how soon a streamed word is shown."""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Curve, Result, each, flat, within
from bench.state import fact
from contextrelay import Relay
from contextrelay.client.flow import run
from contextrelay.runs.bundle import gather

SIZES = (20, 1_000, 10_000, 100_000)
BUNDLES = 100
WORDS = 20
# Says the time, and waits a little, so that each word is a write of its own.
PROVIDER = """
import time


class Stamp:
    name = "stamp"

    def __init__(self, model, environ):
        self.model = "now"

    def answer(self, prompt):
        from contextrelay.runs.provider import Reply

        for _ in range(20):
            yield f"{time.monotonic_ns()}\\n"
            time.sleep(0.02)
        yield Reply(text="done", model="now")
"""


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    yield from preparing(folder / "preparing")
    yield shown(folder / "shown")


def preparing(folder: Path) -> Iterator[Result | Curve]:
    """From a thread to what a model is sent: 12 artifacts, and so many facts."""
    relay = Relay(folder)
    taken_ms: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for size in SIZES:
        thread = relay.new_thread(f"of {size}")
        for start in range(0, size, 1_000):
            thread.patch([fact(start + index) for index in range(min(1_000, size - start))])
        for index in range(12):
            thread.put(f"# Report {index}\n" + "what it says\n" * 300, name=f"{index}.md")

        def prepare(index: int, thread: str = thread.id) -> None:
            run(relay.transport, gather(thread, "which port?"))

        taken_ms[f"{size:,}"] = each(prepare, BUNDLES) / 1000
        gathered = run(relay.transport, gather(thread.id, "which port?"))
        sizes[f"{size:,}"] = len(gathered.bundle.json())
    largest = taken_ms[f"{SIZES[-1]:,}"]
    yield within("a bundle, 100,000 facts / 5 ms", largest, 5.0, "ms", 1.0)
    yield flat("a bundle, by facts in the state", taken_ms, "ms", 1.5)
    yield flat("its bytes, by facts in the state", sizes, "bytes", 1.01)
    relay.close()


def shown(folder: Path) -> Result:
    """From the provider's yield to a terminal: each word is the time at which it was said."""
    info = folder / "stamp-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "stamp.py").write_text(PROVIDER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stamp\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[contextrelay.providers]\nstamp = stamp:Stamp\n")
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(folder), "RELAY_HOME": str(folder / "store")}
    words = [sys.executable, "-m", "contextrelay", "say the time", "-m", "stamp", "--no-files"]
    taken_ms: list[float] = []
    with subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as running:
        os.close(theirs)
        with os.fdopen(ours) as terminal:
            for _ in range(WORDS):
                said_ns = int(terminal.readline())
                taken_ms.append((time.monotonic_ns() - said_ns) / 1e6)
        running.kill()
    median = statistics.median(taken_ms)
    return within("a streamed word on a terminal / 20 ms", median, 20.0, "ms", 1.0)
