"""Outlines of JSON: maps from names to what each has."""

from __future__ import annotations

import json

from tests.content.outline.drawing import outlined


def test_names_of_records_are_no_fields() -> None:
    """Promise L1: also where each record has a few of them below, as packages have others."""
    names = [f"{first}{last}-part" for first in "abcdefghijklmnop" for last in "qrstuvwxyz"]
    packages = {
        f"parts/{name}": {"version": "1.0.0", "needs": dict.fromkeys(names[at : at + 3], "^1.0.0")}
        for at, name in enumerate(names)
    }
    text = outlined(json.dumps({"format": 3, "packages": packages}), "a.json").text

    assert " format = 3\n packages: {} (160 keys)\n  map of 160 keys: parts/aq-part" in text
    assert '  each value: object\n   version: str "1.0.0"\n   needs: {}\n' in text
    assert '    map of 160 keys: aq-part = "^1.0.0", ar-part' in text
    assert "also: " not in text
