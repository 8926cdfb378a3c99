"""docs/python.md says what the clients take, and names every public name."""

from __future__ import annotations

from pathlib import Path

import contextrelay
from tests.docs.python_page import page

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_is_up_to_date() -> None:
    text = "run: .venv/bin/python -m tests.docs.python_page > docs/python.md"

    assert PAGE.read_text() == page(), text


def test_every_public_name_and_every_method_is_on_the_page() -> None:
    words = page()

    for name in contextrelay.__all__:
        assert f"`{name}`" in words or f"# {name}" in words or f"and {name}" in words, name
    for name in ("relay.push", "relay.wait", "thread.add_fact", "thread.resolve", "hub.push"):
        assert f"### {name}\n" in words, name
