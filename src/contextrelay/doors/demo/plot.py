"""Plots: two sums that grow, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

ROWS = 6
COLUMNS_A_HOP = 2


def plot(pasted: Sequence[int], sent: Sequence[int]) -> list[str]:
    """Draw what was spent up to each hop: the upper line pasted, the lower one with refs."""
    upper, lower = list(accumulate(pasted)), list(accumulate(sent))
    top = max(upper[-1], 1)
    high = [_row(value, top) for value in upper for _ in range(COLUMNS_A_HOP)]
    low = [_row(value, top) for value in lower for _ in range(COLUMNS_A_HOP)]
    grid = [[" "] * len(high) for _ in range(ROWS + 1)]
    _draw(grid, high, "─╯╭│")
    _draw(grid, low, "━┛┏┃")
    lines: list[str] = []
    for row in range(ROWS, -1, -1):
        label = f"{top * row / ROWS / 1000:.0f}k" if row % (ROWS // 2) == 0 else ""
        axis = "┼" if row == 0 else "┤" if label else "│"
        lines.append(f"{label:>6} {axis}{''.join(grid[row]).rstrip()}")
    return lines


def _row(value: int, top: int) -> int:
    return round(value / top * ROWS)


def _draw(grid: list[list[str]], rows: list[int], signs: str) -> None:
    """A line that climbs: flat, the corner below, the corner above, and between them."""
    flat, below, above, between = signs
    last = rows[0]
    for column, row in enumerate(rows):
        if row == last:
            grid[row][column] = flat
        else:
            grid[last][column] = below
            grid[row][column] = above
            for passed in range(last + 1, row):
                grid[passed][column] = between
        last = row
