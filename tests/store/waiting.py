"""Free ports, and waiting for what sets no event."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

WAIT_S_MAX = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that sets no event."""
    deadline = time.monotonic() + WAIT_S_MAX
    never = threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, f"waited {WAIT_S_MAX} s in vain for {what}"
        never.wait(0.005)
