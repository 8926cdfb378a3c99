"""Measuring: what a call takes of the processor and of memory, in a process of its own.

Rule: the process is killed by the system where a call runs away, so that whoever measures goes on.
Processor time and not the clock's: other work on the machine does not count.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

MIB = 1 << 20
# Where a call is ended, well above what it may take: to know by how much it is over.
ENDED_S = 20
ENDED_BYTES = 1_024 * MIB
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class Took(Struct, frozen=True):
    """What a call took: processor seconds, and bytes above what the process had before."""

    cpu_s: float
    memory_bytes: int


def measure(call: Callable[[], object], pids: Callable[[], list[int]] = list) -> Took:
    """Do a call and tell what it took, with what children took of the processor: those that it
    waited for, and those that `pids` names."""
    give_back()
    before_bytes = resident_bytes()
    _reset_peak()
    _end_after(ENDED_S)
    started = time.process_time() + _children_s(pids())
    call()
    cpu_s = time.process_time() + _children_s(pids()) - started
    return Took(cpu_s, max(0, peak_bytes() - before_bytes))


def _children_s(pids: list[int]) -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(_child_s, pids))


def _child_s(pid: int) -> float:
    """Processor time of a process that runs; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def give_back() -> None:
    """Return to the system what is free: else the next call would seem to take less."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def bound_memory() -> None:
    """Let this process have no more than ENDED_BYTES above what it has."""
    size_bytes = _field("VmSize")
    if size_bytes:
        most = size_bytes + ENDED_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def resident_bytes() -> int:
    return _field("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """The most that this process had since the last reset, or since it began."""
    return _field("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def _reset_peak() -> None:
    if _RESET.exists():
        _RESET.write_text("5")


def _end_after(seconds: int) -> None:
    """Have the system end this process after so much processor time from here on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _field(name: str) -> int:
    """A field of this process's status in bytes; 0 where the system tells none."""
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1_024
    return 0
