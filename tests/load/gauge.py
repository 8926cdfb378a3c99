"""Gauges: what the processes of a server hold, sampled while it is under load."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

_MEMORY = re.compile(r"RssAnon:\s*(\d+) kB")


class Sample(Struct, frozen=True):
    """All processes of the servers at one moment."""

    at_s: float
    memory_bytes: int
    """Their own, without files that are mapped: those the system takes back when it needs to."""
    files: int


def sample(servers: Sequence[int], at_s: float) -> Sample:
    """Servers, by the processes that started them."""
    pids = [each for pid in servers for each in (pid, *children(pid))]
    memory_bytes = sum(1024 * int(_MEMORY.findall(_proc(each, "status"))[0]) for each in pids)
    files = sum(len(os.listdir(f"/proc/{each}/fd")) for each in pids)
    return Sample(at_s, memory_bytes, files)


def children(pid: int) -> list[int]:
    return [int(each) for each in _proc(pid, f"task/{pid}/children").split()]


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def growth(samples: list[Sample]) -> float:
    """Bytes of memory a second: the slope of the line that lies nearest to the samples."""
    count = len(samples)
    at_s = sum(each.at_s for each in samples) / count
    held = sum(each.memory_bytes for each in samples) / count
    above = sum((each.at_s - at_s) * (each.memory_bytes - held) for each in samples)
    below = sum((each.at_s - at_s) ** 2 for each in samples)
    return above / below
