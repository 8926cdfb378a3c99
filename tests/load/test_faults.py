"""Faults: a server that is killed again and again, and one asked to end, both under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.load.killed import kill_server
from tests.rigs import length, rig

ROUNDS = length(thin=3, long=20, full=200)


@rig
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Promise S4. Pushes, patches and signals are there, each once; clients go on by themselves."""
    clients = kill_server(tmp_path / "store", ROUNDS, seed=1)

    record_property("kills", ROUNDS)
    record_property("acknowledged pushes", len(clients.bodies))
    assert len(clients.bodies) > ROUNDS
    assert all(clients.facts.values())
