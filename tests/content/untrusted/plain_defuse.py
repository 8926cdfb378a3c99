"""Defusing as its rules read, in no haste: what the fast way is held against.

Every character is folded by itself, and every phrase and marker is tried at every place.
"""

from __future__ import annotations

import re

from contextrelay.content.untrusted.defuse import DEFUSE_ROUNDS_MAX
from contextrelay.content.untrusted.hidden_chars import hidden_kinds, is_hidden, spelled_char
from contextrelay.content.untrusted.normalize import SANITIZED, TOKEN, fold_char
from contextrelay.content.untrusted.phrases import HEADS, MARKERS

FIGURES = dict(zip("0134578@$!", "oieastbasi", strict=True))
MIXED = re.compile(r"[013457]+(?:[a-z]{2,}(?![0-9a-z])|[a-z]+[013457])")
NEAR_LETTERS = 200
BEFORE_MARKER = " \t\0>*_-#|`"
BEFORE_SENTENCE = " \t\0>*_-#|`\"'([{<,"

Hit = tuple[int, int, str]
Span = tuple[int, int]


def defuse_plainly(text: str) -> tuple[str, tuple[str, ...]]:
    """The defused text, and the names of what was found in it."""
    padded = TOKEN.sub(blanked_token, text)
    # Each folded character, and which one of the original it comes from.
    origins = [index for index, char in enumerate(padded) for _ in fold_char(char)]
    folded = "".join(map(fold_char, padded))
    kinds = {kind for char in set(text) - {"\r"} for kind in hidden_kinds(char)}
    kinds |= hidden_kinds("\r") if re.search(r"\r(?!\n)", text) else set()
    spans: list[Span] = []
    for _ in range(DEFUSE_ROUNDS_MAX):
        hits = sorted(phrases_in(folded) + markers_in(folded))
        if not hits:
            return rebuilt(text, joined(spans)), tuple(sorted(kinds))
        kinds |= {name for _, _, name in hits}
        found = joined([(origins[start], origins[stop - 1] + 1) for start, stop, _ in hits])
        covered = {at for start, stop in found for at in range(start, stop)}
        folded = "".join(
            "\0" if origin in covered else char
            for char, origin in zip(folded, origins, strict=True)
        )
        spans += found
    return SANITIZED, tuple(sorted({*kinds, "deep-nesting"}))


def blanked_token(match: re.Match[str]) -> str:
    token = match[0]
    char = "\r" if token == "<U+000D>" else spelled_char(token)
    if char is None and token != SANITIZED:
        return token
    return (fold_char(char) if char else "\0") + "\0" * (len(token) - 1)


def joined(spans: list[Span]) -> list[Span]:
    """Spans in order, those that overlap made one."""
    made: list[Span] = []
    for start, stop in sorted(spans):
        if made and start < made[-1][1]:
            made[-1] = (made[-1][0], max(stop, made[-1][1]))
        else:
            made.append((start, stop))
    return made


def rebuilt(text: str, spans: list[Span]) -> str:
    answer = ""
    end = 0
    for start, stop in spans:
        answer += spelled(text[end:start]) + SANITIZED
        end = stop
    return answer + spelled(text[end:])


def spelled(text: str) -> str:
    return "".join(
        f"<U+{ord(char):04X}>"
        if is_hidden(char) and not (char == "\r" and text[index + 1 : index + 2] == "\n")
        else char
        for index, char in enumerate(text)
    )


def phrases_in(folded: str) -> list[Hit]:
    plainly = phrases_read(folded, folded, [(0, len(folded))])
    read_as = "".join(FIGURES.get(char, char) for char in folded)
    near: list[Span] = []
    for match in MIXED.finditer(folded):
        before = sum(char.isalpha() for char in read_as[: match.start()])
        near.append((max(0, before - NEAR_LETTERS), before + NEAR_LETTERS))
    return plainly + phrases_read(folded, read_as, joined(near))


def phrases_read(folded: str, read_as: str, spans: list[Span]) -> list[Hit]:
    """The phrases that begin, counted in letters, in one of the spans."""
    places = [index for index, char in enumerate(read_as) if char.isalpha()]
    letters = "".join(char for char in read_as.title() if char.isalpha())
    letters = letters.replace("l", "i").replace("L", "I")
    hits: list[Hit] = []
    for head, phrases in HEADS.items():
        for begun in re.finditer(f"(?={head})", letters, re.IGNORECASE):
            at = begun.start()
            if not any(start <= at and at + len(head) <= stop for start, stop in spans):
                continue
            for phrase in phrases:
                match = phrase.whole.match(letters, at)
                opens = match and opens_after(folded, places[at], ".!?:;\n", BEFORE_SENTENCE)
                if match and (opens or not phrase.opens_sentence):
                    hits.append((places[at], places[match.end() - 1] + 1, phrase.name))
    return hits


def markers_in(folded: str) -> list[Hit]:
    return [
        (match.start(), match.end(), marker.name)
        for marker in MARKERS
        for match in marker.whole.finditer(folded)
        if not marker.opens_line or opens_after(folded, match.start(), "\n", BEFORE_MARKER)
    ]


def opens_after(folded: str, at: int, ends: str, passed_over: str) -> bool:
    before = folded[:at].rstrip(passed_over)
    return not before or before[-1] in ends
