"""The ledger: durable appends against raw ones, alone and grouped, up to a million facts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from bench.measure import Curve, Result, each, faster, flat, interleaved, timed
from contextrelay.store.ledger import Write
from contextrelay.store.ledger.sqlite import SqliteLedger

FACT = os.urandom(300)
APPENDS = 400
THREADS = 16
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    yield from appends(folder / "append")
    yield from growth(folder / "growth")


def appends(folder: Path) -> Iterator[Result]:
    ledger = SqliteLedger(folder / "relay.db")
    raw = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def raw_append(index: int) -> None:
        os.write(raw, FACT)
        os.fdatasync(raw)

    def append(index: int) -> None:
        ledger.commit(Write("t/one", (FACT,)))

    def many() -> None:
        for index in range(APPENDS):
            append(index)

    def grouped() -> float:
        threads = [Thread(target=many) for _ in range(THREADS)]

        def run() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return timed(run) / (APPENDS * THREADS) * 1e6

    ours, anchor = interleaved(lambda: each(append, APPENDS), lambda: each(raw_append, APPENDS))
    yield faster("append a fact of 300 B / append + fdatasync", ours, anchor, "us", 0.5)
    ours, anchor = interleaved(grouped, lambda: each(raw_append, APPENDS))
    yield faster(f"append from {THREADS} threads / append + fdatasync", ours, anchor, "us", 2.5)
    os.close(raw)
    ledger.close()


def growth(folder: Path) -> Iterator[Curve]:
    ledger = SqliteLedger(folder / "relay.db")
    append_us: dict[str, float] = {}
    read_us: dict[str, float] = {}
    head = 0
    for size in SIZES:
        while head < size:
            head = ledger.commit(Write("t/one", (FACT,) * min(10_000, size - head)))[0]

        def append(index: int) -> None:
            ledger.commit(Write("t/one", (FACT,)))

        def read(index: int) -> None:
            ledger.read("t/one", ledger.last("t/one") - 10, 10)

        append_us[f"{size:,}"] = each(append, APPENDS)
        read_us[f"{size:,}"] = each(read, APPENDS * 5)
        head = ledger.last("t/one")
    yield flat("append, by facts in the log", append_us, "us", 1.5)
    yield flat("read the last 10, by facts in the log", read_us, "us", 1.5)
    ledger.close()
