"""Digests: what went wrong comes before the first and the last lines, within any room."""

from __future__ import annotations

import pytest

from contextrelay.content.artifact_type import artifact_type
from contextrelay.content.overview import BodyDigest, digest
from contextrelay.content.source import Source
from contextrelay.content.tokens import count_tokens
from tests.content.outline.test_run_tools import SHOWN
from tests.content.outline.test_traces import QUIET, SAID, TRACES


def _digest(text: str, tokens_max: int) -> BodyDigest:
    body = text.encode()
    kind, media_type = artifact_type(None, None, body, True)
    return digest(Source.of(body, media_type, "", len(body)), kind, tokens_max)


@pytest.mark.parametrize("language", TRACES)
def test_a_digest_shows_what_was_raised_and_where(language: str) -> None:
    """Promise L2: of a trace alone, and of one in the middle of a log."""
    alone = _digest(TRACES[language] * 9, 150)
    within = _digest("\n".join([*QUIET * 5, TRACES[language], *QUIET * 5]), 250)

    assert SAID[language][0] in alone.text
    assert SAID[language][0] in within.text


@pytest.mark.parametrize("tool", SHOWN)
def test_a_digest_shows_which_tests_failed(tool: str) -> None:
    """Promise L2: whatever else was printed."""
    text, *said = SHOWN[tool]
    lines = "".join(f"the server answered request {n}\n" for n in range(300))
    is_whole = text.startswith(("{", "<"))  # With other lines it would not be what it is.

    shown = _digest(text if is_whole else text + lines, 150).text

    for each in said:
        assert each.strip() in shown


@pytest.mark.parametrize("tokens_max", [20, 60, 150, 400])
def test_a_digest_is_never_longer_than_asked(tokens_max: int) -> None:
    """Promise L2."""
    texts = [*TRACES.values(), *(text for text, *_ in SHOWN.values())]
    for text in (*texts, *(each * 20 for each in texts)):
        shown = _digest(text, tokens_max)

        assert count_tokens(shown.text) == shown.tokens <= tokens_max
