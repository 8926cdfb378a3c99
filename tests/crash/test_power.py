"""Power loss: what was acknowledged is on the disk, whatever part of the rest is.

The rig is recording.py (a real writer under strace) and disk.py (which disks may be left of it).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.crash.power import losses_in, points_in, shoot
from tests.crash.recorded import UNSAFE_KINDS
from tests.parts import has_command, needs
from tests.rigs import length, rig, some

SHARDS = length(thin=2, long=4, full=40)
POINTS_A_SHARD = length(thin=30, long=250, full=250)
POINTS_UNSAFE = 60


@pytest.fixture(autouse=True)
def has_strace() -> None:
    needs("strace", has_command("strace"))


@rig
@pytest.mark.parametrize("seed", range(SHARDS))
def test_nothing_acknowledged_is_lost_when_the_power_goes(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise G1. Each shard stops a recording of its own at many points."""
    film = shoot(seed)
    chance = Random(seed)

    points = points_in(film, POINTS_A_SHARD, chance)
    record_property("points", len(points))

    losses = list(losses_in(film, points, chance))

    assert losses == []


@rig
@pytest.mark.parametrize("kind", some(UNSAFE_KINDS, 1))
def test_the_rig_notices_a_writer_that_does_not_sync(kind: str) -> None:
    """A rig that finds nothing in a broken store would prove nothing about ours."""
    film = shoot(1, kind)
    chance = Random(1)

    losses = losses_in(film, points_in(film, POINTS_UNSAFE, chance), chance)

    assert next(losses, None), f"{kind}: nothing lost at {POINTS_UNSAFE} points"
