"""Together: eight processes write at once; nothing is lost, and no reader sees half a file."""

from __future__ import annotations

from pathlib import Path

from tests.project.together import check, together
from tests.rigs import length, rig


@rig
def test_eight_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Promise J5, promise J2, promise J3."""
    seen = together(tmp_path, seconds=length(thin=2, long=10, full=60), writers=8)

    check(seen)
    assert len(seen.todos) >= 8
    assert seen.looks > 10
