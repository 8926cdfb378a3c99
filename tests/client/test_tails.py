"""Tails: events as they come, from other processes too, without holding up anything else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from contextrelay import AsyncRelay, Relay

PATCH = """
import sys
from contextrelay import Relay
with Relay(sys.argv[1]) as relay:
    relay.thread(sys.argv[2]).add_event("message.received", {"text": "hello"})
"""


def test_a_tail_hears_of_another_process(tmp_path: Path) -> None:
    """Promise T8: `relay tail`."""
    with Relay(tmp_path / "store") as relay:
        thread = relay.new_thread()
        events = thread.tail(after=2, timeout_s=30)
        words = [sys.executable, "-c", PATCH, str(tmp_path / "store"), thread.id]
        with subprocess.Popen(words):
            assert next(events).event.detail == {"text": "hello"}


def test_many_idle_tails_hold_up_nothing_and_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> bytes:
        async with AsyncRelay(tmp_path / "store") as relay:
            thread = await relay.new_thread()

            async def follow() -> None:
                async for _ in thread.tail(after=2):
                    pass

            tails = [asyncio.create_task(follow()) for _ in range(64)]
            await asyncio.sleep(0)
            ref = (await relay.push("through")).ref
            body = await relay.pull(ref)
            for tail in tails:
                tail.cancel()
            await asyncio.gather(*tails, return_exceptions=True)
            return body

    assert asyncio.run(asyncio.wait_for(main(), 20)) == b"through"
