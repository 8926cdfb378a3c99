"""Documents: what the demo's agents work on. Three are files next to this one, two are made here.

Rule: the same bytes on every machine. The log and the gateway's export show one morning: 180
orders are charged, the gateway is slow for a while, and eleven customers pay twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, NamedTuple

NAMES = ("notes.md", "spec.md", "checkout.ts", "worker.log", "gateway.json")
ORDERS = 180
DOUBLE_CHARGED = (31, 38, 44, 52, 59, 67, 73, 80, 88, 95, 101)
_START_MS = (9 * 60 + 12) * 60_000
_SLOW = range(26, 108)


def document(name: str) -> str:
    """The text of a document."""
    if name == "worker.log":
        return "".join(f"{line}\n" for line in _log())
    if name == "gateway.json":
        return json.dumps({"export": "charges", "day": "Monday", "charges": _charges()}, indent=1)
    return (resources.files("contextrelay.demo") / "documents" / name).read_text(encoding="utf-8")


class Request(NamedTuple):
    """One request to the gateway, as both sides saw it."""

    order: str
    try_index: int
    sent_ms: int
    took_ms: int
    is_answered: bool
    amount: int
    method: str


def requests() -> Iterator[Request]:
    """Every request of the morning, in order."""
    dice = _Dice(41)
    now_ms = _START_MS
    for number in range(ORDERS):
        now_ms += 15_000 + dice.below(45_000)
        order = f"ord_{7_300 + number}"
        amount, method = 900 + dice.below(24_000), ("card", "card", "card", "wallet")[dice.below(4)]
        if number in DOUBLE_CHARGED:
            # The gateway charges, and its answer comes after we have stopped to wait for it.
            yield Request(order, 0, now_ms, 5_400 + dice.below(2_300), False, amount, "card")
            yield Request(order, 1, now_ms + 5_200, 320 + dice.below(900), True, amount, "card")
        else:
            slow_ms = dice.below(3_200) if number in _SLOW else 0
            yield Request(order, 0, now_ms, 140 + dice.below(260) + slow_ms, True, amount, method)


class _Dice:
    """Numbers that look like chance, and are the same every time."""

    def __init__(self, seed: int) -> None:
        self._last = seed

    def below(self, bound: int) -> int:
        self._last = (self._last * 1_103_515_245 + 12_345) % 2**31
        return (self._last >> 8) % bound


def _clock(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1_000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{milliseconds:03}"


def _log() -> Iterator[str]:
    yield f"{_clock(_START_MS - 90_000)} INFO  release 41 starts, 3 workers, lease 30 s"
    for index, each in enumerate(requests()):
        worker = f"worker-{1 + int(each.order[-4:]) % 3}"
        head = f"{worker} order={each.order} try={each.try_index}"
        at_ms = each.sent_ms
        if each.try_index == 0:
            yield f"{_clock(at_ms - 40)} INFO  charge.begin    {head} amount={each.amount}"
        if each.is_answered:
            done = f"{_clock(at_ms + each.took_ms)}"
            yield f"{done} INFO  charge.answer   {head} ms={each.took_ms} state=approved"
            yield f"{done} INFO  charge.decided  {head} state=approved rows=1"
        else:
            late = _clock(at_ms + 5_000)
            yield f"{late} WARN  charge.retry    {head} error=timeout after 5000 ms"
        if index % 40 == 39:
            yield f"{_clock(at_ms + 9_000)} INFO  lease.renewed   {worker} orders=3"
    yield f"{_clock(_START_MS + 7_300_000)} INFO  orders.events   published=360 lag_ms=12"


def _charges() -> list[dict[str, Any]]:
    """What the gateway saw: each request with the key that came with it."""
    return [
        {
            "id": f"ch_{90_000 + index}",
            "reference": each.order,
            "key": f"charge:{each.order}:1:{each.sent_ms}",
            "amount": each.amount,
            "method": each.method,
            "state": "approved",
            "received_at": _clock(each.sent_ms + 60),
        }
        for index, each in enumerate(requests())
    ]
