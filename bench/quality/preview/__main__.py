"""Look at the questions that an outline does not answer: `python -m bench.quality.preview`.

Only of the set that outlines are improved on: the other is for judging.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.quality.preview.files import collect
from bench.quality.preview.judged import judge, total
from bench.quality.preview.languages import shares

if __name__ == "__main__":
    which = "held" if "held" in sys.argv else "dev"
    with tempfile.TemporaryDirectory() as folder:
        if "languages" in sys.argv:
            for language, ours, lines in shares(Path(folder)):
                print(f"{language:11} outline  {ours.summary()}")
                print(f"{'':11} by lines {lines.summary()}")
            sys.exit()
        judged = judge(collect(which, Path(folder)))
    for way, kinds in total(judged).items():
        for kind, share in kinds.items():
            print(f"{way:12} {kind:9} {share.summary()}")
    if which == "dev":
        for each in judged:
            if each.way == "outline" and each.missed:
                print(f"--- {each.file.kind} {each.file.name} ({each.tokens} tokens)")
                for fact in each.missed:
                    print(f"    {fact.about}: {fact.answer!r} cue {fact.cue!r}")
