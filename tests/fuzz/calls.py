"""Calls that look into a body, as verbs do them: by the functions of logic, or by the public SDK.

Rule: what a call raises is one of our errors, and what it shows is within its budget of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any, get_args

from contextrelay import Relay
from contextrelay.content.artifact_type import artifact_type
from contextrelay.content.description import Description
from contextrelay.content.diff import diff_bodies
from contextrelay.content.grep.results import GrepQuery, grep_bodies
from contextrelay.content.outline import outline
from contextrelay.content.overview import count, digest
from contextrelay.content.preview import preview
from contextrelay.content.search.passages import passages
from contextrelay.content.search.words import query_words, words
from contextrelay.content.slicing.slice import read_piece
from contextrelay.content.slicing.source import SliceSource as Sliced
from contextrelay.content.source import Source
from contextrelay.content.tokens import count_tokens
from contextrelay.core.search_index import SEARCHED_BYTES_MAX, SEARCHED_PASSAGES_MAX
from contextrelay.errors import RelayError
from contextrelay.limits import GREP_ONE_S_MAX, OUTLINE_BYTES_MAX
from contextrelay.model.artifact import ArtifactType
from contextrelay.model.inspect import Selector, Way
from tests.content.slicing.sources import Counted
from tests.fuzz.grammar import Body

Call = Callable[[], object]

TOKENS = (20, 200, 2_000, 16_000)
SPANS = ("1:", "2:4", "-3:", ":", "1000:1010", "100000:", "99999999:", "7")
POINTERS = (
    "",
    "/0",
    "/a",
    "/0/0/0",
    "/" + "/".join(["0"] * 62),
    "/" + "/".join(["a"] * 62),
    "/99999",
    "/a/a",
    "/k1",
    "/cells/0/source",
    "/0/a/0/a",
    "/~1",
    "/",
)
PATHS = (
    "$",
    "$.*",
    "$[*]",
    "$..*",
    "$..a",
    "$.*[*]",
    "$[" + ",".join(["0"] * 480) + "]",
    "$" + "[*]" * 300,
    "$" + "..*" * 6,
    "$" + "[0,0]" * 20,
    "$[?@.a]",
    "$[?@ == $]",
    "$[?@.a == $[0].a]",
    "$[?count(@..*) > 1]",
    "$[?$[?@.a]]",
    "$..[?@..a == @..a]",
    "$[?search(@, '(a+)+$')]",
    "$[?match(@.a, 'a*')]",
    "$[::-1]",
    "$[0:1000000:1]",
    "$[?length(@) > 2]",
    "$..[0,'a',*]",
)
COLUMNS = ((), ("0",), ("0:3",), ("a", "b"), ("c1",))
HEADINGS = ("a", "a > b", "x", "zzz", " > ".join(["a"] * 50), "A B", "b" * 200)
SYMBOLS = ("f", "C", "C.f", "a", "main", "zzz", "x" * 100, "A", "f.f.f.f", "end")
PATTERNS = (
    "a",
    "(a+)+$",
    "^$",
    ".*",
    r"\d+",
    "^",
    "$",
    "",
    "(.*)(.*)(.*)x",
    r"\w+\s+\w+",
    "[^a]*b",
    "(?i)ERROR",
    "x{500}",
    "(a|b|ab)*c",
    r"\pL+",
    "a.{0,200}b",
    ".{0,1000}z",
    "(?:a?){1000}(?:a?){1000}z",
    "a(?:.?){900}z|a",
)
KINDS: tuple[ArtifactType, ...] = get_args(ArtifactType)
SELECTORS: dict[str, tuple[str, ...]] = {
    "lines": SPANS,
    "bytes": SPANS,
    "tokens": SPANS,
    "json_pointer": POINTERS,
    "json_path": PATHS,
    "rows": SPANS,
    "heading": HEADINGS,
    "symbol": SYMBOLS,
}


def other_than(rng: Random, content: bytes) -> bytes:
    """A body to compare with another: alike, but for what costs the most to tell apart."""
    way = rng.randrange(8)
    half = len(content) // 2
    if way == 0:
        return content[:half] + b"x" + content[half + 1 :]
    if way == 1:
        return b"x" + content[1:-1] + b"y"
    if way == 2:
        return content[half:] + content[:half]
    if way == 3:
        return b"\n".join(reversed(content.split(b"\n")))
    if way == 4:
        return content.replace(b"\n", b"\nx\n")
    if way == 5:
        return content.replace(b"a", b"b")
    if way == 6:
        lines = content.split(b"\n")
        return b"\n".join(lines[::2] + lines[1::2])
    return content[half // 2 :] + b"\n" + content[:half]


def of_logic(body: Body, rng: Random) -> dict[str, Call]:
    """Every call of logic into a body, by name."""
    content = body.content
    seen = Description()
    seen.feed(content)
    kind, media_type = artifact_type(body.name, None, seen.head, seen.is_text)
    if body.kind == "tool_output":
        kind = "tool_output"
    if rng.random() < 0.15:
        kind = rng.choice(KINDS)
    tokens_max = rng.choice(TOKENS)
    held = Counted(content, kind, media_type, body.name)
    calls: dict[str, Call] = {
        "describe": lambda: _described(body),
        "outline": lambda: outline(_source(body, media_type), kind, tokens_max),
        "digest": lambda: digest(_source(body, media_type), kind, tokens_max),
        "count": lambda: count(_source(body, media_type)),
        "search": lambda: _searched(content, kind),
    }
    for way, values in SELECTORS.items():
        columns = rng.choice(COLUMNS) if way == "rows" else ()
        selector = Selector(_way(way), rng.choice(values), columns)
        calls[f"slice {way}"] = _slicing(held.source, selector, tokens_max)
    wanted = _wanted(rng, content, tokens_max)
    calls["grep"] = lambda: _grepped(held.source, wanted)
    other = Counted(other_than(rng, content), kind, media_type, body.name)
    context = rng.choice((0, 3, 20))
    calls["diff"] = lambda: diff_bodies(held.source, other.source, context, tokens_max)
    return calls


def of_sdk(body: Body, rng: Random) -> dict[str, Call]:
    """Every call of the public SDK into a body, by name; the store is in memory."""
    relay = Relay("memory:")
    tool_output: dict[str, Any] = {"type": "tool_output"} if body.kind == "tool_output" else {}

    def push() -> str:
        return relay.push(body.content, name=body.name, **tool_output).ref

    pushed = push()  # By itself, so that no other call is charged for it.

    def ref() -> str:
        return pushed

    tokens_max = rng.choice(TOKENS)
    calls: dict[str, Call] = {
        "push": push,
        "outline": lambda: relay.outline(ref(), tokens_max=tokens_max),
        "digest": lambda: relay.digest(ref(), tokens_max=tokens_max),
        "peek": lambda: relay.peek(ref()),
    }
    for way, values in SELECTORS.items():
        args: dict[str, Any] = {way: rng.choice(values)}
        if way == "rows":
            args["columns"] = rng.choice(COLUMNS)
        calls[f"slice {way}"] = _sdk_slicing(relay, ref, args, tokens_max)
    wanted = _wanted(rng, body.content, tokens_max)
    calls["grep"] = lambda: relay.grep(wanted.pattern, ref(), context=wanted.context)
    other = other_than(rng, body.content)
    calls["diff"] = lambda: relay.diff(ref(), relay.push(other, name=body.name).ref)
    calls["search"] = lambda: (ref(), relay.search("error failed a word instruction"))
    return calls


def guarded(call: Call) -> None:
    """Do a call; one of our errors is an answer."""
    with suppress(RelayError):
        call()


def _way(way: str) -> Way:
    return way  # pyright: ignore[reportReturnType]


def _source(body: Body, media_type: str) -> Source:
    return Source.of(body.content[:OUTLINE_BYTES_MAX], media_type, body.name, len(body.content))


def _described(body: Body) -> None:
    seen = Description()
    seen.feed(body.content)
    artifact_type(body.name, None, seen.head, seen.is_text)
    artifact_type(None, None, seen.head, seen.is_text)
    preview(seen.head, seen.size_bytes, seen.line_count, seen.is_text)


def _slicing(source: Sliced, selector: Selector, tokens_max: int) -> Call:
    def call() -> None:
        piece = read_piece(source, selector, tokens_max)
        assert count_tokens(piece.text) <= tokens_max

    return call


def _sdk_slicing(
    relay: Relay, ref: Callable[[], str], args: dict[str, Any], tokens_max: int
) -> Call:
    return lambda: relay.slice(ref(), tokens_max=tokens_max, **args)


def _wanted(rng: Random, content: bytes, tokens_max: int) -> GrepQuery:
    pattern = rng.choice(PATTERNS)
    if rng.random() < 0.3:
        start = rng.randrange(len(content)) if content else 0
        pattern = content[start : start + rng.choice((1, 5, 30))].decode("latin-1")
    # Some of several patterns: of these the best are shown, in structured content by record.
    several = tuple(rng.sample(PATTERNS, 2)) if rng.random() < 0.3 else ()
    return GrepQuery(
        pattern=(pattern, *several) if several else pattern,
        ignore_case=rng.random() < 0.3,
        is_fixed=rng.random() < 0.2,
        context=rng.choice((0, 0, 0, 2, 100)),
        is_count=rng.random() < 0.2,
        after_line=rng.choice((0, 0, 5, 100_000)),
        matches_max=rng.choice((1, 200, 10_000)),
        tokens_max=max(10, tokens_max),
    )


def _grepped(source: Sliced, wanted: GrepQuery) -> None:
    """As the verb does it, which ends by the clock; here by the time of the processor."""
    until_s = time.process_time() + GREP_ONE_S_MAX
    found = grep_bodies([source], wanted, lambda: time.process_time() > until_s, is_one=True)
    assert count_tokens(found.text) <= wanted.tokens_max


def _searched(content: bytes, kind: ArtifactType) -> None:
    """A text cut into passages and words, as the index does it."""
    text = content[:SEARCHED_BYTES_MAX].decode("utf-8", "replace")
    query_words(text[:10_000])
    for passage in islice(passages(text, kind), SEARCHED_PASSAGES_MAX):
        words(passage.text)
