"""Syncs of a folder: threads share one, but never one that began before their change."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contextrelay.store.durable_files import FolderSyncs
from tests.store.waiting import until

WAIT_S = 20


def test_threads_that_wait_share_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that runs already does not cover what was done since it began."""
    begun, may_end = threading.Semaphore(0), threading.Event()
    count = 0
    fsync = os.fsync

    def slow_fsync(handle: int) -> None:
        nonlocal count
        count += 1
        begun.release()
        may_end.wait(WAIT_S)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    syncs = FolderSyncs(tmp_path)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(syncs.sync)
        begun.acquire(timeout=WAIT_S)
        others = [pool.submit(syncs.sync) for _ in range(8)]
        until(lambda: all(each.running() for each in others), "the threads")

        assert not any(each.done() for each in (first, *others))
        may_end.set()
        for each in (first, *others):
            each.result(WAIT_S)

    assert 2 <= count < 9
