"""Exact: what has every word of a query as it is written, in one line or record of a body.

A question says what it knows of the answer: an id, a number, the name of a field. What has all of
these comes before what is like them by its stems.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise

from contextrelay.bounded.bodies import records_within_bounds
from contextrelay.content.grep.gathered import Wanted
from contextrelay.content.grep.results import find
from contextrelay.content.search.words import STOP_WORDS
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.core.inspect.slice import source_of
from contextrelay.core.stores import Stores
from contextrelay.errors import RelayError
from contextrelay.limits import (
    GREP_PATTERNS_MAX,
    GREP_RECORDS_BYTES_MAX,
    SEARCH_EXACT_MAX,
    SEARCH_EXACT_S_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.inspect import Hit, Match

_ENDS = re.compile(r"^[\s\"'(\[{<,.;:!?]+|[\s\"')\]}>,.;:!?]+$")
_NAME = re.compile(r"\d|_|[a-z][A-Z]|[./:@#-]\w")

_WORDS_FEW = 3
_PAIRS_MAX = 4
# Where a hit is, before what is shown of it.
_HEAD_TOKENS = 4


def exact_hits(
    stores: Stores, artifact: Artifact, query: str, tokens_max: int, score: float, is_any: bool
) -> list[Hit]:
    """The best places in a body that have all words of a query; none where there is no such.

    `is_any`: a single word is looked for too, because the index does not know all of the body.
    """
    wanted = _words(query, is_any)
    if not wanted:
        return []
    until_s = time.monotonic() + SEARCH_EXACT_S_MAX
    near = _pairs(query, wanted) if artifact.size_bytes <= GREP_RECORDS_BYTES_MAX else ()
    asked = Wanted(
        pattern=(*wanted, *near),
        is_fixed=True,
        ignore_case=True,
        matches_max=SEARCH_EXACT_MAX,
        tokens_max=max(1, tokens_max - _HEAD_TOKENS),
    )
    try:
        found = find(
            [source_of(stores, artifact)],
            asked,
            lambda: time.monotonic() > until_s,
            is_one=True,
            by_records=records_within_bounds,
        )
    except RelayError:
        return []
    return [
        _hit(artifact, match, wanted, score)
        for match in found.matches
        if all(word.lower() in match.text.lower() for word in wanted)
    ]


def _words(query: str, is_any: bool) -> tuple[str, ...]:
    """The words as they are written; none where only one is there that is no name or number,
    unless any will do."""
    words = [word for word in (_ENDS.sub("", word) for word in query.split()) if word]
    kept = [word for word in dict.fromkeys(words) if word.lower() not in STOP_WORDS]
    if len(kept) == 1 < len(words) <= _WORDS_FEW and not _NAME.search(kept[0]):
        kept = list(dict.fromkeys(words))  # Two common words say more than one.
    is_alone = len(kept) == 1 and not is_any and not _NAME.search(kept[0])
    if not 0 < len(kept) <= GREP_PATTERNS_MAX or is_alone:
        return ()
    return tuple(kept)


def _pairs(query: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Words that follow each other, as they are written: what has them so comes before others."""
    tokens = query.split()
    pairs = [
        f"{first} {second}"
        for first, second in pairwise(tokens)
        if any(word in first for word in words) and any(word in second for word in words)
    ]
    return tuple(dict.fromkeys(pairs))[: min(_PAIRS_MAX, GREP_PATTERNS_MAX - len(words))]


def _hit(artifact: Artifact, match: Match, words: tuple[str, ...], score: float) -> Hit:
    lines = f"{match.line}:{match.line + 1}"
    is_json = artifact.type == "json" and bool(match.pointer)
    return Hit(
        ref=artifact.ref,
        name=artifact.name,
        type=artifact.type,
        lines=lines,
        pointer=match.pointer if is_json else None,
        snippet=defuse(" ".join(match.text.split())).text,
        score=round(score, 3),
        created_at=artifact.created_at,
        why=words,
        next_args={"json_pointer": match.pointer} if is_json else {"lines": lines},
    )
