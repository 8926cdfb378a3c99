"""A real model on a thread: SmolLM2 behind an endpoint that speaks as OpenAI does.

It is too small to use tools, so none are offered; what it says is its own business.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contextrelay import Relay
from tests.real_model import smollm2
from tests.rigs import long_only, rig

MODEL = "openai:smollm2"
SHORT = "You answer in one sentence."


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with smollm2() as url:
        yield url


@pytest.fixture
def relay(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Relay("memory:") as relay:
        yield relay


@rig
@long_only
def test_a_real_model_answers_piece_by_piece_and_is_counted(relay: Relay) -> None:
    """Promises X1 and X2: any compatible base URL, its own count of tokens, the answer stored."""
    thread = relay.thread("colours")
    thread.put("The sky over the harbour is green today.", name="sky.md")

    with thread.run_stream(
        "Which colour has the sky?", MODEL, system=SHORT, rounds_max=1, output_tokens_max=24
    ) as stream:
        pieces = list(stream)
    result = stream.result

    assert result is not None
    assert result.ref is not None
    assert len(pieces) > 1
    assert "".join(pieces) == result.text == relay.pull(result.ref).decode()
    assert (result.tokens.basis, result.price) == ("measured", None)
    assert 0 < result.tokens.output <= 24 < result.tokens.input
    assert relay.peek(result.ref).provenance.created_by == MODEL
    assert "run.finished" in [each.event.type for each in thread.events()]

    again = thread.run("And again?", MODEL, system=SHORT, rounds_max=1, output_tokens_max=8)
    assert again.tokens.input > result.tokens.input  # It was shown what was said before.


@rig
@long_only
def test_a_real_model_that_is_stopped_ends_there_and_answers_the_next(relay: Relay) -> None:
    """Promise X1: what came is kept, and the call of the only slot has ended."""
    thread = relay.thread("stopped")

    with thread.run_stream(
        "Tell a long story.", MODEL, system=SHORT, rounds_max=1, output_tokens_max=2_000
    ) as stream:
        first = next(stream)
    following = thread.run("Hello?", MODEL, system=SHORT, rounds_max=1, output_tokens_max=8)

    assert stream.result is not None
    assert stream.result.status == "interrupted"
    assert stream.result.text.startswith(first)
    assert following.status == "finished"
