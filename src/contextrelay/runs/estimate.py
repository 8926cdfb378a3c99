"""Estimates: what a run would send, part by part, with its tokens and its price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.json import encode

from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.runs.bundle import Bundle
from contextrelay.runs.prices import Rates, estimate
from contextrelay.runs.provider import Provider
from contextrelay.runs.tally import spell_price
from contextrelay.runs.tools import tools_with


class PartSize(Struct, frozen=True):
    """A part of what is sent, and its tokens."""

    name: str
    tokens: int
    is_stable: bool
    """Whether a prompt cache may hold it."""
    text: str


class Estimated(Struct, frozen=True, kw_only=True):
    """What one call would send, and what reading it would cost."""

    bundle: Bundle
    parts: list[PartSize]
    tokens: int
    tokenizer: str
    model: str
    price: str | None
    """Of the input, in US dollars, without a cache; None where no price is known."""
    price_cached_first: str | None
    """With a cache, the time that it is written."""
    price_cached: str | None
    """With a cache, from then on."""

    def view(self) -> dict[str, Any]:
        """The estimate as --json shows it."""
        fields: dict[str, Any] = to_builtins(self)
        del fields["bundle"]
        return {**fields, "refs": list(self.bundle.refs)}


def estimate_bundle(
    bundle: Bundle, provider: Provider, has_files: bool, prices: Mapping[str, Rates]
) -> Estimated:
    """Count what a bundle takes, with the tools that go with it."""
    tools = encode(tools_with(has_files)).decode()
    # A cache ends with a message: in one with the words, nothing of it is held.
    is_apart = len(bundle.messages()) > 1
    parts = [PartSize("tools", count_tokens(tools), True, tools)]
    for part in bundle.parts():
        is_stable = part.is_stable and (is_apart or part.name == "system")
        parts.append(PartSize(part.name, count_tokens(part.text), is_stable, part.text))
    stable = sum(part.tokens for part in parts if part.is_stable)
    fresh = sum(part.tokens for part in parts if not part.is_stable)
    uncached, first, later = estimate(stable, fresh, 0, provider.model, prices)
    return Estimated(
        bundle=bundle,
        parts=parts,
        tokens=stable + fresh,
        tokenizer=TOKENIZER_DEFAULT,
        model=f"{provider.name}:{provider.model}",
        price=spell_price(uncached),
        price_cached_first=spell_price(first),
        price_cached=spell_price(later),
    )
