"""Pull rates: how often content shown as a ref was read afterwards, by type and size, for K6.

The row `shown` of an artifact records as what kind of block it was shown, whether that was more
than once, and which reads were counted. A message counts once as shown, once as read at the first
call and once as read later. Packing a thread again means that the model was called in between.

Rule: recording costs one dict lookup; core/accounting/usage.py writes in the background. A process
that is killed loses only counts.
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
from contextrelay.store.ledger import ONLY, Reads, Row, Write

# Events buffered per artifact between writes. After two shows and two reads, further events change
# nothing.
PULL_MARKS_MAX = 8


def rates(stores: Stores) -> Callable[[str, int], Pulls]:
    """Return a cached function that returns how often messages of a type and size were pulled."""
    known: dict[str, Pulls] = {}

    def of(kind: str, tokens: int) -> Pulls:
        name = pull_counters(kind, size_class(tokens))
        if name not in known:
            counts = stores.ledger.tally(name)
            known[name] = Pulls(*(max(0, counts.get(each, 0)) for each in Pulls.__struct_fields__))
        return known[name]

    return of


class _Mark(Struct, frozen=True):
    """An event of an artifact: it was shown as a kind of block, or it was read."""

    kind: str | None
    tokens: int = 0


class _Shown(Struct, frozen=True):
    """The stored record of an artifact that was shown as a ref."""

    name: str
    is_again: bool = False
    at_first_call: bool = False
    later: bool = False


_decoder = Decoder(_Shown)


class PullMarks:
    """The events of artifacts since the last write, in order. The caller holds a lock."""

    def __init__(self) -> None:
        self._by_ref: dict[str, list[_Mark]] = {}

    def __len__(self) -> int:
        return len(self._by_ref)

    def showed(self, package: Package) -> None:
        """Record that a package shows artifacts as refs."""
        for block in package.blocks:
            ref = block.metadata.get("ref")
            if package.reasons[block.id].is_digest and isinstance(ref, str):
                self._add(ref, _Mark(block.type))

    def read(self, refs: Iterable[str], tokens: int) -> None:
        """Record that artifacts were read, and the number of tokens read."""
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

    def add(self, later: PullMarks) -> None:
        """Add the events that were recorded later."""
        for ref, marks in later._by_ref.items():
            for mark in marks:
                self._add(ref, mark)

    def writes(
        self, ledger: Reads, whole_tokens: Callable[[Artifact], int]
    ) -> tuple[list[Write], dict[str, Counter[str]]]:
        """Return the writes of the rows, and the amounts to add to the counters, by kind and
        size.
        """
        sums: dict[str, Counter[str]] = {}
        rows: list[Write] = []
        for ref, marks in self._by_ref.items():
            before = _shown(ledger, ref)
            if before is None and all(mark.kind is None for mark in marks):
                continue  # The artifact was never shown as a ref.
            artifact = find_readable(ledger, ref)
            if artifact is None:
                continue
            after, counted = _apply_marks(before, marks, whole_tokens(artifact))
            if after is not None and after != before:
                row = Row(RowKind.SHOWN, ONLY, encode(after))
                rows.append(Write(artifact_log(ref), rows=(row,)))
                sums.setdefault(after.name, Counter()).update(counted)
        return rows, sums


def _apply_marks(
    shown: _Shown | None, marks: list[_Mark], whole_tokens: int
) -> tuple[_Shown | None, Counter[str]]:
    """Apply events to the record of an artifact; return the new record and the amounts to add to
    the counters.
    """
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
        # If a row is damaged, only a count is lost, because the next write replaces the row.
        return None
