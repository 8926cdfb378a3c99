"""Counting by a table of ranks: the tokenizer's own count, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contextrelay.content.tokens import count_tokens
from contextrelay.limits import PAIRS_PIECE_BYTES_MAX
from contextrelay.project.byte_pairs import Pairs
from contextrelay.project.user_cache import table_path, token_counter

SIGNS = "\t\n\r '/.-_#|:;,(){}[]\"`*<>&%$@!?=+~^\\×–—‘’“”•…→✔✗⚠"
WORDS = (
    "TODO-001",
    "in_progress",
    "don't",
    "I'LL",
    "OAuth2",
    "zzqx",
    "Überraschung",
    "naïve",
    "ÀÉ",
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        token_counter()
        return Pairs(memoryview(table_path().read_bytes()))


texts = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.text(st.sampled_from(SIGNS), max_size=6),
        st.text(
            st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=("Cc",)),
            max_size=12,
        ),
        st.integers(0, 10**7).map(str),
    ),
    max_size=20,
).map("".join)


@given(text=texts)
@example(text="")
@example(text="it's IT'S it'S\r\n\r\n  //\n /* x */ \t \n")
@example(text="1234567 12 A1b2 <|endoftext|>")
def test_a_count_by_the_table_is_the_tokenizers_own(pairs: Pairs, text: str) -> None:
    """Promise J4."""
    counted = pairs.count(text)

    assert counted is None or counted == count_tokens(text)


def test_what_projects_say_is_counted_without_the_tokenizer(pairs: Pairs) -> None:
    brief = Path(__file__).parents[2].joinpath("docs", "project.md").read_text()

    assert pairs.count(brief) == count_tokens(brief)


@pytest.mark.parametrize("text", ["部署", "ſ", "x" * (PAIRS_PIECE_BYTES_MAX + 1), "\x1b"])
def test_what_is_not_known_here_is_left_to_the_tokenizer(pairs: Pairs, text: str) -> None:
    assert pairs.count(text) is None
    assert pairs.count("plain") == 1


def test_a_damaged_table_is_rebuilt_and_the_count_stays_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    token_counter()
    whole = table_path().read_bytes()
    table_path().write_bytes(whole[:-1])

    assert token_counter()("Überraschung zzqx") == count_tokens("Überraschung zzqx")

    assert table_path().read_bytes() == whole


def test_slots_that_lead_nowhere_are_left_to_the_tokenizer(pairs: Pairs) -> None:
    table = bytearray(pairs._table)  # pyright: ignore[reportPrivateUsage]
    table[32 : 32 + (4 << 19)] = b"\xff" * (4 << 19)

    assert Pairs(memoryview(bytes(table))).count("zzqx") is None


def test_a_cache_that_cannot_be_written_changes_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert token_counter()("Überraschung zzqx") == count_tokens("Überraschung zzqx")
