"""Slices in a store: no more is read than needed, and lines are found once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.client.transport.local import Local
from contextrelay.core.artifacts.bodies import body_log
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken
from contextrelay.store.blobs import Blobs
from contextrelay.store.engine import open_engine
from contextrelay.store.ledger import ONLY
from contextrelay.verbs import Push, Remove, Slice, Sweep, Verify
from tests.core.clock import Clock, local


@cache
def large() -> bytes:
    """10 MiB of lines of ten bytes."""
    return b"".join(b"%09d\n" % number for number in range(1, 1_048_577))


class Reading:
    """What is read of the blobs of an engine, counted."""

    def __init__(self, blobs: Blobs) -> None:
        self._read = blobs.read
        self.size_bytes = 0

    def __call__(self, *args: object) -> Iterator[bytes]:
        for chunk in self._read(*args):  # pyright: ignore[reportArgumentType]
            self.size_bytes += len(chunk)
            yield chunk

    def taken(self) -> int:
        """How much since the last time."""
        size_bytes, self.size_bytes = self.size_bytes, 0
        return size_bytes


def watched(folder: Path) -> tuple[Local, Reading]:
    engine = open_engine(str(folder))
    reading = Reading(engine.blobs)
    engine.blobs.read = reading  # pyright: ignore[reportAttributeAccessIssue]
    return Local(Stores(engine)), reading


def test_a_slice_of_a_large_body_does_not_read_it_all(tmp_path: Path) -> None:
    """Promise L2."""
    relay, reading = watched(tmp_path)
    ref = relay.ask(Push(), large()).ref
    reading.taken()

    assert (
        relay.ask(Slice(ref, bytes="6000000:6000010")).text == large()[6_000_000:6_000_010].decode()
    )
    assert reading.taken() == 10
    assert relay.ask(Slice(ref, lines="1:3")).text == "000000001\n000000002\n"
    assert reading.taken() <= 1 << 16
    assert relay.ask(Slice(ref, lines="800000:800002")).text == "000800000\n000800001\n"
    first = reading.taken()
    assert relay.ask(Slice(ref, lines="1048576:")).text == "001048576\n"
    again = reading.taken()

    assert first > len(large())
    assert again <= 1 << 17
    relay.close()


def test_where_lines_begin_is_kept_for_other_processes_and_goes_with_the_body(
    tmp_path: Path,
) -> None:
    clock = Clock()
    relay = local(clock, open_engine(str(tmp_path)))
    pushed = relay.ask(Push(), large()[:2_000_000])
    relay.ask(Slice(pushed.ref, lines="100000:100001"))
    relay.close()

    other, reading = watched(tmp_path)
    piece = other.ask(Slice(pushed.ref, lines="150000:150001"))
    row = other.stores.ledger.get(body_log(pushed.sha256), "lines", ONLY)

    assert piece.text == "000150000\n"
    assert reading.taken() < 600_000
    assert row is not None
    assert len(row) < 1_000
    assert other.ask(Verify()).problem_count == 0
    other.close()
    relay = local(clock, open_engine(str(tmp_path)))
    relay.ask(Remove(pushed.ref))
    clock.pass_ms(40 * 86_400_000)
    relay.ask(Sweep())
    relay.ask(Sweep())
    assert relay.stores.ledger.get(body_log(pushed.sha256), "lines", ONLY) is None
    relay.close()


def test_what_is_damaged_or_sealed_does_not_stop_a_grep_through_all(tmp_path: Path) -> None:
    """Promise L3: what was skipped is told."""
    relay = Relay(tmp_path)
    relay.push("a needle\n")
    sealed = relay.push("a needle, sealed", seal=True)
    binary = relay.push(os.urandom(5_000) + b"\0")
    damaged = relay.push("a needle in a haystack\n" * 10_000)
    (blob,) = (path for path in tmp_path.rglob(f"*{damaged.sha256}*") if path.is_file())
    blob.unlink()

    found = relay.grep("needle")

    assert found.count == 1
    assert found.is_complete
    assert {each.ref for each in found.skipped} == {sealed.ref, binary.ref, damaged.ref}
    assert any("cannot be read" in each.why for each in found.skipped)
    with pytest.raises(Broken):
        relay.grep("needle", damaged.ref)
    relay.close()
