"""The reference: docs/cli.md says what the parsers take."""

from __future__ import annotations

from pathlib import Path

from contextrelay.cli.command_table import every_command, overview
from contextrelay.cli.parser import command
from contextrelay.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date() -> None:
    text = "run: .venv/bin/python -m contextrelay.cli.reference > docs/cli.md"

    assert PAGE.read_text() == reference(), text


def test_every_command_has_a_parser_a_docstring_and_a_line_of_help() -> None:
    for name, entry in every_command():
        parser, act = command(name, entry)
        assert (act.__doc__ or "").strip().endswith((".", "...")), name
        assert parser.prog == f"relay {name}"
        assert entry.help
        assert name in overview()
