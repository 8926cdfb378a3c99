"""Prices: the cost of model calls, in US dollars.

Rule: an unknown price is None, never 0. The built-in table has the vendors' list prices as of its
date, for models whose prices were found. `read_prices` overrides them with the owner's prices.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, ValidationError
from msgspec.json import decode

from contextrelay.errors import Invalid
from contextrelay.limits import KIB, LABEL_CHARS_MAX
from contextrelay.model.run import Tokens
from contextrelay.runs.provider import Reply
from contextrelay.runs.providers.registry import home_folder

PRICED_MODELS_MAX = 1_000
PRICES_BYTES_MAX = 256 * KIB


PRICES_DATE = "2026-11-16"
MILLION = 1_000_000
# The suffix of a model name that is the date of a snapshot of the model.
_SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})")


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of one model, in US dollars per million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    input_tokens_max: int | None = None
    """The longest prompt, in tokens, for these rates. For a longer prompt, `above` applies to all
    its tokens.
    """
    above: Rates | None = None


class CallCost(Protocol):
    """The token counts of a call. `input` counts all tokens that were read, cached or not."""

    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cache_read(self) -> int: ...
    @property
    def cache_write(self) -> int: ...


class Estimate(NamedTuple):
    """The price of one call: without a cache, with a cache for the first call, and with a cache for
    later calls.
    """

    uncached: Decimal | None
    first: Decimal | None
    later: Decimal | None


def price(spent: CallCost, model: str, table: Mapping[str, Rates]) -> Decimal | None:
    """Return the price of a call in US dollars, or None if the price of the model, or of a part of
    the call, is unknown.
    """
    rates = _rates(model, spent.input, table)
    if rates is None:
        return None
    fresh = spent.input - spent.cache_read - spent.cache_write
    total = max(fresh, 0) * rates.input + spent.output * rates.output
    for count, rate in (
        (spent.cache_read, rates.cache_read),
        (spent.cache_write, rates.cache_write),
    ):
        if count and rate is None:
            return None
        total += count * (rate or 0)
    return total / MILLION


class _Guess(NamedTuple):
    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


def estimate(
    stable_tokens: int,
    fresh_tokens: int,
    output_tokens: int,
    model: str,
    table: Mapping[str, Rates],
) -> Estimate:
    """Return the estimated price of a prompt of which the first `stable_tokens` may be cached."""
    whole = stable_tokens + fresh_tokens
    return Estimate(
        price(_Guess(whole, output_tokens), model, table),
        price(_Guess(whole, output_tokens, cache_write=stable_tokens), model, table),
        price(_Guess(whole, output_tokens, cache_read=stable_tokens), model, table),
    )


def read_prices(text: bytes) -> dict[str, Rates]:
    """Return the price table with the owner's prices applied. `text` is a JSON object that maps
    model names to rates.

    Raises:
        Invalid: the JSON is invalid.
    """
    try:
        own = decode(text, type=dict[str, Rates], strict=False)
    except (ValidationError, ValueError) as error:
        raise Invalid(
            f"invalid prices: {error}",
            'for example {"MODEL": {"input": "2.50", "output": "10"}}, dollars per million tokens',
        ) from error
    _check(own)
    return {**PRICES, **own}


def _check(own: Mapping[str, Rates]) -> None:
    if len(own) > PRICED_MODELS_MAX:
        raise Invalid(
            f"too many models with prices: {len(own):,}",
            f"the limit is {PRICED_MODELS_MAX:,} (PRICED_MODELS_MAX)",
        )
    for model, rates in own.items():
        each = (rates.input, rates.output, rates.cache_read, rates.cache_write)
        known = [rate for rate in each if rate is not None]
        if (
            not model
            or len(model) > LABEL_CHARS_MAX
            or not all(rate.is_finite() and 0 <= rate < MILLION for rate in known)
        ):
            raise Invalid(
                f"invalid price of {model[:LABEL_CHARS_MAX]!r}",
                "use dollars per million tokens, at least 0",
            )


def _rates(model: str, input_tokens: int, table: Mapping[str, Rates]) -> Rates | None:
    rates = table.get(model) or table.get(_SNAPSHOT.sub("", model))
    while rates is not None and input_tokens > (rates.input_tokens_max or input_tokens):
        rates = rates.above
    return rates


def _of(input_: str, output: str, cache_read: str, cache_write: str) -> Rates:
    return Rates(
        input=Decimal(input_),
        output=Decimal(output),
        cache_read=Decimal(cache_read),
        cache_write=Decimal(cache_write),
    )


def _banded(low: Rates, input_tokens_max: int, above: Rates | None) -> Rates:
    return Rates(
        input=low.input,
        output=low.output,
        cache_read=low.cache_read,
        cache_write=low.cache_write,
        input_tokens_max=input_tokens_max,
        above=above,
    )


# GPT-6: if a prompt is longer, all input costs twice as much, and all output costs 1.5 times as
# much.
_GPT_SHORT = 272_000

# The columns are input, output, cache read and cache write (of a cache that lives for minutes). The
# sources are the vendors' pages on prices and models, which docs/providers.md lists.
PRICES: Mapping[str, Rates] = MappingProxyType(
    {
        "claude-fable-5-1": _of("10", "50", "0.25", "12.50"),
        "claude-fable-5": _of("10", "50", "1", "12.50"),
        "claude-opus-5-5": _of("4", "20", "0.20", "5"),
        "claude-opus-5": _of("5", "25", "0.50", "6.25"),
        "claude-opus-4-8": _of("5", "25", "0.50", "6.25"),
        "claude-opus-4-7": _of("5", "25", "0.50", "6.25"),
        "claude-opus-4-6": _of("5", "25", "0.50", "6.25"),
        "claude-opus-4-5": _of("5", "25", "0.50", "6.25"),
        "claude-sonnet-5-5": _of("2", "10", "0.10", "2.50"),
        "claude-sonnet-5": _of("2", "10", "0.20", "2.50"),
        "claude-sonnet-4-6": _of("3", "15", "0.30", "3.75"),
        "claude-sonnet-4-5": _of("3", "15", "0.30", "3.75"),
        "claude-haiku-5-5": _banded(
            _of("0.10", "0.50", "0.01", "0.125"), 100_000, _of("0.50", "2.50", "0.05", "0.625")
        ),
        "claude-haiku-4-5": _of("1", "5", "0.10", "1.25"),
        "gpt-6-astra": _banded(
            _of("10", "50", "1", "12.50"), _GPT_SHORT, _of("20", "75", "2", "25")
        ),
        "gpt-6.1-sol": _banded(
            _of("2", "10", "0.10", "2.50"), _GPT_SHORT, _of("4", "15", "0.20", "5")
        ),
        "gpt-6-sol": _banded(
            _of("2", "10", "0.20", "2.50"), _GPT_SHORT, _of("4", "15", "0.40", "5")
        ),
        # The higher price of longer prompts was not found.
        "gpt-6.1-terra": _banded(_of("1", "5", "0.05", "1.25"), _GPT_SHORT, None),
        "gpt-6-luna": _banded(
            _of("0.10", "0.50", "0.01", "0.125"), _GPT_SHORT, _of("0.20", "0.75", "0.02", "0.25")
        ),
    }
)


PRICES_NAME = "prices.json"


def prices_here(environ: Mapping[str, str]) -> Mapping[str, Rates]:
    """Return the price table with the prices of `prices.json` in RELAY_HOME (default: ~/.relay)
    applied.

    Raises:
        Invalid: the file is invalid.
    """
    home = home_folder(environ)
    path = None if home is None else home / PRICES_NAME
    try:
        text = b"" if path is None else _read(path)
    except FileNotFoundError:
        return PRICES
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", "repair or delete it") from error
    if not text:
        return PRICES
    try:
        return read_prices(text)
    except Invalid as error:
        raise Invalid(f"{path}: {error.message}", error.hint) from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(PRICES_BYTES_MAX + 1)
    if len(text) > PRICES_BYTES_MAX:
        raise Invalid(f"{path} is too long", f"the limit is {PRICES_BYTES_MAX:,} bytes")
    return text


class Tally:
    """The running totals of a run: calls, tokens, price and time."""

    def __init__(self, prices: Mapping[str, Rates]) -> None:
        self.rounds = 0
        self._prices = prices
        self._costs: list[Decimal | None] = []
        self._tokens: list[Tokens] = []
        self._started_s = time.monotonic()

    @property
    def price(self) -> str | None:
        """Return the total price in US dollars, or None if the price of a call is unknown or there
        was no call.
        """
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
        """Add a call to the totals, and return the costs of the call as event fields."""
        cost = price(reply.tokens, reply.model, self._prices)
        self._tokens.append(reply.tokens)
        self._costs.append(cost)
        return {**_fields(reply.tokens), "price": spell_price(cost)}

    def lose(self) -> None:
        """Count a failed call, whose costs are unknown."""
        self._costs.append(None)

    def fields(self) -> dict[str, Any]:
        """Return the totals as fields of the final event of a run."""
        return {
            "rounds": self.rounds,
            **_fields(self.tokens),
            "price": self.price,
            "duration_ms": self.duration_ms,
        }


def spell_price(price: Decimal | None) -> str | None:
    """Return a price as text for events and results, without an exponent, or None if it is
    unknown.
    """
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
