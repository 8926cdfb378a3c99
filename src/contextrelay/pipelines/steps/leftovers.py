"""Processes that a step leaves behind: found by its key in their environment, and ended.

What left its group, as a daemon does, is found so too. Only where processes show their
environment, as on Linux.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from contextrelay.limits import STEP_GRACE_S

KEY_VARIABLE = "RELAY_STEP_KEY"
_LOOK_S = 0.02


def end_leftovers(run: str) -> int:
    """End what is left of a run on this machine; how many processes that were."""
    return _end(f"\0{KEY_VARIABLE}={run}/".encode())


def end_step(step_key: str) -> int:
    """End what is left of a step, or of an item of one; how many processes that were."""
    return _end(f"\0{KEY_VARIABLE}={step_key}\0".encode())


def _end(mark: bytes) -> int:
    """End politely, and after a while by force, those whose environment has this mark."""
    found = marked = _marked(mark)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + STEP_GRACE_S
        for pid in marked:
            with suppress(OSError):
                os.killpg(os.getpgid(pid), number)
        while marked and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
            marked = _marked(mark)
    return len(found)


def _marked(mark: bytes) -> list[int]:
    own, found = os.getpgid(0), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid = int(folder.name)
            if mark in b"\0%b\0" % (folder / "environ").read_bytes() and os.getpgid(pid) != own:
                found.append(pid)
    return found
