"""See what is not answered: `python -m bench.quality.look [seen|held] [named|unnamed] [KIND...]`.

Only of the set that outlines are improved on what was missed is shown: the other is for judging.
"""

from __future__ import annotations

import sys

from bench.quality.look.files import KINDS, Which, collect
from bench.quality.look.judged import Judged, judge, total

SHOWN_MAX = 6


def main(words: list[str]) -> None:
    which: Which = "held" if "held" in words else "seen"
    files = collect(which)
    kinds = [kind for kind in KINDS if kind in words] or list(KINDS)
    files = [file for file in files if file.kind in kinds]
    judged = judge(files, is_named="unnamed" not in words)
    if which == "seen":
        for each in judged:
            _show(each)
    for kind, share in total(judged).items():
        figures = "  ".join(f"{name} {value:5}" for name, value in share.percent().items())
        print(f"{kind:11} {figures}  {share.files} files")


def _show(each: Judged) -> None:
    missed = {
        "outline": each.structural_missed,
        "grep": each.grep_missed,
        "search": each.search_missed,
    }
    if any(missed.values()):
        print(f"--- {each.file.kind} {each.file.name} ({each.tokens} tokens)")
    for way, facts in missed.items():
        for fact in facts[:SHOWN_MAX]:
            print(f"    {way}: {fact.about} {fact.answer!r} {' '.join(fact.cues)!r}"[:200])


if __name__ == "__main__":
    main(sys.argv[1:])
