"""Prices that an owner puts over the table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.errors import Invalid
from contextrelay.runs.prices import PRICES, PRICES_BYTES_MAX, price, prices_here
from contextrelay.runs.provider import Tokens


def test_prices_in_the_home_folder_go_over_the_table(tmp_path: Path) -> None:
    """Promise X2."""
    environ = {"RELAY_HOME": str(tmp_path)}
    assert prices_here(environ) == PRICES

    (tmp_path / "prices.json").write_text('{"mine": {"input": "0.5", "output": 2}}')

    assert price(Tokens(input=2_000_000), "mine", prices_here(environ)) == Decimal(1)
    assert price(Tokens(input=1), "gpt-6-sol", prices_here(environ)) is not None


@pytest.mark.parametrize("text", ["{", "x" * (PRICES_BYTES_MAX + 1)])
def test_prices_that_cannot_be_used_are_named_by_their_file(text: str, tmp_path: Path) -> None:
    """Promise X2."""
    (tmp_path / "prices.json").write_text(text)

    with pytest.raises(Invalid, match=r"prices\.json"):
        prices_here({"RELAY_HOME": str(tmp_path)})


def test_a_run_is_priced_by_its_owners_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise X2."""
    monkeypatch.setenv("RELAY_HOME", str(tmp_path))
    with Relay("memory:") as relay:
        thread = relay.thread("notes")
        unpriced = thread.run("hello", model="echo")
        (tmp_path / "prices.json").write_text('{"echo-1": {"input": 1, "output": 1}}')

        priced = thread.run("hello", model="echo")
        (tmp_path / "prices.json").write_text("{")
        with pytest.raises(Invalid, match=r"prices\.json"):
            thread.run("hello", model="echo")

    assert unpriced.price is None
    assert priced.price is not None
    assert Decimal(priced.price) > 0
