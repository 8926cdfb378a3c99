"""The tally of a run: what its calls took, together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from contextrelay.model.run import Tokens
from contextrelay.runs.prices import Rates, price
from contextrelay.runs.provider import Reply


class Tally:
    """Calls, tokens, price and time of a run, as it goes on."""

    def __init__(self, prices: Mapping[str, Rates]) -> None:
        self.rounds = 0
        self._prices = prices
        self._costs: list[Decimal | None] = []
        self._tokens: list[Tokens] = []
        self._started_s = time.monotonic()

    @property
    def price(self) -> str | None:
        """In US dollars; None where that of a call is not known, or where there was no call."""
        known = [cost for cost in self._costs if cost is not None]
        if not known or len(known) < len(self._costs):
            return None
        return spell_price(sum(known, Decimal(0)))

    @property
    def duration_ms(self) -> int:
        return since_ms(self._started_s)

    @property
    def tokens(self) -> Tokens:
        every = self._tokens
        return Tokens(
            input=sum(each.input for each in every),
            output=sum(each.output for each in every),
            cache_read=sum(each.cache_read for each in every),
            cache_write=sum(each.cache_write for each in every),
            basis="estimated" if any(each.basis == "estimated" for each in every) else "measured",
        )

    def add(self, reply: Reply) -> dict[str, Any]:
        """Count a call; what its event says of it."""
        cost = price(reply.tokens, reply.model, self._prices)
        self._tokens.append(reply.tokens)
        self._costs.append(cost)
        return {**_fields(reply.tokens), "price": spell_price(cost)}

    def lose(self) -> None:
        """Count a call that failed: what it took, nobody says."""
        self._costs.append(None)

    def fields(self) -> dict[str, Any]:
        """What the event at the end of a run says of it."""
        return {
            "rounds": self.rounds,
            **_fields(self.tokens),
            "price": self.price,
            "duration_ms": self.duration_ms,
        }


def spell_price(price: Decimal | None) -> str | None:
    """A price as events and results have it: digits, and never an exponent."""
    return None if price is None else f"{price.normalize():f}"


def since_ms(started_s: float) -> int:
    return round((time.monotonic() - started_s) * 1000)


def _fields(tokens: Tokens) -> dict[str, Any]:
    return {
        "tokens_in": tokens.input,
        "tokens_out": tokens.output,
        "cache_read": tokens.cache_read,
        "cache_write": tokens.cache_write,
        "basis": tokens.basis,
    }
