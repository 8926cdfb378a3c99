"""Shares: the savings of a space by day, by who made what was read, and by what it came from.

They are counted with the sums that they are parts of (core/accounting/usage.py), each under its own
name: a day (UTC) has counters of its own, agents and sources are counters of one set each.

Rule: names are somebody's text and must not fill the ledger: past so many, the rest is one share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from contextrelay.core.schema import SAVINGS_BY
from contextrelay.model.artifact import Artifact
from contextrelay.model.reports import Share
from contextrelay.store.ledger import Ledger

# Savings are shown by day for so many days, and by so many agents and sources each.
SAVINGS_DAYS = 30
SAVINGS_NAMES_MAX = 40


_FIGURES = ("whole", "sent", "pulled")
_OTHERS = "others"


class Shares:
    """What was read since the last writing, by whose it is and what it came from."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, Counter[str]]] = {
            "agent": defaultdict(Counter),
            "source": defaultdict(Counter),
        }
        self._day: Counter[str] = Counter()

    def add(self, artifacts: Iterable[Artifact], counted: Counter[str]) -> None:
        """Add what an answer about artifacts counted: several of different names share it."""
        figures = Counter(
            {each: counted[f"{each}_measured"] + counted[f"{each}_estimated"] for each in _FIGURES}
        )
        self._day.update(figures)
        of = list(artifacts)
        for kind, names in (
            ("agent", {each.provenance.created_by for each in of}),
            ("source", {each.provenance.capability or each.type for each in of}),
        ):
            self._sums[kind][names.pop() if len(names) == 1 else _OTHERS].update(figures)

    def sums(self, ledger: Ledger, now_ms: int) -> dict[str, Counter[str]]:
        """Return what is to be added to which counters."""
        day = datetime.fromtimestamp(now_ms / 1000, UTC)
        found = {_day_counters(day): _nonzero(self._day)}
        for kind, sums in self._sums.items():
            known = {name.partition(" ")[2] for name in ledger.tally(SAVINGS_BY + kind, {})}
            added: Counter[str] = Counter()
            for name, figures in sums.items():
                if name not in known and len(known) >= SAVINGS_NAMES_MAX:
                    name = _OTHERS
                known.add(name)
                added.update({f"{figure} {name}": n for figure, n in _nonzero(figures).items()})
            found[SAVINGS_BY + kind] = added
        return found


def _nonzero(figures: Counter[str]) -> Counter[str]:
    return Counter({each: n for each in _FIGURES if (n := figures[each])})


def by_name(ledger: Ledger, kind: str) -> list[Share]:
    """The shares of agents or sources, the largest first."""
    counts = ledger.tally(SAVINGS_BY + kind, {})
    names = dict.fromkeys(each.partition(" ")[2] for each in counts)
    shares = [
        _share(name, {each: counts.get(f"{each} {name}", 0) for each in _FIGURES}) for name in names
    ]
    return sorted(shares, key=lambda each: (-each.net, each.name))


def by_day(ledger: Ledger, now_ms: int) -> list[Share]:
    """The shares of the last days, the newest last; a day on which nothing was read has none."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC)
    days = [today - timedelta(days=back) for back in reversed(range(SAVINGS_DAYS))]
    counted = ((day, ledger.tally(_day_counters(day), {})) for day in days)
    return [_share(f"{day:%Y-%m-%d}", counts) for day, counts in counted if counts]


def _day_counters(day: datetime) -> str:
    return f"{SAVINGS_BY}day/{day:%Y-%m-%d}"


def _share(name: str, counts: dict[str, int]) -> Share:
    whole, sent, pulled = (counts.get(each, 0) for each in _FIGURES)
    net = whole - sent - pulled
    return Share(name=name, whole=whole, sent=sent, pulled_back=pulled, net=net)
