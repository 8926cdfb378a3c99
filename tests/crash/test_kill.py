"""SIGKILL: whenever a writer dies, what was acknowledged stays true."""

from __future__ import annotations

import pytest

from tests.crash.killing import Tally, kill_rounds
from tests.rigs import BodyCount, Record, length, record_bodies, rig
from tests.store.engines import Servers, new_prefix

# Spread over the workers of a test run.
ROUNDS = length(thin=10, long=200, full=3_000)
SHARDS = length(thin=2, long=4, full=4)
BUCKET_ROUNDS = length(thin=3, long=20, full=300)


@rig
@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_acknowledged_is_lost_when_writers_are_killed(
    shard: int, record_property: Record
) -> None:
    """Promise G1. Bytes, removals, pins and leases survive; a sweep mends what is left over."""
    rounds = -(-ROUNDS // SHARDS)

    tally = kill_rounds(rounds, seed=shard)

    record(tally, "SQLite and files, writers killed", shard, record_property)
    assert tally.rounds == rounds
    assert tally.acknowledged > 5 * rounds, tally


@rig
def test_nothing_acknowledged_is_lost_when_writers_to_a_bucket_are_killed(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """Promise G1. The ledger is SQLite; large bodies are objects, some of them several."""
    monkeypatch.setenv("RELAY_BLOBS", servers.s3().url(new_prefix()))

    tally = kill_rounds(BUCKET_ROUNDS, seed=SHARDS)

    record(tally, "SQLite and S3, writers killed", SHARDS, record_property)
    assert tally.rounds == BUCKET_ROUNDS
    assert tally.acknowledged > 5 * BUCKET_ROUNDS, tally


def record(tally: Tally, engine: str, seed: int, record_property: Record) -> None:
    """Report the figures: a round that loses anything raises."""
    counts = {name: BodyCount(count, 0, None) for name, count in sorted(tally.bodies.items())}
    record_bodies(record_property, engine, seed, tally.kills, counts)
    record_property("rounds", tally.rounds)
    record_property("acknowledged", tally.acknowledged)
