"""Looks, judged on the set that nobody tuned on: shares of facts answered, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.measure import Curve
from bench.quality.look.files import Which, collect
from bench.quality.look.judged import judge, total

SHARE_MIN, KIND_MIN, TOKENS_MAX = 95, 90, 450
_SETS: tuple[Which, ...] = ("seen", "held")


def scenarios(folder: Path) -> Iterator[Curve]:
    for which in _SETS:
        files = collect(which)
        for is_named in (True, False):
            shares = total(judge(files, is_named))
            percents = {kind: share.percent() for kind, share in sorted(shares.items())}
            for asked in ("structural", "grep", "search", "tokens"):
                points = {kind: each[asked] for kind, each in percents.items()}
                yield _curve(asked, f"{which}, {'named' if is_named else 'unnamed'}", points)


def _curve(asked: str, which: str, points: dict[str, float]) -> Curve:
    if asked == "tokens":
        is_met = points["all"] <= TOKENS_MAX
        return Curve(
            f"tokens of an outline ({which})", "tokens", points, f"<= {TOKENS_MAX}", is_met
        )
    is_met = points["all"] >= SHARE_MIN and min(points.values()) >= KIND_MIN
    name = f"{asked} facts answered ({which})"
    return Curve(name, "%", points, f">= {SHARE_MIN}, none under {KIND_MIN}", is_met)
