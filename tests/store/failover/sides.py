"""Two networks with one cable between them, which can be cut: what is sent then is swallowed.

Each side is a network namespace that a thread of this process has for itself, and with it every
thread and every process that is begun there. It ends with the last of them; nothing of the machine
is touched. It takes root, and `ip` of iproute2.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests.parts import has_command, needs
from tests.store.waiting import WAIT_S_MAX

Answer = TypeVar("Answer")

CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:99"
"""A place on the cable where nobody is."""


class Side:
    """One network. What `do` is given runs there."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._thread = ThreadPoolExecutor(1, "side")

    def do(self, act: Callable[..., Answer], *args: Any) -> Answer:
        return self._thread.submit(act, *args).result(WAIT_S_MAX)

    def begin(self, act: Callable[[], None]) -> threading.Thread:
        """A thread there; it fails alone, so it has to report by itself."""
        thread = threading.Thread(target=act, daemon=True)
        self.do(thread.start)
        return thread

    def ip(self, *words: str) -> None:
        self.do(_ip, *words)

    def end(self) -> None:
        self._thread.shutdown(wait=True)


class Cable:
    """Two sides, and what is between them."""

    def __init__(self) -> None:
        needs("ip", has_command("ip"))
        self.left, self.right = Side("10.99.0.1"), Side("10.99.0.2")
        try:
            needs("ip", all(side.do(_leave) for side in (self.left, self.right)))
            tid = self.right.do(threading.get_native_id)
            self.left.ip("link", "add", "cable", "type", "veth", "peer", "cable", "netns", str(tid))
            for side in (self.left, self.right):
                side.ip("address", "add", f"{side.host}/30", "dev", "cable")
                side.ip("link", "set", "lo", "up")
                side.ip("link", "set", "cable", "up")
        except BaseException:
            self.end()
            raise

    def cut(self) -> None:
        """Swallow all that either side sends to the other; neither hears that it did not arrive."""
        for side, other in ((self.left, self.right), (self.right, self.left)):
            words = ("lladdr", NOBODY, "nud", "permanent", "dev", "cable")
            side.ip("neighbour", "replace", other.host, *words)

    def join(self) -> None:
        for side, other in ((self.left, self.right), (self.right, self.left)):
            side.ip("neighbour", "del", other.host, "dev", "cable")

    def end(self) -> None:
        self.left.end()
        self.right.end()


def _leave() -> bool:
    """Give this thread a network of its own; False where that is not allowed."""
    if os.geteuid() != 0:
        return False
    return ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
