"""Shares: the savings of a space by day, by the agent that made the content, and by its source.

Shares are counted together with the totals (core/accounting/usage.py), each under a name of its
own: every day (UTC) has its own counters; agents and sources have one set of counters each.

Rule: names are untrusted text and must not fill the ledger. Names above a limit are merged into
one share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from contextrelay.core.schema import SAVINGS_BY
from contextrelay.model.artifact import Artifact
from contextrelay.model.reports import Share
from contextrelay.store.ledger import Ledger

# The maximum number of days shown, and of agents and of sources.
SAVINGS_DAYS = 30
SAVINGS_NAMES_MAX = 40


_FIGURES = ("whole", "sent", "pulled")
_OTHERS = "others"


class Shares:
    """Reads since the last write, by agent and source."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, Counter[str]]] = {
            "agent": defaultdict(Counter),
            "source": defaultdict(Counter),
        }
        self._day: Counter[str] = Counter()

    def add(self, artifacts: Iterable[Artifact], counted: Counter[str]) -> None:
        """Add the token counts of a reply about artifacts.

        Artifacts with different names count under one common name.
        """
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
        """Return the amounts to add, by the name of the counter."""
        day = datetime.fromtimestamp(now_ms / 1000, UTC)
        found = {_day_counters(day): _nonzero(self._day)}
        for kind, sums in self._sums.items():
            known = {name.partition(" ")[2] for name in ledger.tally(SAVINGS_BY + kind)}
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
    """Return the shares of agents or sources, the largest first."""
    counts = ledger.tally(SAVINGS_BY + kind)
    names = dict.fromkeys(each.partition(" ")[2] for each in counts)
    shares = [
        _share(name, {each: counts.get(f"{each} {name}", 0) for each in _FIGURES}) for name in names
    ]
    return sorted(shares, key=lambda each: (-each.net, each.name))


def by_day(ledger: Ledger, now_ms: int) -> list[Share]:
    """Return the shares of the last days, newest last; days without reads are omitted."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC)
    days = [today - timedelta(days=back) for back in reversed(range(SAVINGS_DAYS))]
    counted = ((day, ledger.tally(_day_counters(day))) for day in days)
    return [_share(f"{day:%Y-%m-%d}", counts) for day, counts in counted if counts]


def _day_counters(day: datetime) -> str:
    return f"{SAVINGS_BY}day/{day:%Y-%m-%d}"


def _share(name: str, counts: dict[str, int]) -> Share:
    whole, sent, pulled = (counts.get(each, 0) for each in _FIGURES)
    net = whole - sent - pulled
    return Share(name=name, whole=whole, sent=sent, pulled_back=pulled, net=net)
