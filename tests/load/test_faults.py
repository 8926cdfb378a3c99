"""Faults: a server that is killed again and again, and one that is told to end, both under load."""

from __future__ import annotations

from pathlib import Path

from tests.load.killed import kill_server

ROUNDS = 20


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """Promise S4. Pushes, patches and signals are there, each once; clients go on by themselves."""
    clients = kill_server(tmp_path / "store", ROUNDS, seed=1)

    assert len(clients.bodies) > ROUNDS
    assert all(clients.facts.values())
