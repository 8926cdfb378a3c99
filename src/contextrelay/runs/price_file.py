"""Prices of models as this machine has them: the table, and what its owner put over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contextrelay.errors import Invalid
from contextrelay.limits import PRICES_BYTES_MAX
from contextrelay.runs.prices import PRICES, Rates, read_prices
from contextrelay.runs.providers.account import home_folder

PRICES_NAME = "prices.json"


def prices_here(environ: Mapping[str, str]) -> Mapping[str, Rates]:
    """The table, with `prices.json` of RELAY_HOME (else ~/.relay) over it.

    Raises:
        Invalid: the file cannot be used.
    """
    home = home_folder(environ)
    path = None if home is None else home / PRICES_NAME
    try:
        text = b"" if path is None else _read(path)
    except FileNotFoundError:
        return PRICES
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", "repair or delete it") from error
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
        raise Invalid(f"{path} is too long", f"at most {PRICES_BYTES_MAX:,} bytes")
    return text
