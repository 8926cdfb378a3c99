"""Pull rates: of what was shown as a ref, how much was then read; by kind and size, for K6.

The row `shown` of an artifact says as what it was shown, whether that was more than once, and which
reads of it were counted. A message counts once as shown, once as read at the first call and once as
read later. Who packs a thread again has called the model in between.

Rule: noting costs a look into a dict; core/accounting/usage.py writes in the background. What is
lost when a process is killed is a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.json import Decoder, encode

from contextrelay.core.artifacts.records import find_readable
from contextrelay.core.schema import UNREADABLE, RowKind, artifact_log, pull_counters
from contextrelay.core.stores import Stores
from contextrelay.limits import SPENDING_REFS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.package import Package
from contextrelay.packing.inline_or_ref import Pulls, size_class
from contextrelay.store.ledger import ONLY, Ledger, Reads, Row, Write

# Of what happened to one artifact since; more than twice shown and twice read says no more.
PULL_MARKS_MAX = 8


def rates(stores: Stores) -> Callable[[str, int], Pulls]:
    """How often messages of a type and size were pulled; each is looked up once."""
    known: dict[str, Pulls] = {}

    def of(kind: str, tokens: int) -> Pulls:
        name = pull_counters(kind, size_class(tokens))
        if name not in known:
            counts = stores.ledger.tally(name, {})
            known[name] = Pulls(*(max(0, counts.get(each, 0)) for each in Pulls.__struct_fields__))
        return known[name]

    return of


class _Mark(Struct, frozen=True):
    """Something that happened to an artifact: it was shown as this kind of block, or read."""

    kind: str | None
    tokens: int = 0


class _Shown(Struct, frozen=True):
    """What is written of an artifact that was shown as a ref."""

    name: str
    is_again: bool = False
    at_first_call: bool = False
    later: bool = False


_decoder = Decoder(_Shown)


class PullMarks:
    """What happened to artifacts since the last writing, in order. The caller holds a lock."""

    def __init__(self) -> None:
        self._by_ref: dict[str, list[_Mark]] = {}

    def __len__(self) -> int:
        return len(self._by_ref)

    def showed(self, package: Package) -> None:
        """Note which artifacts a package shows as refs."""
        for block in package.blocks:
            ref = block.metadata.get("ref")
            if package.reasons[block.id].is_digest and isinstance(ref, str):
                self._add(ref, _Mark(block.type))

    def read(self, refs: Iterable[str], tokens: int) -> None:
        """Note that somebody read of artifacts, and how much."""
        for ref in refs:
            self._add(ref, _Mark(None, tokens))

    def _add(self, ref: str, mark: _Mark) -> None:
        marks = self._by_ref.get(ref)
        if marks is None:
            if len(self._by_ref) >= SPENDING_REFS_MAX:
                return
            marks = self._by_ref[ref] = []
        if len(marks) < PULL_MARKS_MAX:
            marks.append(mark)

    def taken(self) -> PullMarks:
        """All of it, to be written; here it begins again."""
        others = PullMarks()
        others._by_ref, self._by_ref = self._by_ref, {}
        return others

    def put_back(self, earlier: PullMarks) -> None:
        """Take what could not be written, as it came before all that is here."""
        later, self._by_ref = self._by_ref, earlier._by_ref
        for ref, marks in later.items():
            for mark in marks:
                self._add(ref, mark)

    def write(
        self, ledger: Ledger, whole_tokens: Callable[[Artifact], int]
    ) -> dict[str, Counter[str]]:
        """Write down what was counted; return what is to be added for each kind and size."""
        sums: dict[str, Counter[str]] = {}
        rows: list[Write] = []
        for ref, marks in self._by_ref.items():
            before = _shown(ledger, ref)
            if before is None and all(mark.kind is None for mark in marks):
                continue  # It was never shown as a ref.
            artifact = find_readable(ledger, ref)
            if artifact is None:
                continue
            after, counted = _replayed(before, marks, whole_tokens(artifact))
            if after is not None and after != before:
                row = Row(RowKind.SHOWN, ONLY, encode(after))
                rows.append(Write(artifact_log(ref), rows=(row,)))
                sums.setdefault(after.name, Counter()).update(counted)
        if rows:
            ledger.commit(*rows)
        return sums


def _replayed(
    shown: _Shown | None, marks: list[_Mark], whole_tokens: int
) -> tuple[_Shown | None, Counter[str]]:
    """What a history leads to, and what of it counts."""
    counted: Counter[str] = Counter()
    for mark in marks:
        if mark.kind is not None:
            if shown is None:
                shown = _Shown(pull_counters(mark.kind, size_class(whole_tokens)))
                counted["shown"] += 1
            else:
                shown = _Shown(shown.name, True, shown.at_first_call, shown.later)
        elif shown is not None:
            is_first = not shown.is_again
            if shown.at_first_call if is_first else shown.later:
                continue
            counted["at_first_call" if is_first else "later"] += 1
            counted["slice_tokens"] += mark.tokens
            shown = _Shown(
                shown.name,
                shown.is_again,
                shown.at_first_call or is_first,
                shown.later or not is_first,
            )
    return shown, counted


def _shown(ledger: Reads, ref: str) -> _Shown | None:
    row = ledger.get(artifact_log(ref), RowKind.SHOWN, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE:
        return None  # It is a count; the next writing corrects it.
