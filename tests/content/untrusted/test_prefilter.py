"""The fast way of defusing finds what the plain reading of the rules finds, no more and no less."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.phrases import PHRASES as KNOWN
from contextrelay.content.untrusted.phrases import PREFILTER_TEXTS_MIN, may_hold_phrase
from contextrelay.limits import PREVIEW_HEAD_BYTES_MAX
from tests.content import corpus
from tests.content.untrusted.plain_defuse import defuse_plainly
from tests.content.untrusted.test_defuse import ANY_CHARACTER, TRICKY_TEXTS

ROOT = Path(__file__).parents[3]
CORPUS = (*corpus.PHRASES.values(), *corpus.MARKERS.values(), *corpus.INNOCENT)
# The words that phrases are made of: what is put together of them comes near to many.
VOCABULARY = sorted({word for each in KNOWN for word in re.findall(r"[a-z]{2,}", each.source)})
HEADS = sorted({word for each in KNOWN for word in re.findall(r"[a-z]{4,}", each.source[:200])})
FIGURES = str.maketrans("oieast", "013457")


def plain(word: str) -> str:
    return word


def in_figures(word: str) -> str:
    return word.translate(FIGURES)


DISGUISES: tuple[Callable[[str], str], ...] = (
    plain,
    plain,
    str.title,
    str.upper,
    " ".join,
    in_figures,
)
WORDS = st.sampled_from((*VOCABULARY, *HEADS, *CORPUS))


@st.composite
def near_phrases(draw: st.DrawFn) -> str:
    """Words of phrases, some in disguise, one after the other."""
    words = draw(st.lists(WORDS, max_size=12))
    dressed = [draw(st.sampled_from(DISGUISES))(word) for word in words]
    between = draw(st.sampled_from((" ", "", ". ", "\n", "\u200b", " — ")))
    return between.join(dressed)


@pytest.fixture(autouse=True, scope="module")
def past_the_first_texts() -> None:
    """From here on the sieve is used."""
    for _ in range(PREFILTER_TEXTS_MIN):
        may_hold_phrase(b"")
    assert not may_hold_phrase(b"")


def documents() -> list[str]:
    """What people write: prose, code, JSON and tables, in pieces of what a preview looks at."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/content/*.py")]
    texts = [path.read_text(encoding="utf-8") for path in sorted(paths)]
    texts += [path.read_text(encoding="utf-8") for path in ROOT.glob("bench/results/*.json")]
    return [text[:PREVIEW_HEAD_BYTES_MAX] for text in texts]


@given(TRICKY_TEXTS | near_phrases() | st.text(ANY_CHARACTER))
def test_any_text_is_defused_as_the_rules_read(text: str) -> None:
    """Promise A3."""
    defused = defuse(text)

    assert (defused.text, defused.patterns) == defuse_plainly(text)


@pytest.mark.parametrize("text", CORPUS)
@pytest.mark.parametrize("around", ["{}", "x{}x", "Before. {}; and after.", "1 {} — 2é\ufb01 {}"])
def test_what_is_known_is_defused_as_the_rules_read(text: str, around: str) -> None:
    """Promise A3."""
    text = around.replace("{}", text)

    defused = defuse(text)

    assert (defused.text, defused.patterns) == defuse_plainly(text)


def test_documents_are_defused_as_the_rules_read() -> None:
    """Promise A3."""
    for text in documents():
        defused = defuse(text)

        assert (defused.text, defused.patterns) == defuse_plainly(text)


@pytest.mark.parametrize("trick", corpus.PHRASES)
def test_a_phrase_in_the_midst_of_much_text_is_found(trick: str) -> None:
    """Promise A3."""
    text = f"{'One word and another. ' * 90}\n{corpus.PHRASES[trick]}\n{'Many more words. ' * 90}"

    assert defuse(text).patterns


def test_who_defuses_little_does_not_wait_for_the_sieve() -> None:
    defuse_from = "from contextrelay.content.untrusted.defuse import defuse"
    code = f"import sys; {defuse_from}; defuse('ignore all'); "

    done = subprocess.run(
        [sys.executable, "-c", code + "print('re2' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "False"
