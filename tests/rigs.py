"""Rigs: tests that repeat something until it would break (kills, power loss, load, whole suites).

RELAY_RIGS says how long: `thin` is what `make test` runs, `long` what `make rigs` and CI add, and
`full` what `make proof` runs by hand. A rig is marked with `rig`, takes its numbers from `length`,
and reports what it did with pytest's `record_property`.

`python -m tests.rigs REPORT.xml` prints the figures of such a run as docs/proof.md shows them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar
from xml.etree import ElementTree

import pytest

Amount = TypeVar("Amount")
Case = TypeVar("Case")

LENGTH = os.environ.get("RELAY_RIGS", "thin")
assert LENGTH in ("thin", "long", "full"), f"RELAY_RIGS={LENGTH}: it is thin, long or full"

rig = pytest.mark.rig


def length(thin: Amount, long: Amount, full: Amount) -> Amount:
    """The amount for this run."""
    return {"thin": thin, "long": long, "full": full}[LENGTH]


def some(cases: Iterable[Case], thin: int) -> list[Case]:
    """All cases of a rig, or in a thin run so many of them, from the first to the last."""
    every = list(cases)
    return every if LENGTH != "thin" else every[:: -(-len(every) // thin)]


def page(report: str) -> Iterator[str]:
    """The figures of a run, as Markdown."""
    yield "# Proof"
    yield ""
    yield "What `make proof` did at full length, written by it; do not edit."
    yield ""
    yield f"Last run: {datetime.now(UTC):%Y-%m-%d}."
    yield ""
    yield "| rig | result | seconds | figures |"
    yield "|---|---|---|---|"
    for case in ElementTree.parse(report).iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        result = "FAILED" if failed else "skipped" if case.find("skipped") is not None else "passed"
        figures = [f"{each.get('name')} {each.get('value')}" for each in case.iter("property")]
        module = (case.get("classname") or "").removeprefix("tests.")
        seconds = float(case.get("time") or 0)
        yield f"| {module} {case.get('name')} | {result} | {seconds:.0f} | {', '.join(figures)} |"


if __name__ == "__main__":
    print("\n".join(page(sys.argv[1])))
