"""Symbols: what a file of code defines, and how an outline shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.layout import JOINED, Drawn, Piece, quoted


class Symbol(Struct, frozen=True):
    """A definition: `kind` is class, function, constant, ...; members follow their owner."""

    kind: str
    name: str
    line: int
    signature: str = ""
    """What stands behind the name: arguments, bases."""
    brief: str = ""
    """The same without types, where it has them."""
    doc: str = ""
    is_member: bool = False


# Above this many functions in a row they share a line.
_OWN_LINES_MAX = 12
_FIRST_MEMBERS = 10
_FIRST_IMPORTS = 8
_RANKS = {"constant": 3, "macro": 4}
_PLURAL = {"class": "classes", "property": "properties"}


def drawn(
    source: Source,
    language: str,
    symbols: Sequence[Symbol],
    imports: Sequence[str],
    doc: str = "",
    more: Mapping[str, int] | None = None,
) -> Drawn:
    """The outline of code: what it is, what it imports, what it defines and where.

    `more` counts symbols that are not given, by kind.
    """
    counts = Counter("method" if each.is_member else each.kind for each in symbols)
    counts.update(more or {})
    counted = ", ".join(
        f"{count} {kind if count == 1 else _PLURAL.get(kind, kind + 's')}"
        for kind, count in counts.items()
    )
    pieces = [Piece(0, (f"{language}, {source.measure()}{': ' if counted else ''}{counted}",))]
    if doc:
        pieces.append(Piece(3, (quoted(doc, 60), quoted(doc, 160))))
    names = list(dict.fromkeys(imports))
    if names:
        pieces.append(Piece(1, ("imports:",)))
        pieces += [
            Piece(1 + (index >= _FIRST_IMPORTS), (quoted(name, 60),), JOINED)
            for index, name in enumerate(names[:OUTLINE_PIECES_MAX])
        ]
    is_long = sum(not each.is_member for each in symbols) > _OWN_LINES_MAX
    pieces += _definitions(symbols[:OUTLINE_PIECES_MAX], is_long)
    first = next((each for each in symbols if each.kind != "constant"), None)
    step = f"--symbol {first.name}" if first else f"--lines 1:{min(len(source.lines), 40) + 1}"
    left_out = max(0, counts.total() - OUTLINE_PIECES_MAX) + max(0, len(names) - OUTLINE_PIECES_MAX)
    return Drawn(language.lower(), pieces, step, left_out)


def _definitions(symbols: Sequence[Symbol], is_long: bool) -> Iterable[Piece]:
    """Members stand on the line of their owner; in a long file, so do all of a kind in a row."""
    previous = ""
    members = 0
    for each in symbols:
        name = f"{each.name}:{each.line}"
        short = f"{each.name}{_behind(each.brief or each.signature, 50)}:{each.line}"
        rich = f"{each.name}{_behind(each.signature, 100)}:{each.line}"
        if each.is_member:
            members += 1
            # Public members before private ones, the first of each owner before the rest.
            rank = 3 + each.name.startswith("_") + (members > _FIRST_MEMBERS)
            yield Piece(rank, (each.name, name, short, rich), JOINED)
            continue
        rank = _RANKS.get(each.kind, 1)
        joins = each.kind in _RANKS or (is_long and each.kind in ("function", "type"))
        forms = [name, name, short, rich]
        if joins and previous == each.kind and not members:
            yield Piece(rank, tuple(forms), JOINED)
            continue
        if each.doc and not joins:
            forms.append(f"{rich}  {quoted(each.doc, 80)}")
        previous, members = each.kind, 0
        yield Piece(rank, tuple(f"{each.kind} {form}" for form in forms))


def _behind(signature: str, chars_max: int) -> str:
    """What stands behind a name: arguments right there, words with a blank between."""
    text = quoted(signature, chars_max)
    return f" {text}" if text[:1].isalpha() else text
