"""Measuring: ours and the anchor in turn, several times; medians, and their ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from msgspec import Struct

ROUNDS = 5


class Skipped(Exception):
    """A part that a benchmark needs is not there."""


class Result(Struct, frozen=True):
    """One comparison. `ratio` is as the target reads it."""

    name: str
    ours: float
    anchor: float
    unit: str
    ratio: float
    target: str
    is_met: bool


class Curve(Struct, frozen=True):
    """How a cost grows: one point a size."""

    name: str
    unit: str
    points: dict[str, float]
    target: str
    is_met: bool


def timed(act: Callable[[], object]) -> float:
    """Seconds that an act takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def each(act: Callable[[int], object], times: int) -> float:
    """The median of the microseconds that each of many acts takes."""
    taken: list[float] = []
    for index in range(times):
        start = time.perf_counter_ns()
        act(index)
        taken.append((time.perf_counter_ns() - start) / 1000)
    return statistics.median(taken)


def interleaved(ours: Callable[[], float], anchor: Callable[[], float]) -> tuple[float, float]:
    """Both in turn, ROUNDS times, so that a slow moment of the machine hits both; the medians."""
    pairs = [(ours(), anchor()) for _ in range(ROUNDS)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(
        pair[1] for pair in pairs
    )


def in_turn(
    ours: Callable[[int], object], anchor: Callable[[int], object], times: int
) -> tuple[float, float]:
    """Call by call, so that what else a machine does hits both; microseconds, lower quartiles."""
    taken: tuple[list[float], list[float]] = ([], [])
    for index in range(times):
        for act, times_us in zip((ours, anchor), taken, strict=True):
            start = time.perf_counter_ns()
            act(index)
            times_us.append((time.perf_counter_ns() - start) / 1_000)
    mine, theirs = (statistics.quantiles(each, n=4)[0] for each in taken)
    return mine, theirs


def faster(name: str, ours: float, anchor: float, unit: str, at_least: float) -> Result:
    """Times of which less is better; the ratio is our speed as a share of the anchor's."""
    ratio = anchor / ours
    return Result(name, ours, anchor, unit, ratio, f">= {at_least}", ratio >= at_least)


def within(name: str, ours: float, anchor: float, unit: str, at_most: float) -> Result:
    """Times of which less is better; the ratio is our time as a multiple of the anchor's."""
    ratio = ours / anchor
    return Result(name, ours, anchor, unit, ratio, f"<= {at_most}x", ratio <= at_most)


def flat(name: str, points: dict[str, float], unit: str, at_most: float) -> Curve:
    """A cost that must not grow: the last point against the first."""
    values = list(points.values())
    return Curve(name, unit, points, f"<= {at_most}x", values[-1] <= at_most * values[0])
