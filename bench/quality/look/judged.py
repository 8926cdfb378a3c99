"""Judging: which facts are answered by what a reader is shown, through the product itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from bench.quality.look.facts import Fact, details, structural
from bench.quality.look.files import File
from contextrelay import Relay
from contextrelay.errors import RelayError

OUTLINE_TOKENS, PIECE_TOKENS = 500, 150


class Judged(Struct, frozen=True):
    """How one file did."""

    file: File
    tokens: int
    structural_asked: int
    details_asked: int
    structural_missed: list[Fact]
    grep_missed: list[Fact]
    search_missed: list[Fact]


class Share(Struct):
    """Facts answered, of those asked."""

    files: int = 0
    tokens: int = 0
    structural_asked: int = 0
    structural: int = 0
    details_asked: int = 0
    grep: int = 0
    search: int = 0

    def add(self, each: Judged) -> None:
        self.files += 1
        self.tokens += each.tokens
        self.structural_asked += each.structural_asked
        self.structural += each.structural_asked - len(each.structural_missed)
        self.details_asked += each.details_asked
        self.grep += each.details_asked - len(each.grep_missed)
        self.search += each.details_asked - len(each.search_missed)

    def percent(self) -> dict[str, float]:
        """By what was asked, in percent; the tokens of an outline on average."""
        asked, single = max(1, self.structural_asked), max(1, self.details_asked)
        return {
            "structural": round(100 * self.structural / asked, 1),
            "grep": round(100 * self.grep / single, 1),
            "search": round(100 * self.search / single, 1),
            "tokens": round(self.tokens / max(1, self.files)),
        }


def judge(files: Sequence[File], is_named: bool) -> list[Judged]:
    """Ask everything; the facts are drawn before anything is shown."""
    drawn = [(file, structural(file), details(file)) for file in files]
    relay = Relay("memory:")
    try:
        return [_judged(relay, *each, is_named) for each in drawn]
    finally:
        relay.close()


def _judged(
    relay: Relay, file: File, built: list[Fact], single: list[Fact], is_named: bool
) -> Judged:
    ref = relay.push(file.text, name=file.name if is_named else None).ref
    shape = relay.outline(ref, tokens_max=OUTLINE_TOKENS)
    return Judged(
        file,
        shape.spent.tokens,
        len(built),
        len(single),
        [fact for fact in built if not holds(shape.text, fact)],
        [fact for fact in single if not holds(_grep(relay, ref, fact), fact)],
        [fact for fact in single if not holds(_search(relay, ref, fact), fact)],
    )


def _grep(relay: Relay, ref: str, fact: Fact) -> str:
    try:
        return relay.grep(fact.cues, ref, is_fixed=True, tokens_max=PIECE_TOKENS).text
    except RelayError:
        return ""


def _search(relay: Relay, ref: str, fact: Fact) -> str:
    try:
        return relay.search(" ".join(fact.cues), ref=ref, tokens_max=PIECE_TOKENS).text
    except RelayError:
        return ""


_DIGITS = re.compile(r"\d+")


def holds(shown: str, fact: Fact) -> bool:
    """Whether an answer stands in a text, as a whole word, blanks apart.

    Lines of trouble that differ in a number are of one kind: there digits are as good as others.
    """
    text, answer = " ".join(shown.split()), " ".join(fact.answer.split())
    if fact.about.startswith("the end of a line"):
        return _DIGITS.sub("#", answer) in _DIGITS.sub("#", text)
    first = r"(?<!\w)" if answer[:1].isalnum() else ""
    last = r"(?!\w)" if answer[-1:].isalnum() else ""
    pattern = first + re.escape(answer) + last
    return re.search(pattern, text) is not None or (
        answer.isdecimal() and f"{int(answer):,}" in text
    )


def total(judged: Sequence[Judged]) -> dict[str, Share]:
    """Shares by kind, and over all."""
    shares: dict[str, Share] = {}
    for each in judged:
        for kind in (each.file.kind, "all"):
            shares.setdefault(kind, Share()).add(each)
    return shares
