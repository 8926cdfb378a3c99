"""Digests of output: an error is shown, however little room there is."""

from __future__ import annotations

import pytest

from contextrelay.content.output_digest import OutputDigest
from contextrelay.content.tokens import count_tokens


@pytest.mark.parametrize("tokens_max", [60, 80, 200])
@pytest.mark.parametrize("length", [20, 120, 400])
def test_an_error_line_is_shown_before_both_ends(tokens_max: int, length: int) -> None:
    """Promise X3: also where it alone takes more than half of the room."""
    lines = [f"line {number} of an ordinary output" for number in range(300)]
    lines[150] = f"ERROR: {'the disk is full ' * 30}"[:length]
    digest = OutputDigest()
    digest.feed("\n".join(lines).encode())

    text = digest.text(tokens_max, "exit 1, 300 lines", count_tokens)

    assert "151: ERROR: the d" in text
    assert count_tokens(text) <= tokens_max
