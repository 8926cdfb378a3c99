"""Embedding: a small one that needs no network, for `pack(..., embed=embedding())`.

It is WordLlama, of the extra `embeddings`: static word vectors that are part of its package and
take half a second to load. Any function from texts to vectors can be used instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from contextrelay.errors import Unavailable
from contextrelay.packing.embeddings import Embed


@cache
def embedding() -> Embed:
    """Load the embedding, once.

    Raises:
        Unavailable: the extra is not installed.
    """
    try:
        import wordllama  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise Unavailable(
            "no embedding is installed", "pip install 'contextrelay[embeddings]'"
        ) from error
    # Use its own folder as the cache: it looks for the tokenizer next to the weights, and would
    # otherwise download what its package contains.
    package = Path(wordllama.__file__ or "").parent
    model: Any = wordllama.WordLlama.load(cache_dir=package, disable_download=True)

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return model.embed(list(texts), norm=True)

    return embed
