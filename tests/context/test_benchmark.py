"""The benchmark of packing in bench/context."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.rigs import long_only, rig


@rig
@long_only
def test_the_context_benchmark_measures_both_ways_and_draws_them(tmp_path: Path) -> None:
    """Promise U4, of packing: side by side, with plots."""
    command = [sys.executable, "-m", "bench.context", "--json", "--sizes", "20,40"]
    command += ["--article-max", "20", "--out", str(tmp_path / "plots")]

    done = subprocess.run(command, capture_output=True, check=True, text=True)

    lines = json.loads(done.stdout)["lines"]
    assert [line["operation"] for line in lines[:6]] == [
        "add", "format", "prune", "relevance", "pack", "export",
    ]  # fmt: skip
    assert {line["blocks"] for line in lines} == {20, 40}
    assert all(line["mean_s"] > 0 and line["p95_s"] > 0 for line in lines)
    assert all(line["tokens_per_second"] > 0 for line in lines)
    small, large = lines[0], lines[6]
    assert small["ratio"] > 0
    assert large["article_mean_s"] is None
    assert "too long" in large["note"]
    assert (tmp_path / "plots" / "context.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "plots" / "context.svg").read_bytes()
