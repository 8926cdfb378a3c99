"""Pieces: what an outline is put together from, and how it is made to fit a budget.

A piece has a rank, the most telling 0, and forms from the shortest to the richest. All pieces get
their shortest form as far as the budget goes, by rank; then, by rank again, richer ones.

Rule: the text is within the budget by the real tokenizer, after defusing. What did not fit is
counted, in the text where it was left out and in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.tokens import TOKENIZER_DEFAULT, count_tokens, cut_to_tokens
from contextrelay.logic.untrusted.defuse import Defused, defuse

OWN_LINE = "\n"
JOINED = ", "


class Piece(Struct, frozen=True):
    """One thing to tell. A joined piece stands behind the one before it, on the same line."""

    rank: int
    forms: tuple[str, ...]
    glue: str = OWN_LINE


class Drawn(Struct, frozen=True):
    """An outline before it is fitted: its pieces in the order of the body."""

    kind: str
    pieces: Sequence[Piece]
    next: str = ""
    """How to slice: the options of `relay get`."""
    left_out: int = 0
    """How many things there are beside the pieces, because they were too many."""


class Fitted(Struct, frozen=True):
    """A text within its budget."""

    text: str
    tokens: int
    omitted: int
    patterns: tuple[str, ...]


def fit(drawn: Drawn, tokens_max: int) -> Fitted:
    """Choose which pieces are shown, and how richly."""
    pieces = drawn.pieces[:OUTLINE_PIECES_MAX]
    left_out = drawn.left_out + len(drawn.pieces) - len(pieces)
    # Room for telling what was left out.
    budget_tokens = tokens_max - min(12, tokens_max // 10)
    lengths = _Lengths()
    while True:
        chosen = _choose(pieces, budget_tokens, lengths)
        defused = defuse(_render(pieces, chosen, left_out))
        tokens = count_tokens(defused.text)
        if tokens <= tokens_max:
            return _fitted(defused, tokens, len(pieces) - len(chosen) + left_out)
        if budget_tokens <= 8:
            break
        # Replacements and counts took more room than was left for them.
        budget_tokens -= max(tokens - tokens_max, budget_tokens // 8)
    text = cut_to_tokens(defused.text, tokens_max)
    return _fitted(Defused(text, defused.patterns), count_tokens(text), len(pieces) + left_out)


def _fitted(defused: Defused, tokens: int, omitted: int) -> Fitted:
    return Fitted(defused.text, tokens, omitted, defused.patterns)


def _choose(pieces: Sequence[Piece], budget_tokens: int, lengths: _Lengths) -> dict[int, str]:
    """From the index of each piece that is shown to its form."""
    order = sorted(range(len(pieces)), key=lambda index: pieces[index].rank)
    chosen: dict[int, str] = {}
    left = budget_tokens
    misses = 0
    for index in order:
        piece = pieces[index]
        cost = lengths.of(piece.glue + piece.forms[0])
        if cost <= left:
            chosen[index] = piece.forms[0]
            left -= cost
        else:
            misses += 1
            if misses > _MISSES_MAX:
                break
    # A joined piece whose line is not there would stand on another's line.
    kept = _with_their_lines(pieces, chosen)
    for level in range(1, max((len(piece.forms) for piece in pieces), default=1)):
        for index in order:
            forms = pieces[index].forms
            if index not in kept or level >= len(forms) or left <= 0:
                continue
            more = lengths.of(pieces[index].glue + forms[level]) - lengths.of(
                pieces[index].glue + kept[index]
            )
            if more <= left:
                kept[index] = forms[level]
                left -= more
    return kept


# After so many pieces that did not fit, it is not worth looking for a shorter one.
_MISSES_MAX = 50


class _Lengths:
    """Tokens of texts, each counted once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, text: str) -> int:
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self._known[text] = count_tokens(text, TOKENIZER_DEFAULT)
        return tokens


def _with_their_lines(pieces: Sequence[Piece], chosen: dict[int, str]) -> dict[int, str]:
    kept: dict[int, str] = {}
    has_line = False
    for index, piece in enumerate(pieces):
        if piece.glue == OWN_LINE:
            has_line = index in chosen
        if index in chosen and has_line:
            kept[index] = chosen[index]
    return kept


def _render(pieces: Sequence[Piece], chosen: dict[int, str], left_out: int) -> str:
    """The text, which says at the end of a line and at the end of all how much is missing."""
    lines: list[str] = []
    missing_here = missing_lines = 0
    is_open = False
    for index, piece in enumerate(pieces):
        form = chosen.get(index)
        if piece.glue == OWN_LINE:
            _close(lines, missing_here)
            missing_here = 0
            is_open = form is not None
            if form is not None:
                lines.append(form)
            else:
                missing_lines += 1
        elif form is None:
            missing_here += is_open
            missing_lines += not is_open
        else:
            lines[-1] += (piece.glue if lines[-1][-1:] not in (":", "") else " ") + form
    _close(lines, missing_here)
    if missing_lines + left_out:
        lines.append(f"(+{missing_lines + left_out} more not shown)")
    return "\n".join(lines)


def _close(lines: list[str], missing: int) -> None:
    if missing:
        lines[-1] += f" +{missing}"


def quoted(text: str, chars_max: int = 80) -> str:
    """A piece of the body as it may stand in a line: blanks and line ends are one blank."""
    text = " ".join(text[: 4 * chars_max].split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
