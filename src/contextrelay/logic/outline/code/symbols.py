"""Symbols: what a file of code defines, and how an outline shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from contextrelay.limits import OUTLINE_PIECES_MAX
from contextrelay.logic.content.source import Source
from contextrelay.logic.outline.code.brackets import Definition
from contextrelay.logic.outline.layout import JOINED, OWN_LINE, Drawn, Piece, quoted


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
    is_local: bool = False
    """Whether nothing outside of the file can use it."""

    @property
    def is_private(self) -> bool:
        return self.name.startswith("_") and not self.name.endswith("__")

    @property
    def is_helper(self) -> bool:
        """Whether it is there for the others: a function or constant that is not for users."""
        is_own = self.is_private or self.is_local
        return is_own and not self.is_member and self.kind in _HELPERS


def symbols_of(definitions: Iterable[Definition]) -> list[Symbol]:
    """Definitions as an outline shows them: what has one name in a row, once."""
    symbols: list[Symbol] = []
    before = ("", "")
    for each in definitions:
        if before != (each.owner, each.name):
            is_member = bool(each.owner)
            symbols.append(
                Symbol(
                    each.kind,
                    each.name,
                    each.line,
                    each.signature,
                    is_member=is_member,
                    is_local=each.is_local,
                )
            )
        before = each.owner, each.name
    return symbols


# Above this many functions in a row they share a line.
_OWN_LINES_MAX = 12
_FIRST_MEMBERS = 4
_MANY, _CLASSES_KEPT_MAX = 100, 4
_FIRST_IMPORTS = 8
_RANKS = {"declaration": 2, "constant": 3, "macro": 6}
_JOINING = ("function", "type")
_HELPERS = {"function": "helpers", "constant": "private constants", "macro": "private macros"}
_HELPERS_MIN = 4
_PLURAL = {"class": "classes", "property": "properties"}


def drawn(
    source: Source,
    language: str,
    symbols: Sequence[Symbol],
    imports: Sequence[str],
    doc: str = "",
    more: Mapping[str, int] | None = None,
    note: str = "",
) -> Drawn:
    """The outline of code: what it is, what it imports, what it defines and where.

    `more` counts symbols that are not given, by kind; `note` says how far it was read.
    """
    counts = Counter("method" if each.is_member else each.kind for each in symbols)
    counts.update(more or {})
    counted = ", ".join(
        f"{count} {kind if count == 1 else _PLURAL.get(kind, kind + 's')}"
        for kind, count in counts.items()
    )
    measure = source.measure() + (f", {note}" if note else "")
    pieces = [Piece(0, (f"{language}, {measure}{': ' if counted else ''}{counted}",))]
    if doc:
        pieces.append(Piece(3, (quoted(doc, 60), quoted(doc, 160))))
    names = list(dict.fromkeys(imports))
    if names:
        pieces.append(Piece(1, ("imports:",)))
        pieces += [
            Piece(1 + (index >= _FIRST_IMPORTS), (quoted(name, 60),), JOINED)
            for index, name in enumerate(names[:OUTLINE_PIECES_MAX])
        ]
    own = [each for each in symbols if not each.is_member]
    # A few classes keep their methods where a hundred functions are named.
    is_kept = len(own) > _MANY and sum(each.kind == "class" for each in own) <= _CLASSES_KEPT_MAX
    pieces += _definitions(symbols[:OUTLINE_PIECES_MAX], len(own) > _OWN_LINES_MAX, is_kept)
    first = next((each for each in symbols if each.kind not in _RANKS), None)
    step = f"--symbol {first.name}" if first else f"--lines 1:{min(len(source.lines), 40) + 1}"
    left_out = max(0, counts.total() - OUTLINE_PIECES_MAX) + max(0, len(names) - OUTLINE_PIECES_MAX)
    defined = [each for each in symbols if not each.is_member and each.kind not in _RANKS]
    # In C most functions are for one file alone: they are named after those that are not.
    defined = [each for each in defined if each.is_local or not each.is_helper]
    defined.sort(key=lambda each: each.is_helper)
    named = dict.fromkeys(each.name for each in defined)
    return Drawn(language.lower(), pieces, step, left_out, named)


def _definitions(symbols: Sequence[Symbol], is_long: bool, is_kept: bool) -> Iterable[Piece]:
    """Members stand on the line of their owner; in a long file, so do all of a kind in a row.

    What others use comes before helpers; many helpers in a row are counted, with their lines.
    """
    previous = ""
    members = 0
    runs = _runs(symbols)
    for index, each in enumerate(symbols):
        name = f"{each.name}:{each.line}"
        short = f"{each.name}{_behind(each.brief or each.signature, 50)}:{each.line}"
        rich = f"{each.name}{_behind(each.signature, 100)}:{each.line}"
        if each.is_member:
            members += 1
            # Public members before private ones, the first of each owner before the rest.
            rank = 2 + (members > _FIRST_MEMBERS) + 2 * each.is_private
            rank = 0 if is_kept and rank == 2 and previous == "class" else rank
            yield Piece(rank, (each.name, name, short, rich), JOINED)
            continue
        if index in runs:
            count, last = runs[index]
            yield Piece(2, (f"{count} {_HELPERS.get(each.kind, 'helpers')} {each.line}-{last}:",))
        if each.is_helper:
            is_first = index in runs or previous != "helper" or bool(members)
            previous, members = "helper", 0
            glue = JOINED if index in runs or not is_first else OWN_LINE
            label = each.kind + " " if glue == OWN_LINE else ""
            yield Piece(5, tuple(f"{label}{form}" for form in (each.name, name, short)), glue)
            continue
        rank = 0 if is_kept and each.kind == "class" else _RANKS.get(each.kind, 1)
        joins = each.kind in _RANKS or (is_long and each.kind in _JOINING)
        forms = [each.name if joins else name, name, short, rich]
        if joins and previous == each.kind and not members:
            yield Piece(rank, tuple(forms), JOINED)
            continue
        if each.doc and not joins:
            forms.append(f"{rich}  {quoted(each.doc, 80)}")
        previous, members = each.kind, 0
        yield Piece(rank, tuple(f"{each.kind} {form}" for form in forms))


def _runs(symbols: Sequence[Symbol]) -> dict[int, tuple[int, int]]:
    """Many helpers in a row: by where the first is, how many they are and the line of the last."""
    runs: dict[int, tuple[int, int]] = {}
    start = count = 0
    for index, each in enumerate((*symbols, None)):
        if each is not None and each.is_helper and (not count or symbols[start].kind == each.kind):
            start = start if count else index
            count += 1
            continue
        if count >= _HELPERS_MIN:
            runs[start] = count, symbols[index - 1].line
        start, count = index, int(each is not None and each.is_helper)
    return runs


def _behind(signature: str, chars_max: int) -> str:
    """What stands behind a name: arguments right there, words with a blank between."""
    text = quoted(signature, chars_max)
    return f" {text}" if text[:1].isalpha() else text
