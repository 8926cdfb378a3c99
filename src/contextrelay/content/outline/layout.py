"""Layout: the pieces of an outline, and how they are fitted into a budget.

Pieces get their shortest form by rank until the budget is used; then, again by rank, richer forms.

Rule: the text is within the budget as counted by the real tokenizer, after defusing. Omitted pieces
are counted, in place and in total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from msgspec import Struct

from contextrelay.content.tokens import count_tokens, cut_to_tokens
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.limits import OUTLINE_PIECES_MAX

OWN_LINE = "\n"
JOINED = ", "
# After this many pieces that did not fit, stop looking for a shorter one.
_MISSES_MAX = 50
_RANKS_TRIED_MAX = 8
# Tokens that may stay unused, and the number of attempts to use them.
_LEFT_TOKENS, _TRIES_MAX = 6, 3
_NAME = re.compile(r"[^\s,:;{}\[\]\"()?<>]+")
_ALSO = "also: "
# A listed name is worth a little less than a piece.
_LISTED_WORTH = 0.9
_GROUPS_MAX, _GROUP_MIN = 4, 8
_DEEPEST = 1_000

Length = Callable[[str], int]  # Returns the number of tokens of a text.


class OutlinePiece(Struct, frozen=True):
    """One item to show."""

    rank: int  # 0 for the most important.
    forms: tuple[str, ...]  # From the shortest to the richest.
    glue: str = OWN_LINE  # A joined piece continues the line of the previous one.


class OutlineDraft(Struct, frozen=True):
    """An outline before fitting: its pieces in the order of the body."""

    kind: str
    pieces: Sequence[OutlinePiece]
    next: str = ""  # How to slice it: options of `relay get`.
    left_out: int = 0  # Number of items without a piece, because there were too many.
    names: Collection[str] = ()
    """Names to mention in any case, at the end if their piece does not fit."""
    kept_rank: int = 0  # Pieces up to this rank come before names.
    places: Mapping[str, int] = {}
    """Lines of these names; names that are only listed get a line range."""


class Fitted(Struct, frozen=True):
    """A text within its budget."""

    text: str
    tokens: int
    omitted: int
    patterns: tuple[str, ...]


def fit_outline(draft: OutlineDraft, tokens_max: int) -> Fitted:
    """Choose which pieces to show, and in which form."""
    pieces = draft.pieces[:OUTLINE_PIECES_MAX]
    layout = _Layout(pieces)
    # A name takes at least one token, and examining thousands would be slow.
    names = list(draft.names)
    if len(names) > 4 * tokens_max:
        shortest = sorted(range(len(names)), key=[len(each) for each in names].__getitem__)
        names = [names[index] for index in sorted(shortest[: 4 * tokens_max])]
    left_out = draft.left_out + len(draft.pieces) - len(pieces)
    # Room for the note about omitted pieces.
    budget_tokens = tokens_max - min(12, tokens_max // 10)
    length = cache(count_tokens)
    fitted: Fitted | None = None
    tries_left = _TRIES_MAX
    while True:
        chosen, also = _choose_and_name(draft, layout, names, budget_tokens, length)
        omitted = max(0, len(pieces) - len(chosen) + left_out - len(also))
        lines = _list_lines(also, draft.places) + _unnamed(draft, chosen, also)
        defused = defuse(_render(pieces, chosen, omitted, lines))
        tokens = count_tokens(defused.text)
        if tokens <= tokens_max:
            if fitted is None or tokens > fitted.tokens:
                fitted = Fitted(defused.text, tokens, omitted, defused.patterns)
            left, tries_left = tokens_max - tokens, tries_left - 1
            if not omitted or left <= _LEFT_TOKENS or not tries_left:
                return fitted
            # Pieces together take fewer tokens than one by one.
            budget_tokens += left - _LEFT_TOKENS // 2
        elif fitted is not None:
            return fitted
        elif budget_tokens <= 8:
            text = cut_to_tokens(defused.text, tokens_max)
            return Fitted(text, count_tokens(text), len(pieces) + left_out, defused.patterns)
        else:
            # Defusing and counts took more room than was reserved.
            budget_tokens -= max(tokens - tokens_max, budget_tokens // 32)


class _Layout:
    """Pieces in order of rank, with the piece that starts the line of each."""

    def __init__(self, pieces: Sequence[OutlinePiece]) -> None:
        self.pieces = pieces
        self.order = sorted(range(len(pieces)), key=[each.rank for each in pieces].__getitem__)
        self.lines: list[int] = []
        line = -1
        for index, piece in enumerate(pieces):
            line = index if piece.glue == OWN_LINE else line
            self.lines.append(line)


def _choose_and_name(
    draft: OutlineDraft, layout: _Layout, names: Sequence[str], budget_tokens: int, length: Length
) -> tuple[dict[int, str], list[str]]:
    """Choose the pieces to show and the names missing from them, as many as possible.

    Pieces of the lowest ranks are dropped if that makes room for more names.
    """
    pieces = layout.pieces
    chosen = _choose(layout, budget_tokens, length)
    if not names or len(chosen) == len(pieces):
        return chosen, []
    ranks = sorted({max(draft.kept_rank, piece.rank) for piece in pieces}, reverse=True)
    best: tuple[float, dict[int, str], list[str]] = (-1.0, chosen, [])
    for rank_max in ranks[-_RANKS_TRIED_MAX:]:
        shown = _choose(layout, budget_tokens, length, rank_max, levels=1)
        used = sum(length(pieces[at].glue + form) for at, form in shown.items())
        text = "\n".join(shown.values())
        missing = _missing(names, text)
        also = _listed(missing, budget_tokens - used, length, draft.places)
        worth = len(names) - len(missing) + _LISTED_WORTH * len(also)
        if worth > best[0]:
            best = (worth, *_fill(draft, layout, also, budget_tokens, rank_max, length))
    return best[1], best[2]


def _missing(names: Collection[str], text: str) -> list[str]:
    there = set(_NAME.findall(text))
    # A name of several words is searched as it is.
    return [
        name for name in names if name not in there and (_NAME.fullmatch(name) or name not in text)
    ]


def _fill(
    draft: OutlineDraft,
    layout: _Layout,
    also: list[str],
    budget_tokens: int,
    rank_max: int,
    length: Length,
) -> tuple[dict[int, str], list[str]]:
    """Choose pieces for the room that the listed names leave, and return the names not in them.

    If names have lines, pieces of all ranks are included.
    """
    kept: dict[int, str] = {}
    for _ in range(_TRIES_MAX):
        lines = _list_lines(also, draft.places)
        rest = budget_tokens - length("\n".join(("", *lines)))
        if not draft.places:
            return _choose(layout, rest, length, rank_max), also
        kept = _choose(layout, rest, length)
        there = set(_NAME.findall("\n".join(kept.values())))
        also = [name for name in also if name not in there]
    return kept, also


def _list_lines(names: Sequence[str], places: Mapping[str, int]) -> list[str]:
    """Format listed names; if their lines are known, grouped by ranges."""
    if not names:
        return []
    if not places:
        return [_ALSO + _between(names).join(names)]
    ordered = sorted(names, key=lambda name: places.get(name, 0))
    size = max(_GROUP_MIN, -(-len(names) // _GROUPS_MAX))
    groups = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    return [
        f"also {places.get(group[0], 0)}-{places.get(group[-1], 0)}: " + _between(group).join(group)
        for group in groups
    ]


def _between(names: Sequence[str]) -> str:
    """Return the separator of listed names: a space, which costs no token, if none contains one."""
    return JOINED if any(" " in name for name in names) else " "


def _unnamed(draft: OutlineDraft, chosen: Mapping[int, str], also: Sequence[str]) -> list[str]:
    if not draft.places:
        return []
    missing, listed = _missing(draft.names, "\n".join(chosen.values())), set(also)
    lines = [draft.places.get(name, 0) for name in missing if name not in listed]
    return [f"and {len(lines)} more {min(lines)}-{max(lines)}"] if lines else []


def _listed(
    names: Sequence[str], left: int, length: Length, places: Mapping[str, int]
) -> list[str]:
    """Return as many names as fit, in order, preferring short ones."""
    between = _between(names)
    parts = min(_GROUPS_MAX, -(-len(names) // _GROUP_MIN)) if places else 1
    left -= parts * length(OWN_LINE + _ALSO + "1000-2000" * bool(places))
    short = sorted(range(len(names)), key=lambda index: len(names[index]))[: 2 * max(0, left)]
    costs = {index: length(between + names[index]) for index in short}
    kept: list[int] = []
    for index, cost in sorted(costs.items(), key=lambda each: each[1]):
        left -= cost
        if left < 0:
            break
        kept.append(index)
    return [names[index] for index in sorted(kept)]


def _choose(
    layout: _Layout,
    budget_tokens: int,
    length: Length,
    rank_max: int = _DEEPEST,
    levels: int = _DEEPEST,
) -> dict[int, str]:
    """Return the chosen form of each piece that is shown, by index."""
    pieces, lines = layout.pieces, layout.lines
    chosen: dict[int, None] = {}
    left = budget_tokens
    misses = 0
    for index in layout.order:
        piece = pieces[index]
        if piece.rank > rank_max:
            break
        cost = length(piece.glue + piece.forms[0])
        if cost <= left:
            chosen[index] = None
            left -= cost
        else:
            misses += 1
            if misses > _MISSES_MAX:
                break
    # Without the start of its line, a joined piece would appear on another one's line.
    kept = {index: pieces[index].forms[0] for index in sorted(chosen) if lines[index] in chosen}
    ranked = [index for index in chosen if index in kept]
    levels = min(levels, max((len(pieces[index].forms) for index in kept), default=1))
    for level in range(1, levels):
        for index in ranked:
            glue, forms = pieces[index].glue, pieces[index].forms
            if level >= len(forms) or left <= 0:
                continue
            more = length(glue + forms[level]) - length(glue + kept[index])
            if more <= left:
                kept[index] = forms[level]
                left -= more
    return kept


def _render(
    pieces: Sequence[OutlinePiece], chosen: dict[int, str], omitted: int, also: Sequence[str]
) -> str:
    """Render the text, with numbers of omitted pieces: on partly listed lines, and at the end."""
    lines: list[str] = []
    missing_here = counted = 0
    is_open = False
    end = OutlinePiece(0, ())  # Ends the last line.
    for index, piece in enumerate((*pieces, end)):
        form = chosen.get(index)
        if piece.glue == OWN_LINE:
            if missing_here and not also:
                lines[-1] += f" +{missing_here}"
                counted += missing_here
            missing_here = 0
            is_open = form is not None
            lines += [] if form is None else [form]
        elif form is None:
            missing_here += is_open
        else:
            lines[-1] += (piece.glue if lines[-1][-1:] not in (":", "") else " ") + form
    lines += also
    if omitted > counted:
        lines.append(f"(+{omitted - counted} more not shown)")
    return "\n".join(lines)


def shorten(text: str, chars_max: int = 80) -> str:
    """Return a text from the body for use in a line: whitespace collapsed, truncated."""
    text = " ".join(text[: 4 * chars_max].split())
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


_NUMBER = re.compile(r"\d+")
_FAMILY_MIN = 5


def families(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Group names that differ only in a number: labels in order, with the indexes of names."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(_NUMBER.sub("#", name[:200], count=2), []).append(index)
    labels: list[tuple[str, list[int]]] = []
    for mask, indexes in groups.items():
        if "#" in mask and len(indexes) >= _FAMILY_MIN:
            first, last = names[indexes[0]], names[indexes[-1]]
            labels.append((f"{first} .. {last} ({len(indexes)})", indexes))
        else:
            labels += [(names[index], [index]) for index in indexes]
    return sorted(labels, key=lambda each: each[1][0])
