"""State: patches by the size of the state, cold and warm, and history against LangGraph's saver."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.measure import Curve, Result, each, flat, interleaved, timed, within
from contextrelay import Relay
from contextrelay.client.thread import Thread

SIZES = (10, 1_000, 10_000, 100_000)
PATCHES = 200
VERSIONS = 100
VERSION_BYTES = 4_000

Act = Callable[[int], None]


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    yield from patches(folder / "patches")
    yield from history(folder / "history")


def fact(key: int, value: str = "the orders service owns the schema") -> dict[str, Any]:
    return {
        "op": "add",
        "path": "/facts/-",
        "value": {"id": f"f{key}", "key": "note", "value": value},
    }


def patches(folder: Path) -> Iterator[Result | Curve]:
    relay = Relay(folder)
    raw = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def raw_append(index: int) -> None:
        os.write(raw, bytes(400))
        os.fdatasync(raw)

    patch_us: dict[str, float] = {}
    header_us: dict[str, float] = {}
    thread = relay.new_thread()
    for size in SIZES:
        thread = relay.new_thread(f"of {size}")
        for start in range(0, size, 1_000):
            thread.patch([fact(start + index) for index in range(min(1_000, size - start))])

        def patch(index: int, thread: Thread = thread) -> None:
            thread.patch([fact(index)])

        def header(index: int, thread: Thread = thread) -> None:
            thread.header()

        ours, anchor = _beside(patch, raw_append)
        patch_us[f"{size:,}"] = ours
        header_us[f"{size:,}"] = each(header, PATCHES)
        yield within(f"patch, {size:,} facts / append + fdatasync", ours, anchor, "us", 1.8)
    yield flat("patch, by facts in the state", patch_us, "us", 1.5)
    header_ms = max(header_us.values()) / 1000
    yield within("header of any of these / 1 ms", header_ms, 1.0, "ms", 1.0)
    os.close(raw)
    relay.close()
    yield _cold_patch(folder, thread.id)


def _beside(ours: Act, anchor: Act) -> tuple[float, float]:
    return interleaved(lambda: each(ours, PATCHES), lambda: each(anchor, PATCHES))


def _cold_patch(folder: Path, thread: str) -> Result:
    """A whole process: start, read 100,000 facts, patch, end."""
    words = [str(Path(sys.executable).with_name("relay")), "--store", str(folder)]
    words += ["state", "patch", "--thread", thread, "--json"]
    document = '[{"op":"add","path":"/facts/-","value":{"id":"c","key":"cold","value":1}}]'

    def run(index: int) -> None:
        subprocess.run([*words, document], check=True, capture_output=True)

    return within(
        "a cold relay state patch, 100,000 facts / 0.5 s", each(run, 5) / 1e6, 0.5, "s", 1
    )


def history(folder: Path) -> Iterator[Result]:
    """100 versions, each 4 KB larger than the one before."""
    # Not everybody who checks types has it installed: `make bench` does that.
    empty_checkpoint: Any = import_module("langgraph.checkpoint.base").empty_checkpoint
    saver_class: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver

    words = (Path(__file__).parents[1] / "STYLE.md").read_text().split()
    dice = random.Random(7)

    def growth() -> str:
        return " ".join(dice.choices(words, k=VERSION_BYTES // 6))[:VERSION_BYTES]

    added = [growth() for _ in range(VERSIONS)]
    live_bytes = sum(map(len, added))

    relay = Relay(folder / "ours")
    thread = relay.new_thread()
    for number, value in enumerate(added):
        thread.patch([fact(number, value)])
    relay.close()
    ours_bytes = _size(folder / "ours")

    plain = sqlite3.connect(folder / "theirs.db", check_same_thread=False)
    saver = saver_class(plain)
    config: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
    for number in range(VERSIONS):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"facts": added[: number + 1]}
        checkpoint["channel_versions"] = {"facts": number + 1}
        config = saver.put(config, checkpoint, {"step": number}, {"facts": number + 1})
    plain.commit()
    plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    theirs_bytes = _size(folder, "theirs.db")
    yield within("100 versions on disk / live bytes", ours_bytes, live_bytes, "bytes", 1.5)
    yield within("LangGraph's SqliteSaver / live bytes", theirs_bytes, live_bytes, "bytes", 1e9)

    def read_ours() -> float:
        with Relay(folder / "ours") as again:
            handle = again.thread(thread.id)
            return timed(lambda: list(handle.history()))

    def read_theirs() -> float:
        place: Any = {"configurable": {"thread_id": "one"}}
        return timed(lambda: list(saver.list(place)))

    ours, anchor = interleaved(read_ours, read_theirs)
    yield within("read all 100 versions / SqliteSaver.list", ours * 1e3, anchor * 1e3, "ms", 0.2)
    plain.close()


def _size(folder: Path, start: str = "relay.db") -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name.startswith(start))
