"""Previews, judged on the set that nobody tuned on: shares of facts answered by 500 tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.measure import Curve, Result
from bench.quality.preview.files import collect
from bench.quality.preview.judged import TOKENS_MAX, judge, total
from bench.quality.preview.languages import shares as by_language

STRUCTURAL_MIN, DETAIL_MIN = 90, 93


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    judged = judge(collect("held", folder))
    shares = {way: kinds["all"] for way, kinds in total(judged).items()}
    outline = shares.pop("outline")
    longest = max(each.tokens for each in judged if each.way == "outline")
    for other, share in shares.items():
        yield _share("structural", other, outline.structural_share, share.structural_share)
        yield _share("detail after a grep", other, outline.detail_share, share.detail_share)
        yield Result(
            f"tokens shown: outline / {other}",
            outline.tokens / outline.files,
            share.tokens / share.files,
            "tokens",
            outline.tokens / share.tokens,
            f"<= {TOKENS_MAX} at the most",
            longest <= TOKENS_MAX,
        )
    found = {language: lines for language, _, lines in by_language(folder)}
    by_lines = {language: share.structural_share for language, share in found.items()}
    yield Curve("structural facts of code, by its lines alone", "%", by_lines, "", True)


def _share(which: str, other: str, ours: float, anchor: float) -> Result:
    least = STRUCTURAL_MIN if which == "structural" else DETAIL_MIN
    name = f"{which} facts answered: outline / {other}"
    return Result(name, ours, anchor, "%", ours / max(anchor, 1), f">= {least} %", ours >= least)
