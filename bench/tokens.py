"""Tokens: exact counts against tiktoken's, in speed and in number.

tiktoken downloads its vocabulary; it runs offline with TIKTOKEN_CACHE_DIR at a folder that has it,
such as the one with tokenizers in the litellm wheel.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.measure import Curve, Result, Skipped, each, faster, flat, interleaved
from contextrelay.content.tokens import count_tokens
from contextrelay.model.tokens import Tokenizer

BYTES = 2_000_000
OTHERS = "中文文本，没有空格。ไทย русский текст 👍🏽 <|endoftext|> It's 12345 tests'll\n"


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    try:
        tiktoken: Any = import_module("tiktoken")
    except ImportError:
        raise Skipped("tiktoken is not installed: pip install tiktoken") from None
    if not os.environ.get("TIKTOKEN_CACHE_DIR"):
        raise Skipped("TIKTOKEN_CACHE_DIR names no folder with tiktoken's vocabulary")
    text = mixed(BYTES)
    names: tuple[Tokenizer, ...] = ("o200k_base", "cl100k_base")
    for name in names:
        encoding: Any = tiktoken.get_encoding(name)
        theirs = len(encoding.encode_ordinary(text))
        counted = count_tokens(text, name)
        yield Result(
            f"{name}: tokens of {BYTES / 1e6:.0f} MB of mixed text / tiktoken's",
            counted,
            theirs,
            "tokens",
            counted / theirs,
            "the same",
            counted == theirs,
        )
        ours, anchor = interleaved(
            lambda name=name: each(lambda _: count_tokens(text, name), 1),
            partial(_timed, encoding, text),
        )
        yield faster(f"{name}: counting / tiktoken", ours / 1000, anchor / 1000, "ms", 3)
    yield _growth()


def _timed(encoding: Any, text: str) -> float:
    return each(lambda _: encoding.encode_ordinary(text), 1)


def _growth() -> Curve:
    """Time a character, over sizes; of a text that has no place to cut as well."""
    points: dict[str, float] = {}
    for size in (100_000, 1_000_000, 10_000_000):
        text = mixed(size)
        points[f"{size:,}"] = each(lambda _, text=text: count_tokens(text), 3) / len(text) * 1000
    return flat("time a character of 0.1, 1 and 10 MB", points, "ns", 2)


def mixed(size: int) -> str:
    """Code, prose, data and other scripts, as installed packages have them, of so many bytes."""
    root = Path(sysconfig.get_path("purelib"))
    library = Path(sysconfig.get_path("stdlib"))
    pieces: list[str] = []
    taken = 0
    kinds = ("*.md", "*.json", "*.txt")
    paths = sorted([*library.glob("*.py"), *(path for kind in kinds for path in root.rglob(kind))])
    for index in range(len(paths)):
        # From all over the list, and the same ones each time.
        path = paths[index * 7919 % len(paths)]
        pieces += path.read_bytes()[:50_000].decode("utf-8", "replace"), OTHERS
        taken += len(pieces[-2])
        if taken >= size:
            break
    text = "".join(pieces)
    return (text * (size // max(1, len(text)) + 1))[:size]
