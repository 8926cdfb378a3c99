"""bench on the command line."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_the_context_benchmark_measures_both_ways_and_draws_them(shell: Shell) -> None:
    """Promise U4, of packing: side by side, with plots."""
    text = shell.json(
        "bench", "context", "--sizes", "20,40", "--article-max", "20", "--out", "plots"
    )

    lines = text["lines"]
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
    assert (shell.home / "plots" / "context.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (shell.home / "plots" / "context.svg").read_bytes()


def test_sizes_that_are_none_are_refused(shell: Shell) -> None:
    code, error = shell.fails("bench", "context", "--sizes", "many")

    assert code == 2
    assert "write 100,1000" in error
