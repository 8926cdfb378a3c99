"""Symbols: the definitions of a code file, and their display in an outline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from contextrelay.content.outline.layout import JOINED, OutlineDraft, OutlinePiece, shorten
from contextrelay.content.source import Source
from contextrelay.limits import OUTLINE_PIECES_MAX

DEFINITIONS_MAX = 20_000


class Symbol(Struct, gc=False):
    """A definition: `kind` is class, function, constant, ...; members follow their owner."""

    kind: str
    name: str
    line: int
    signature: str = ""  # The text after the name: arguments, bases.
    brief: str = ""  # The signature without types, if it has any.
    doc: str = ""
    is_member: bool = False
    is_local: bool = False  # Whether it is private to the file.
    owner: str = ""  # The class or type that it is a member of, if known.
    first: int = 0  # Where it begins, including decorators and its type.
    last: int = 0

    @property
    def is_private(self) -> bool:
        return self.name.startswith("_") and not self.name.endswith("__")

    @property
    def is_helper(self) -> bool:
        is_own = self.is_private or self.is_local
        return is_own and not self.is_member and self.kind in _HELPERS


class Definitions:
    """The definitions found in a file, up to a limit."""

    def __init__(self, wanted: str | None) -> None:
        self.found: list[Symbol] = []
        self.more: Counter[str] = Counter()  # Number of definitions beyond the limit, by kind.
        self.note = ""  # How far the text was read, if not to the end.
        self.is_outline = wanted is None  # Whether start and end lines can be omitted.
        self._wanted = wanted

    def keep(self, definition: Symbol) -> None:
        """Add a definition; beyond the limit, only one with the wanted name."""
        if len(self.found) < DEFINITIONS_MAX or definition.name == self._wanted:
            self.found.append(definition)
        else:
            self.more["method" if definition.owner else definition.kind] += 1


def listed(definitions: Iterable[Symbol]) -> list[Symbol]:
    """Return definitions for an outline: repeated names in a row are merged."""
    kept: list[Symbol] = []
    before = ("", "")
    for each in definitions:
        if before != (each.owner, each.name) or each.kind == "impl":
            each.is_member = bool(each.owner)
            kept.append(each)
        before = each.owner, each.name
    return kept


# Above this many functions in a row they share a line.
_OWN_LINES_MAX = 12
_FIRST_MEMBERS = 4
# The first members of each owner come before further members of any owner.
_MEMBER_STEPS = (2, 4, 16)
_MANY, _CLASSES_KEPT_MAX = 100, 4
_FIRST_IMPORTS = 8
_RANKS = {"declaration": 2, "test": 2, "constant": 3, "variable": 3, "macro": 6}
_JOINING = ("function", "method", "type", "module", "mod")
_HELPERS = {
    "function": "helpers",
    **{kind: f"private {kind}s" for kind in ("method", "constant", "variable", "macro")},
}
_RUN_MIN = 4
_PLURAL = {"class": "classes", "property": "properties", "macro_rules": "macro_rules"}


def code_draft(
    source: Source,
    language: str,
    symbols: Sequence[Symbol],
    imports: Sequence[str],
    doc: str = "",
    more: Mapping[str, int] | None = None,
    note: str = "",
) -> OutlineDraft:
    """Return the outline of code: its language, imports and definitions with their lines.

    `more` counts omitted symbols by kind; `note` says how far the file was read.
    """
    counts = Counter(
        "method" if each.is_member and each.kind not in ("test", "type") else each.kind
        for each in symbols
    )
    counts.update(more or {})
    counted = ", ".join(
        f"{count} {kind if count == 1 else _PLURAL.get(kind, kind + 's')}"
        for kind, count in counts.items()
    )
    measure = source.measure() + (f", {note}" if note else "")
    pieces = [OutlinePiece(0, (f"{language}, {measure}{': ' if counted else ''}{counted}",))]
    if doc:
        pieces.append(OutlinePiece(3, (shorten(doc, 60), shorten(doc, 160))))
    names = list(dict.fromkeys(imports))
    if names:
        pieces.append(OutlinePiece(1, ("imports:",)))
        pieces += [
            OutlinePiece(1 + 2 * (index >= _FIRST_IMPORTS), (shorten(name, 60),), JOINED)
            for index, name in enumerate(names[:OUTLINE_PIECES_MAX])
        ]
    own = [each for each in symbols if not each.is_member]
    # If a hundred functions are named, only a few classes keep their methods.
    is_kept = len(own) > _MANY and sum(each.kind == "class" for each in own) <= _CLASSES_KEPT_MAX
    pieces += _definitions(symbols[:OUTLINE_PIECES_MAX], len(own) > _OWN_LINES_MAX, is_kept)
    first = next((each for each in symbols if each.kind not in _RANKS), None)
    step = f"--symbol {first.name}" if first else f"--lines 1:{min(len(source.lines), 40) + 1}"
    left_out = max(0, counts.total() - OUTLINE_PIECES_MAX) + max(0, len(names) - OUTLINE_PIECES_MAX)
    # The declarations of a header file are its purpose.
    ranked = set(_RANKS) - {"declaration" if counts["declaration"] > counts["function"] else ""}
    named = (each for each in symbols if not each.is_member or each.kind == "method")
    defined = [each for each in named if each.kind not in ranked]
    # In C most functions are local to a file: they are listed after the public ones.
    defined = [each for each in defined if each.is_local or not each.is_helper]
    defined.sort(key=lambda each: each.is_helper)
    places = {each.name: each.line for each in reversed(defined)}
    names = dict.fromkeys(each.name for each in defined)
    return OutlineDraft(language.lower(), pieces, step, left_out, names, places=places)


def _definitions(symbols: Sequence[Symbol], is_long: bool, is_kept: bool) -> Iterable[OutlinePiece]:
    """Put members on the line of their owner; short definitions, or many of a kind, share lines."""
    joined: list[Symbol] = []
    owner: Symbol | None = None
    members = 0
    for index, each in enumerate(symbols):
        if each.is_member and owner is not None:
            # Public members before private ones, and the first of each owner before the rest.
            is_common = each.name.startswith("__")  # Most classes have it.
            rank = 2 + sum(members >= step for step in _MEMBER_STEPS) + owner.is_private
            if each.is_private or each.is_local:
                rank = 5
            elif is_common:
                rank = 4
            elif is_kept and owner.kind == "class" and members < _FIRST_MEMBERS:
                rank = 0
            yield OutlinePiece(rank, _forms(each), JOINED)
            members += not each.is_private and not is_common
            continue
        is_owner = index + 1 < len(symbols) and symbols[index + 1].is_member
        joins = each.kind in _RANKS or each.is_helper or (is_long and each.kind in _JOINING)
        if joins and not is_owner:
            joined.append(each)
            continue
        yield from _joined(joined)
        joined, owner, members = [], each, 0
        rank = 0 if is_kept and each.kind == "class" else _RANKS.get(each.kind, 1)
        rank += rank == 1 and each.is_private
        forms = [f"{each.kind} {form}" for form in _forms(each)[1:]]
        if each.doc:
            forms.append(f"{forms[-1]}  {shorten(each.doc, 80)}")
        yield OutlinePiece(5 if each.is_helper else rank, tuple(forms))
    yield from _joined(joined)


def _joined(symbols: Sequence[Symbol]) -> Iterable[OutlinePiece]:
    """Group definitions that share lines by kind: public ones first, and large groups as counts."""
    groups: dict[tuple[bool, str], list[Symbol]] = {}
    for each in {(each.kind, each.name): each for each in reversed(symbols)}.values():
        groups.setdefault((each.is_helper, each.kind), []).insert(0, each)
    for (is_helper, kind), group in sorted(groups.items(), key=lambda item: item[0][0]):
        rank = 5 if is_helper else _RANKS.get(kind, 1)
        forms = [_forms(each)[: 3 if is_helper else 4] for each in group]
        if len(group) < _RUN_MIN:
            first, *forms = (each[kind in _JOINING :] for each in forms)
            yield OutlinePiece(rank, tuple(f"{kind} {form}" for form in first))
        else:
            many = f"{len(group)} {_HELPERS[kind]}" if is_helper else _PLURAL.get(kind, kind + "s")
            places = f"{many} {group[0].line}-{group[-1].line}:"
            yield OutlinePiece(2 if is_helper else rank, (places,))
        for each in forms:
            yield OutlinePiece(rank, each, JOINED)


def _forms(each: Symbol) -> tuple[str, ...]:
    """Return the display forms: the name; with its line; with arguments; with types."""
    brief, whole = shorten(each.brief or each.signature, 50), shorten(each.signature, 100)
    # A space, unless it is an argument list.
    behind = (f" {text}" if text[:1].isalpha() else text for text in ("", brief, whole))
    return (each.name, *(f"{each.name}{text}:{each.line}" for text in behind))
