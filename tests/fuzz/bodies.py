"""What may come with any bytes: an answer or one of our errors, within its budget and its time.

Rule: each check is a whole way in, as a verb takes it; what it raises that is not ours is a bug.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import get_args

from contextrelay.content.artifact_type import artifact_type
from contextrelay.content.description import Description
from contextrelay.content.diff import diff_bodies
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.content.outline import outline
from contextrelay.content.overview import digest
from contextrelay.content.search.passages import passages
from contextrelay.content.search.words import query_words, words
from contextrelay.content.source import Source
from contextrelay.content.tokens import count_tokens
from contextrelay.errors import RelayError
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import Selector, Way
from tests.content.slicing.sources import Counted

S_MAX = 5.0
TOKENS_MAX = 200
KINDS: tuple[ArtifactType, ...] = get_args(ArtifactType)
WAYS: tuple[Way, ...] = get_args(Way)
NAMES = ("a.py", "a.js", "a.ts", "a.go", "a.rs", "a.java", "a.c", "a.csv", "a.yaml", "a.ipynb", "a")
VALUES = ("1:", "-3:", "2:4", "/a/0", "$..a", "$[?@.a]", "a", "a > b", "A.b", "")
PATTERNS = ("a", "(a+)+$", "^$", ".*", r"\d+")


def check(body: bytes) -> None:
    """Everything at once, chosen by the first bytes; the rest is the body."""
    choice, body = body[:4].ljust(4, b"\0"), body[4:]
    started = time.monotonic()
    CHECKS[choice[0] % len(CHECKS)](choice[1:], body)
    took_s = time.monotonic() - started
    assert took_s < S_MAX, f"{took_s:.1f} s for {len(body)} bytes"


def _outlined(choice: bytes, body: bytes) -> None:
    source, kind = _read(choice, body)
    shape = outline(source, kind, TOKENS_MAX)
    assert shape.tokens == count_tokens(shape.text) <= TOKENS_MAX


def _digested(choice: bytes, body: bytes) -> None:
    source, kind = _read(choice, body)
    made = digest(source, kind, TOKENS_MAX)
    assert made.tokens == count_tokens(made.text) <= TOKENS_MAX


def _read(choice: bytes, body: bytes) -> tuple[Source, ArtifactType]:
    name = NAMES[choice[0] % len(NAMES)]
    seen = Description()
    seen.feed(body)
    kind, media_type = artifact_type(name, None, seen.head, seen.is_text)
    if choice[1] % 2:
        kind = KINDS[choice[2] % len(KINDS)]
    return Source.of(body, media_type, name, len(body)), kind


def _sliced(choice: bytes, body: bytes) -> None:
    kind = KINDS[choice[0] % len(KINDS)]
    way, value = WAYS[choice[1] % len(WAYS)], VALUES[choice[2] % len(VALUES)]
    held = Counted(body, kind, "", NAMES[choice[2] % len(NAMES)])
    with suppress(RelayError):
        piece = held.take(Selector(way, value, ()).way, value, TOKENS_MAX)
        assert count_tokens(piece.text) <= TOKENS_MAX


def _grepped(choice: bytes, body: bytes) -> None:
    pattern = PATTERNS[choice[0] % len(PATTERNS)]
    if choice[1] % 2:
        pattern = body[:20].decode("latin-1")
    wanted = GrepQuery(
        pattern=pattern, context=choice[2] % 4, matches_max=50, tokens_max=TOKENS_MAX
    )
    with suppress(RelayError):
        found = grep_bodies([Counted(body).source], wanted, lambda: False, is_one=True)
        assert count_tokens(found.text) <= TOKENS_MAX
        assert len(found.matches) <= found.count


def _differed(choice: bytes, body: bytes) -> None:
    place = len(body) * choice[0] // 256
    with suppress(RelayError):
        answer = diff_bodies(
            Counted(body[:place]).source, Counted(body[place:]).source, 2, TOKENS_MAX
        )
        assert count_tokens(answer.text) <= TOKENS_MAX


def _indexed(choice: bytes, body: bytes) -> None:
    text = body.decode("utf-8", "ignore")
    query_words(text)
    for passage in passages(text, KINDS[choice[0] % len(KINDS)]):
        words(passage.text)


CHECKS: tuple[Callable[[bytes, bytes], None], ...] = (
    _outlined,
    _sliced,
    _grepped,
    _differed,
    _indexed,
    _digested,
)
