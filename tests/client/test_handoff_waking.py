"""The receiver of a handoff, in a process of its own, wakes the moment it is given."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from contextrelay import Relay
from tests.server.serving import serving

RECEIVER = """
import sys, time
from contextrelay import Relay
with Relay(sys.argv[1]) as relay:
    print("waiting", flush=True)
    heard = relay.wait("handoff/coder", after=0, timeout_s=30).signals[0]
    at = time.time()
    taken = relay.accept(heard.ref, by="coder")
    print(at, taken.ref, taken.sha256, flush=True)
"""
AT_ONCE_S = 2.0  # On a machine that is busy with other things; it is milliseconds on a quiet one.


@pytest.mark.parametrize("leg", ["a store on disk", "a server"])
def test_the_receiver_wakes_at_once_and_reads_the_same_bytes(leg: str, tmp_path: Path) -> None:
    """Promise K7: by channel, to another process."""
    store = tmp_path / "store"
    if leg == "a server":
        with serving(store) as served:
            wakes(served.url)
    else:
        Relay(store).close()
        wakes(str(store))


def wakes(place: str) -> None:
    receiver = subprocess.Popen(
        [sys.executable, "-c", RECEIVER, place], stdout=subprocess.PIPE, text=True
    )
    try:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "waiting\n"
        with Relay(place) as relay:
            thread = relay.new_thread("work", by="planner")
            given = thread.hand_off("coder", "go on", by="planner")
            at = time.time()
            heard_at, ref, sha256 = receiver.stdout.readline().split()
            assert (ref, sha256) == (given.ref, given.sha256)
            assert float(heard_at) - at < AT_ONCE_S
            assert [each.by for each in relay.handoff(ref).accepted] == ["coder"]
        assert receiver.wait(30) == 0
    finally:
        receiver.kill()
        receiver.communicate(timeout=30)
