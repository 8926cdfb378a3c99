"""The model of a disk: what it keeps, what it may lose, and what it refuses to judge."""

from __future__ import annotations

from random import Random

import pytest

from tests.crash.disk import (
    EVERYTHING,
    NOTHING,
    Call,
    Closed,
    Disk,
    Fate,
    MadeFolder,
    Opened,
    Removed,
    Renamed,
    Resized,
    Synced,
    Wrote,
)

SECTOR = 512


def after(*calls: Call) -> Disk:
    disk = Disk("/root-of-it")
    for call in calls:
        disk.apply(call)
    return disk


def files(disk: Disk, fate: Fate) -> dict[str, bytes]:
    return {path: bytes(content) for path, content in disk.after_power_loss(fate).files.items()}


ROOT = Opened(9, "/root-of-it")
MADE = Opened(3, "/root-of-it/a", makes=True)


def test_a_name_is_kept_by_syncing_its_folder_and_content_by_syncing_the_file() -> None:
    assert files(after(MADE, Wrote(3, b"x"), Synced(3)), NOTHING) == {}
    assert files(after(ROOT, MADE, Wrote(3, b"x"), Synced(9)), NOTHING) == {"a": b""}
    assert files(after(ROOT, MADE, Wrote(3, b"x"), Synced(3), Synced(9)), NOTHING) == {"a": b"x"}
    assert files(after(MADE, Wrote(3, b"x")), EVERYTHING) == {"a": b"x"}


def test_a_rename_is_on_both_sides_or_on_none() -> None:
    made = ROOT, MADE, Wrote(3, b"new"), Synced(3), Closed(3), Synced(9)
    old = Opened(4, "/root-of-it/b", makes=True), Wrote(4, b"old"), Synced(4), Synced(9)
    disk = after(*made, *old, Renamed("/root-of-it/a", "/root-of-it/b"))

    assert files(disk, NOTHING) == {"a": b"new", "b": b"old"}
    assert files(disk, EVERYTHING) == {"b": b"new"}


def test_syncing_the_folder_that_something_was_moved_to_keeps_what_that_rests_on() -> None:
    disk = after(
        ROOT,
        MadeFolder("/root-of-it/to"),
        Synced(9),
        MADE,
        Wrote(3, b"x"),
        Synced(3),
        Renamed("/root-of-it/a", "/root-of-it/to/a"),
        Opened(5, "/root-of-it/to"),
        Synced(5),
    )

    assert files(disk, NOTHING) == {"to/a": b"x"}


def test_a_file_in_a_folder_whose_own_name_is_not_synced_is_lost_with_it() -> None:
    folder = MadeFolder("/root-of-it/f"), Opened(4, "/root-of-it/f")
    disk = after(*folder, Opened(5, "/root-of-it/f/a", makes=True), Synced(5), Synced(4))

    assert disk.after_power_loss(NOTHING).folders == []
    assert files(disk, EVERYTHING) == {"f/a": b""}


def test_a_removal_that_is_not_synced_may_come_back() -> None:
    disk = after(ROOT, MADE, Wrote(3, b"x"), Synced(3), Synced(9), Removed("/root-of-it/a"))

    assert files(disk, NOTHING) == {"a": b"x"}
    assert files(disk, EVERYTHING) == {}


def test_writes_are_torn_at_sectors_and_nowhere_else() -> None:
    disk = after(ROOT, MADE, Synced(9), Wrote(3, b"x" * 3 * SECTOR, offset=100))
    seen = {files(disk, Fate(Random(seed), 0.0, torn=1.0))["a"] for seed in range(200)}

    assert len(seen) > 4
    for content in seen:
        sectors = [content[at : at + SECTOR].strip(b"\0") for at in range(0, len(content), SECTOR)]
        whole = [412, 512, 512, 100]
        assert all(len(s) in (0, size) for s, size in zip(sectors, whole, strict=False))


def test_sizes_are_pending_as_content_is() -> None:
    disk = after(ROOT, MADE, Wrote(3, b"abcdef"), Synced(3), Synced(9), Resized(3, 2))

    assert files(disk, NOTHING) == {"a": b"abcdef"}
    assert files(disk, EVERYTHING) == {"a": b"ab"}
    assert files(after(MADE, Resized(3, 4, is_growth=True)), EVERYTHING) == {"a": bytes(4)}


def test_what_is_elsewhere_is_left_alone_and_what_is_unknown_is_refused() -> None:
    disk = Disk("/root-of-it")

    assert not disk.apply(Opened(3, "/elsewhere/a", makes=True))
    assert not disk.apply(Wrote(3, b"x"))
    with pytest.raises(AssertionError):
        disk.apply(Opened(3, "/root-of-it/never-made"))
    with pytest.raises(AssertionError):
        after(MADE).apply(Renamed("/root-of-it/a", "/elsewhere/a"))
