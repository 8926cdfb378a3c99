"""Tokens: counted as the tokenizer's maker counts them, cut whole, and never by an attack."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay import Invalid
from contextrelay.content.tokens import count_tokens, cut_to_tokens, estimate_tokens, measure
from contextrelay.limits import MIB, TOKEN_PIECE_CHARS

# Counted by tiktoken 0.12: o200k_base, then cl100k_base.
COUNTED = (
    ("", 0, 0),
    ("a", 1, 1),
    ("Hello, world!", 4, 4),
    ("<|endoftext|>", 7, 7),
    ("it's THEY'LL we'd", 5, 7),
    ("1234567890 3.14159", 9, 9),
    ("    def f(x):\n\treturn x  # why?\n\n\n", 11, 11),
    ("中文文本，没有空格。", 6, 9),
    ("ไทยไทย русский текст", 4, 11),
    ("👍🏽👨\u200d👩\u200d👧\u200d👦", 14, 24),
    ("e\u0301 café", 3, 3),
    ("a//b\n//c;\n/d", 8, 8),
    ('{"key": [1, 2.5e-7, null], "k2": "v\\n"}', 24, 24),
    ("\r\n\r\n \t \n", 3, 3),
)


@pytest.mark.parametrize(("text", "o200k", "cl100k"), COUNTED)
def test_counts_are_those_of_the_tokenizer(text: str, o200k: int, cl100k: int) -> None:
    """Promise U1: measured with a real tokenizer, a marker of theirs read as the text it is."""
    assert count_tokens(text) == o200k
    assert count_tokens(text, "cl100k_base") == cl100k
    assert measure(text).basis == "measured"


def test_a_long_text_is_counted_in_pieces_to_the_same_number() -> None:
    """Promise U1."""
    unit = "It's 12 words; они разные，中文。\n\n  def f(a1b2):\n\t//x\n"
    apart = unit * (3 * TOKEN_PIECE_CHARS // len(unit))

    # Each unit ends and begins where tokens must, so the whole is as many as its parts.
    assert measure(apart).tokens == count_tokens(unit) * (3 * TOKEN_PIECE_CHARS // len(unit))
    assert measure(apart).basis == "measured"


@pytest.mark.parametrize("sign", ["x", " ", "中", "=", "👍"])
def test_a_run_without_end_is_estimated_and_says_so(sign: str) -> None:
    """Promise U1: each figure marked measured or estimated."""
    found = measure(sign * (4 * MIB))

    assert found.basis == "estimated"
    part = count_tokens(sign * 100_000)
    assert found.tokens == pytest.approx(part * 4 * MIB / 100_000, rel=0.05)


@given(st.text(max_size=2_000), st.integers(0, 300))
def test_a_cut_is_a_beginning_within_the_budget(text: str, tokens_max: int) -> None:
    kept = cut_to_tokens(text, tokens_max)

    assert text.startswith(kept)
    assert count_tokens(kept) <= tokens_max
    if count_tokens(text) <= tokens_max:
        assert kept == text


def test_a_cut_wastes_little_of_the_budget() -> None:
    text = "Everything that is worth doing takes 3.5 times as long. " * 500

    for tokens_max in (10, 100, 1_000):
        assert tokens_max - 2 <= count_tokens(cut_to_tokens(text, tokens_max)) <= tokens_max


@given(st.text())
def test_half_a_character_pair_counts_as_a_replacement(text: str) -> None:
    assert count_tokens(f"{text}\ud800") == count_tokens(f"{text}?")


def test_an_estimate_is_near_for_prose_code_and_logs() -> None:
    texts = (
        "The quick brown fox jumps over the lazy dog, and nobody minds it at all.\n" * 500,
        "def area(self, width: int) -> int:\n    return self.width * width + 1\n\n" * 500,
        "2026-01-05 10:00:01,123 INFO [worker-12] request 8231 took 12.5 ms\n" * 500,
    )

    for text in texts:
        assert estimate_tokens(text) == pytest.approx(count_tokens(text), rel=0.2)
    assert estimate_tokens(4_000) == 1_000


def test_a_tokenizer_that_is_not_known_is_refused() -> None:
    with pytest.raises(Invalid, match="unknown tokenizer p50k"):
        count_tokens("a", "p50k")  # pyright: ignore[reportArgumentType]
