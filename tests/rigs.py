"""Rigs: tests that repeat something until it would break (kills, power loss, load, whole suites).

RELAY_RIGS says how long: `thin` is what `make test` runs, `long` what `make rigs` and CI add, and
`full` what `make proof` runs by hand. A rig is marked with `rig`, takes its numbers from `length`,
and reports what it did with pytest's `record_property`.

`python -m tests.rigs REPORT.xml` prints docs/reliability.md with the figures of such a run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from xml.etree import ElementTree

import pytest
from msgspec import Struct

Amount = TypeVar("Amount")
Case = TypeVar("Case")

LENGTH = os.environ.get("RELAY_RIGS", "thin")
assert LENGTH in ("thin", "long", "full"), f"RELAY_RIGS={LENGTH}: it is thin, long or full"

rig = pytest.mark.rig
long_only = pytest.mark.skipif(LENGTH == "thin", reason="`make rigs` runs it, as CI does")
"""For a rig that starts large programs of others and has no thin slice."""

BODIES = "bodies"
"""How a property is called that is a row of the table of bodies."""

Record = Callable[[str, object], None]
"""pytest's `record_property`."""


def length(thin: Amount, long: Amount, full: Amount) -> Amount:
    """The amount for this run."""
    return {"thin": thin, "long": long, "full": full}[LENGTH]


def some(cases: Iterable[Case], thin: int) -> list[Case]:
    """All cases of a rig, or in a thin run so many of them, from the first to the last."""
    every = list(cases)
    return every if LENGTH != "thin" else every[:: -(-len(every) // thin)]


class BodyCount(Struct):
    """The bodies of one storage class that a rig pushed."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int | None = 0
    """How often a retried push was stored twice; None where pushes are not retried."""


def record_bodies(
    record: Record, engine: str, seed: int, kills: int, counts: Mapping[str, BodyCount]
) -> None:
    """Report a rig that kills an engine or its writers: a row of the table for each body class."""
    for body_class, found in counts.items():
        doubled = "-" if found.doubled is None else found.doubled
        figures = (kills, found.acknowledged, found.lost, doubled, seed)
        record(f"{BODIES}|{engine}|{body_class}", " ".join(map(str, figures)))


INTRODUCTION = """\
# Reliability

Acknowledged content survives the kill of a writer or of an engine. The figures on this page come
from tests that kill real processes; `make proof` writes the page.

## Bodies

Writers push bodies of every storage class while they, or their engine, are repeatedly killed with
SIGKILL. Afterwards each acknowledged body is pulled through a new connection and compared by its
SHA-256, and `relay verify` reads all others.

- `row`: up to 32 KiB, stored in a row of the ledger
- `blob`: 40 to 300 KB, a file, an object or a blob of a few pieces
- `pieces`: sent as a stream of chunks
- `parts`: a body that was joined from other bodies
- `objects`: over 8 MiB, several objects of a bucket

*Lost* counts acknowledged bodies that are missing or different. *Doubled* counts pushes that were
retried with one idempotency key until they were acknowledged, and were stored more than once ("-":
killed writers do not retry). When an engine is killed, each push also publishes a signal: a push
without its signal counts as lost, one with two signals as doubled.
"""
REPEAT = """\
## Repeat it

<!-- not run: it takes minutes to hours, in a clone -->
```sh
make test    # a thin slice
make rigs    # longer, as CI does
make proof   # all of it, hours; writes this page
RELAY_RIGS=full .venv/bin/python -m pytest tests/store/failover/test_killed_bodies.py -k postgres
.venv/bin/python -m tests.crash --rounds 3000 --seed 7    # writers of SQLite and files
```

A seed determines the bodies and the moments of the kills; the effect of a kill also depends on the
machine.

Not covered: a power loss (tests/crash/test_power.py models it for SQLite and files), a PostgreSQL
standby that is promoted without synchronous replication, and Valkey with `appendfsync everysec`,
which may lose up to two seconds of acknowledged writes when it is killed.
"""


def page(report: str) -> Iterator[str]:
    """The figures of a run, as Markdown."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    yield INTRODUCTION
    yield f"Last run: {datetime.now(UTC):%Y-%m-%d}."
    yield ""
    yield "| engine | body class | kills | acknowledged | lost | doubled | seed |"
    yield "|---|---|---|---|---|---|---|"
    for case in cases:
        for name, value in _figures(case):
            if name.startswith(BODIES):
                yield f"| {' | '.join([*name.split('|')[1:], *value.split()])} |"
    yield ""
    yield REPEAT
    yield "## All rigs of the run"
    yield ""
    yield "| rig | result | seconds | figures |"
    yield "|---|---|---|---|"
    for case in cases:
        failed = case.find("failure") is not None or case.find("error") is not None
        result = "FAILED" if failed else "skipped" if case.find("skipped") is not None else "passed"
        figures = [f"{name} {value}" for name, value in _figures(case) if BODIES not in name]
        module = (case.get("classname") or "").removeprefix("tests.")
        seconds = float(case.get("time") or 0)
        yield f"| {module} {case.get('name')} | {result} | {seconds:.0f} | {', '.join(figures)} |"


def _figures(case: ElementTree.Element) -> list[tuple[str, str]]:
    return [(each.get("name") or "", each.get("value") or "") for each in case.iter("property")]


if __name__ == "__main__":
    print("\n".join(page(sys.argv[1])))
