"""A full disk and a read-only one: a clear error, reads and removals go on, nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextrelay import Full, Gone, Relay, RelayError
from contextrelay.client.transport.local import Local
from contextrelay.core.answer import answer
from contextrelay.core.stores import Stores, clock_ms
from contextrelay.store.blobs.memory import MemoryBlobs
from contextrelay.store.durable_files import Reserve
from contextrelay.store.engine import Engine
from contextrelay.store.ledger import Write
from contextrelay.store.ledger.memory import MemoryLedger
from contextrelay.verbs import Sweep
from tests.crash.killing import check_blobs
from tests.crash.small_disk import fill_with_junk, make_read_only
from tests.crash.small_disk import small_disk as small_disk_at

# Large enough for the reserve to be set aside (it wants four times its 4 MiB), and soon full.
DISK_BYTES = 24 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


def fill_with_pushes(relay: Relay) -> tuple[dict[str, bytes], list[Full]]:
    """Push until nothing more goes in, not even a byte: what went in, and the refusals."""
    kept: dict[str, bytes] = {}
    refusals: list[Full] = []
    for size_bytes in (200_000, 30_000, 1_000, 1):
        while len(kept) < 10_000:
            body = os.urandom(size_bytes)
            try:
                kept[relay.push(body, ttl_s=None).ref] = body
            except Full as full:
                refusals.append(full)
                break
    return kept, refusals


def check_all_is_there(relay: Relay, kept: dict[str, bytes]) -> None:
    assert {ref: relay.pull(ref) for ref in kept} == kept
    assert kept.keys() == {artifact.ref for artifact in relay.list(limit=1_000).artifacts}
    assert relay.verify().problems == []


def test_a_full_disk_refuses_pushes_and_still_reads_and_removes(small_disk: Path) -> None:
    """Promise G1. The reserve gives removals the room they need."""
    store = small_disk / "store"
    with Relay(store) as relay:
        relay.sweep()  # Sets the reserve aside.
        kept, refusals = fill_with_pushes(relay)
        fill_with_junk(small_disk)

        assert all(refusal.hint and str(store) in refusal.local_message for refusal in refusals)
        assert len(refusals) == 4
        check_all_is_there(relay, kept)
        check_blobs(relay.transport.stores)

        for ref in list(kept)[:3]:
            relay.remove(ref)
            del kept[ref]
            with pytest.raises(Gone):
                relay.peek(ref)
        assert relay.sweep().is_done

        body = os.urandom(100_000)
        kept[relay.push(body, ttl_s=None).ref] = body
        check_all_is_there(relay, kept)
        check_blobs(relay.transport.stores)


def test_removals_work_on_a_full_disk_though_no_sweep_was_ever_done(small_disk: Path) -> None:
    """Who never swept has filled the disk the soonest, and needs the reserve most."""
    with Relay(small_disk / "store") as relay:
        kept, _ = fill_with_pushes(relay)
        fill_with_junk(small_disk)

        for ref in list(kept)[:3]:
            relay.remove(ref)
            del kept[ref]

        check_all_is_there(relay, kept)


def test_a_sweep_on_a_full_disk_frees_what_expired(small_disk: Path) -> None:
    """Promise R6."""
    with Relay(small_disk / "store") as relay:
        relay.sweep()
        soon_over = [relay.push(os.urandom(50_000), ttl_s=1).ref for _ in range(5)]
        kept, _ = fill_with_pushes(relay)
        fill_with_junk(small_disk)

        expired = sweep_later(relay, clock_ms() + 5_000)

        assert expired == len(soon_over)
        check_all_is_there(relay, kept)
        relay.push(os.urandom(20_000))


def sweep_later(relay: Relay, now_ms: int) -> int:
    """Sweep as of a later moment; how many artifacts expired by that."""
    stores = relay.transport.stores
    later = Stores(stores.engine, stores.settings, now_ms=lambda: now_ms)
    return answer(later, Sweep()).expired


# At which write of a verb the disk is found full is chance on a real one; here it is each in turn.

WRITES_MAX = 12


class FullLedger(MemoryLedger):
    """A ledger whose disk is full from a certain commit on, until the reserve is given up."""

    def __init__(self, reserve: Path) -> None:
        super().__init__()
        self._reserve = reserve
        self.commits_left = 1_000_000

    def commit(self, *writes: Write, id: bytes = b"") -> list[int]:
        if writes:
            self.commits_left -= 1
        if self.commits_left < 0 and self._reserve.exists():
            raise Full("no room", "free some")
        return super().commit(*writes, id=id)


def nearly_full(folder: Path) -> tuple[Relay, FullLedger]:
    reserve = folder / "reserve"
    reserve.write_bytes(bytes(1_000))
    ledger = FullLedger(reserve)
    relay = Relay("memory:")
    relay.transport = Local(Stores(Engine("test", ledger, MemoryBlobs(), Reserve(reserve))))
    return relay, ledger


@pytest.mark.parametrize("writes", range(WRITES_MAX))
def test_a_removal_succeeds_at_whichever_write_the_disk_is_full(
    tmp_path: Path, writes: int
) -> None:
    """The first go may have got half way: the second must not take its work for another's."""
    relay, ledger = nearly_full(tmp_path)
    ref = relay.push(bytes(50_000)).ref
    ledger.commits_left = writes

    removed = relay.remove(ref)

    assert removed.ref == ref
    with pytest.raises(Gone):
        relay.peek(ref)
    relay.sweep()
    assert list(relay.transport.stores.blobs.walk()) == []
    assert relay.verify().problems == []


@pytest.mark.parametrize("writes", range(WRITES_MAX))
def test_a_sweep_succeeds_at_whichever_write_the_disk_is_full(tmp_path: Path, writes: int) -> None:
    """Promise R6. It frees room: of all verbs it must not fail for want of it."""
    relay, ledger = nearly_full(tmp_path)
    relay.push(bytes(50_000), ttl_s=1)
    ledger.commits_left = writes

    sweep_later(relay, clock_ms() + 5_000)

    assert list(relay.transport.stores.blobs.walk()) == []
    assert relay.verify().problems == []


def test_a_removal_on_a_full_disk_is_not_answered_as_gone(small_disk: Path) -> None:
    """The disk may be full in the middle of a removal: the second go must know of the first."""
    store = small_disk / "store"
    with Relay(store) as relay:
        relay.sweep()
        kept, _ = fill_with_pushes(relay)
    fill_with_junk(small_disk)
    with Relay(store) as relay:
        first = next(iter(kept))

        removed = relay.remove(first)

        assert removed.ref == first
        del kept[first]
        check_all_is_there(relay, kept)


def test_a_store_can_be_opened_and_cleared_after_the_disk_got_full(small_disk: Path) -> None:
    """Every command opens the store anew: a reserve that only helps an open one helps no one."""
    store = small_disk / "store"
    with Relay(store) as relay:
        relay.sweep()
        large, small = os.urandom(200_000), b"a few bytes"
        kept = {relay.push(body, ttl_s=None).ref: body for body in (large, small)}
    fill_with_junk(small_disk)

    with Relay(store) as relay:
        check_all_is_there(relay, kept)
        relay.remove(next(iter(kept)))
        relay.push(b"more")


def test_a_backup_to_a_full_disk_is_refused_and_leaves_nothing(
    small_disk: Path, tmp_path: Path
) -> None:
    with Relay(tmp_path / "store") as relay:
        relay.push(os.urandom(200_000))
        fill_with_junk(small_disk)

        with pytest.raises(RelayError) as refused:
            relay.backup(small_disk / "backup.tar")

        assert refused.value.hint
        assert [path.name for path in small_disk.iterdir()] == ["junk"]


def test_a_new_store_on_a_read_only_disk_is_named_with_the_next_step(small_disk: Path) -> None:
    make_read_only(small_disk)

    with pytest.raises(Full, match="cannot be written") as refused:
        Relay(small_disk / "another")

    assert str(small_disk / "another") in refused.value.local_message
    assert "RELAY_HOME" in refused.value.hint


def test_a_backup_to_a_read_only_disk_is_a_clear_error(small_disk: Path) -> None:
    make_read_only(small_disk)
    with Relay("memory:") as relay, pytest.raises(RelayError) as refused:
        relay.backup(small_disk / "backup.tar")

    assert refused.value.hint
