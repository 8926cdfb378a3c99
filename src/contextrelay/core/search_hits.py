"""Hits: the search results that are shown, and exact matches of all words.

A query often names parts of the answer: an id, a number, a field name. A line or record that has
all of these words as written comes before passages that only match their stems.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.bounded.bodies import records_within_bounds
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.content.search.words import STOP_WORDS, words
from contextrelay.content.slicing.source import fit_text
from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens, estimate_tokens
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.inspect import source_of
from contextrelay.core.search_index import Ranked, about
from contextrelay.core.stores import Stores
from contextrelay.errors import Broken, RelayError
from contextrelay.limits import GREP_PATTERNS_MAX, GREP_RECORDS_BYTES_MAX, SEARCH_SNIPPET_CHARS
from contextrelay.model.artifact import Artifact, from_ms
from contextrelay.model.inspect import Hit, Match
from contextrelay.model.tokens import Spent

# The maximum number of exact matches to look for in one body.
SEARCH_EXACT_MAX = 12
SEARCH_EXACT_S_MAX = 0.5


_LEFT_TOKENS_MIN = 40


class PassagePlace(Struct, frozen=True):
    """The position of a passage in a body; line and byte numbers start at 0."""

    start_line: int
    stop_line: int
    start_byte: int
    stop_byte: int
    pointer: str | None
    is_part: bool
    """Whether the passage is a part of one line.

    If so, the byte range is more precise than the lines.
    """

    @property
    def lines(self) -> str:
        """Return the line range in the form that a slice takes, for example 1:20."""
        return f"{self.start_line + 1}:{self.stop_line + 1}"

    def next_args(self) -> dict[str, str]:
        if self.pointer is not None:
            return {"json_pointer": self.pointer}
        if self.is_part:
            return {"bytes": f"{self.start_byte}:{self.stop_byte}"}
        return {"lines": self.lines}


class VisiblePassage(Struct, frozen=True):
    """A passage that may be shown to the caller."""

    ranked: Ranked
    artifact: Artifact
    newer: str | None
    """The ref of a newer artifact with the same name, or None."""
    score: float
    place: PassagePlace | None
    """The position of the passage; None if the passage is about the artifact itself."""
    words: tuple[str, ...]
    """The words of the query that are in this passage or the ones next to it."""


class HitList:
    """A list of hits, added one by one within a token limit."""

    def __init__(
        self, stores: Stores, stems: dict[str, str], tokens_max: int, is_one: bool = False
    ) -> None:
        self._is_one = is_one
        """Whether all hits are in the one requested ref."""
        self.hits: list[Hit] = []
        self.text = ""
        self.repeated = 0
        self.notes: list[str] = []
        self._stores = stores
        self._words = stems
        self._tokens = 0
        self._tokens_max = tokens_max
        self._shown: set[tuple[str, int]] = set()
        self._whole: dict[str, int] = {}
        self._noted: set[str] = set()

    def add(self, each: VisiblePassage) -> bool:
        """Add the hit for a passage; return False if the hit does not fit into the token limit."""
        artifact, text = each.artifact, each.ranked.text
        same = (artifact.sha256, each.ranked.number - text.start)
        if each.place is not None and same in self._shown:
            self.repeated += 1  # The same bytes were pushed twice; only the newest hit is shown.
            return True
        self._shown.add(same)
        if text.is_cut:
            self.note_cut(artifact.ref)
        return self.add_hit(self._hit(each), artifact)

    def note_cut(self, ref: str) -> None:
        """Add a note that only the first part of a ref is searched."""
        if ref not in self._noted:
            self._noted.add(ref)
            self.notes.append(
                f"{ref} is long: only its first part is searched; use grep for the rest"
            )

    def add_hit(self, hit: Hit, artifact: Artifact) -> bool:
        """Add a complete hit; return False if the hit does not fit into the token limit."""
        is_same_ref = self._is_one or (bool(self.hits) and self.hits[-1].ref == hit.ref)
        line = _line(hit, is_same_ref)
        tokens = count_tokens(line)
        left = self._tokens_max - self._tokens
        if tokens > left and (not self.hits or left >= _LEFT_TOKENS_MIN):
            # The best hit is always shown. Others are shortened to fit if much room is left.
            room = left - count_tokens(_line(replace(hit, snippet=""), is_same_ref))
            hit = replace(hit, snippet=fit_text(hit.snippet, max(1, room - 2)))
            line = _line(hit, is_same_ref)
            tokens = count_tokens(line)
        if self._tokens + tokens > self._tokens_max:
            self.notes.append(f"cut at {self._tokens_max} tokens: raise the limit for more")
            return False
        self._tokens += tokens
        self._whole[artifact.ref] = estimate_tokens(artifact.size_bytes)
        self.text += line
        self.hits.append(hit)
        return True

    @property
    def spent(self) -> Spent:
        return Spent(
            tokens=self._tokens,
            whole_tokens=sum(self._whole.values()),
            basis="estimated",
            tokenizer=TOKENIZER_DEFAULT,
        )

    def _hit(self, each: VisiblePassage) -> Hit:
        artifact, place = each.artifact, each.place
        return Hit(
            ref=artifact.ref,
            name=artifact.name,
            type=artifact.type,
            lines="" if place is None else place.lines,
            pointer=None if place is None else place.pointer,
            snippet=snippet_of(self._stores, each, self._words),
            score=round(each.score, 3),
            created_at=from_ms(each.ranked.text.created_ms),
            why=tuple(self._words[word] for word in each.words),
            newer=each.newer,
            next_args={} if place is None else place.next_args(),
        )


def snippet_of(stores: Stores, each: VisiblePassage, stems: dict[str, str]) -> str:
    """Return the text around the words of a query in a passage, as one safe line."""
    if each.place is None:
        text = about(each.artifact)
    else:
        text = _passage(stores, each.artifact, each.place)
    start = max(0, _first_of(text, stems) - SEARCH_SNIPPET_CHARS // 4)
    return defuse(" ".join(text[start : start + SEARCH_SNIPPET_CHARS].split())).text


def _passage(stores: Stores, artifact: Artifact, place: PassagePlace) -> str:
    with suppress(Broken):
        passage = read_body(stores, artifact, place.start_byte, place.stop_byte)
        return b"".join(passage).decode(errors="replace")
    return ""


def _first_of(text: str, stems: dict[str, str]) -> int:
    """Return the approximate index of the first word of a query in a text, or 0."""
    low = text.lower()
    found = [low.find(word[: max(3, len(stem) - 1)]) for stem, word in stems.items()]
    there = [start for start in found if start >= 0]
    if there or text.isascii():
        return min(there, default=0)
    # In other scripts a stem may not be a prefix of its word, so search line by line.
    start = 0
    for line in text.splitlines(keepends=True):
        if stems.keys() & set(words(line)):
            return start
        start += len(line)
    return 0


def _line(hit: Hit, is_same_ref: bool) -> str:
    """Return a hit as text: a line with its position, and the snippet below it."""
    at = hit.pointer or hit.lines
    text = f"  {at or 'about it'}: {hit.snippet}\n"
    if is_same_ref:
        return text
    name = f" {defuse(hit.name).text}" if hit.name else ""
    stale = f" (stale: newer {hit.newer})" if hit.newer else ""
    return f"{hit.ref}{name} {hit.created_at:%Y-%m-%d}{stale}\n{text}"


def left_out(found: int, shown: int, repeated: int) -> str:
    """Return a text that says how many results are not shown, and why."""
    parts: list[str] = []
    if found - shown - repeated > 0:
        parts.append(f"{found - shown - repeated:,} more passages with lower scores")
    if repeated:
        parts.append(f"{repeated:,} duplicate{'s' if repeated > 1 else ''}")
    return "; ".join(parts)


_ENDS = re.compile(r"^[\s\"'(\[{<,.;:!?]+|[\s\"')\]}>,.;:!?]+$")
_NAME = re.compile(r"\d|_|[a-z][A-Z]|[./:@#-]\w")

_WORDS_FEW = 3
_PAIRS_MAX = 4
# Tokens of the text before the snippet of a hit: its position.
_HEAD_TOKENS = 4


def exact_hits(
    stores: Stores, artifact: Artifact, query: str, tokens_max: int, score: float, is_any: bool
) -> list[Hit]:
    """Return the best places in a body that contain all words of a query.

    `is_any`: search also for a query of a single common word, because the index does not contain
    all of the body.
    """
    wanted = _words(query, is_any)
    if not wanted:
        return []
    until_s = time.monotonic() + SEARCH_EXACT_S_MAX
    near = _pairs(query, wanted) if artifact.size_bytes <= GREP_RECORDS_BYTES_MAX else ()
    asked = GrepQuery(
        pattern=(*wanted, *near),
        is_fixed=True,
        ignore_case=True,
        matches_max=SEARCH_EXACT_MAX,
        tokens_max=max(1, tokens_max - _HEAD_TOKENS),
    )
    try:
        found = grep_bodies(
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
    """Return the words of a query as written, without common words.

    A single word is returned only if it looks like a name or number, or if `is_any` is set.
    """
    words = [word for word in (_ENDS.sub("", word) for word in query.split()) if word]
    kept = [word for word in dict.fromkeys(words) if word.lower() not in STOP_WORDS]
    if len(kept) == 1 < len(words) <= _WORDS_FEW and not _NAME.search(kept[0]):
        kept = list(dict.fromkeys(words))  # Together, two common words are specific enough.
    is_alone = len(kept) == 1 and not is_any and not _NAME.search(kept[0])
    if not 0 < len(kept) <= GREP_PATTERNS_MAX or is_alone:
        return ()
    return tuple(kept)


def _pairs(query: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return pairs of consecutive words as written. Bodies that contain such pairs rank first."""
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
