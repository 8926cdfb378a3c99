"""Judging: which facts are answered by what a reader is shown, without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from bench.quality.preview.facts import Fact, details, structural
from bench.quality.preview.files import File
from contextrelay.limits import GREP_MATCHES_DEFAULT, PIECE_TOKENS_DEFAULT
from contextrelay.logic.content.artifact_type import artifact_type
from contextrelay.logic.content.description import Description
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline import outline
from contextrelay.logic.outline.code.by_line import LANGUAGES, by_lines
from contextrelay.logic.outline.code.symbols import drawn
from contextrelay.logic.outline.layout import fit
from contextrelay.logic.tokens import count_tokens, cut_to_tokens
from contextrelay.model.artifact import ArtifactType

TOKENS_MAX = 500
HEAD_BYTES = 2_048
FOLD_CHARS = 120


class Judged(Struct, frozen=True):
    """How one way of showing one file did."""

    way: str
    file: File
    tokens: int
    structural: tuple[int, int]
    details: tuple[int, int]
    missed: list[Fact]
    grep_tokens: int
    """Of all searches for its details."""


class Share(Struct):
    """Facts answered, of those asked."""

    structural: int = 0
    structural_asked: int = 0
    details: int = 0
    details_asked: int = 0
    tokens: int = 0
    grep_tokens: int = 0
    files: int = 0

    def summary(self) -> str:
        return (
            f"structural {self.structural_share:5.1f} % of {self.structural_asked:3}"
            f"  detail {self.detail_share:5.1f} % of {self.details_asked:3}"
            f"  {self.tokens / max(1, self.files):4.0f} tokens"
            f" + {self.grep_tokens / max(1, self.details_asked):4.0f} a grep  {self.files} files"
        )

    @property
    def structural_share(self) -> float:
        return 100 * self.structural / max(1, self.structural_asked)

    @property
    def detail_share(self) -> float:
        return 100 * self.details / max(1, self.details_asked)


def by_outline(file: File) -> str:
    """The outline that a reader of the product gets, the type found out as at a push."""
    source, kind = _source(file)
    return outline(source, kind, TOKENS_MAX).text


def by_lines_alone(file: File) -> str:
    """The outline of code where no parser is installed for its language."""
    source, _ = _source(file)
    language = LANGUAGES.get(source.media_type, "code")
    return fit(drawn(source, language, *by_lines(source, language)), TOKENS_MAX).text


def _source(file: File) -> tuple[Source, ArtifactType]:
    seen = Description()
    seen.feed(file.body)
    kind, media_type = artifact_type(file.name, None, seen.head, seen.is_text)
    return Source.of(file.body, media_type, file.name, len(file.body)), kind


def by_head(file: File) -> str:
    """The first 2 KB, whatever they cost."""
    return file.body[:HEAD_BYTES].decode("utf-8", "replace")


def by_head_and_tail(file: File) -> str:
    """The first and the last 250 tokens."""
    text = file.text
    head = cut_to_tokens(text, TOKENS_MAX // 2)
    tail = text[-4 * TOKENS_MAX :]
    while count_tokens(tail) > TOKENS_MAX // 2:
        tail = tail[len(tail) // 20 + 1 :]
    return f"{head}\n{tail}"


Ways = dict[str, Callable[[File], str]]
WAYS: Ways = {
    "outline": by_outline,
    "first 2 KB": by_head,
    "head + tail": by_head_and_tail,
}


def judge(files: Sequence[File], ways: Ways = WAYS) -> list[Judged]:
    """Ask everything of every way; the facts are drawn before anything is shown."""
    drawn = [(file, structural(file), details(file)) for file in files]
    return [
        _judged(way, show, file, built, single)
        for file, built, single in drawn
        for way, show in ways.items()
    ]


def _judged(
    way: str, show: Callable[[File], str], file: File, built: list[Fact], single: list[Fact]
) -> Judged:
    shown = show(file)
    lines = file.text.split("\n")
    missed = [fact for fact in built if not _holds(shown, fact.answer)]
    found = [(fact, grep(lines, fact.cue)) for fact in single]
    unfound = [fact for fact, more in found if not _holds(f"{shown}\n{more}", fact.answer)]
    return Judged(
        way,
        file,
        count_tokens(shown),
        (len(built) - len(missed), len(built)),
        (len(single) - len(unfound), len(single)),
        missed + unfound,
        sum(count_tokens(more) for _, more in found),
    )


def _holds(shown: str, answer: str) -> bool:
    """Whether an answer stands in a text as a whole word, blanks apart."""
    pattern = r"\s+".join(map(re.escape, answer.split()))
    return re.search(rf"(?<!\w){pattern}(?!\w)", " ".join(shown.split())) is not None


def grep(lines: Sequence[str], cue: str) -> str:
    """What one bounded search brings, with the bounds that `relay get REF --grep` has."""
    found: list[str] = []
    for line in lines:
        at = line.find(cue)
        if at >= 0:
            found.append(line[max(0, at - FOLD_CHARS) : at + len(cue) + FOLD_CHARS])
            if len(found) == GREP_MATCHES_DEFAULT:
                break
    return cut_to_tokens("\n".join(found), PIECE_TOKENS_DEFAULT)


def total(judged: Sequence[Judged]) -> dict[str, dict[str, Share]]:
    """Shares by way and kind, and over all."""
    shares: dict[str, dict[str, Share]] = {}
    for each in judged:
        for kind in (each.file.kind, "all"):
            share = shares.setdefault(each.way, {}).setdefault(kind, Share())
            share.structural += each.structural[0]
            share.structural_asked += each.structural[1]
            share.details += each.details[0]
            share.details_asked += each.details[1]
            share.tokens += each.tokens
            share.grep_tokens += each.grep_tokens
            share.files += 1
    return shares
