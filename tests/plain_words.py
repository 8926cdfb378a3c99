"""Plain words: where one that STYLE.md lists as banned is used."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

STYLE = Path(__file__).parents[1] / "STYLE.md"
# Files that list words of others: English ones, and those of attackers.
WORDS_OF_OTHERS = (
    "src/contextrelay/logic/search/words.py",
    "src/contextrelay/logic/untrusted/phrases.py",
)


def banned_words(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Lines and words: everything in src counts, in tests only names do."""
    if not _pattern().search(text):
        return
    if path.startswith("src/") and path.endswith(".py") and path not in WORDS_OF_OTHERS:
        texts = list(enumerate(text.splitlines(), 1))
    elif path.startswith("tests/") and path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        texts = [(each.start[0], each.string) for each in tokens if each.type == tokenize.NAME]
    else:
        return
    for line, each in texts:
        for word in _pattern().findall(each):
            yield line, word


@cache
def _pattern() -> re.Pattern[str]:
    """A word that is a whole string is the name of a field, and is not counted."""
    listed = re.findall(r"Banned: (.+?)\.\n", STYLE.read_text(), re.DOTALL)
    words = "|".join(re.split(r",\s+", listed[0])).replace(" ", "[ _]")
    return re.compile(rf"(?<![a-z])(?!(?<=\")\w+\")({words})(?![a-z])", re.IGNORECASE)
