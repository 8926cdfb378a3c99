"""A small embedding that needs no network, for `pack(..., embed=embedding())`.

The embedding is WordLlama, from the extra `embeddings`: static word vectors that are part of its
package and take half a second to load. Any function from texts to vectors can be used instead.
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
    """Return the embedding function, which is loaded only once.

    Raises:
        Unavailable: the extra `embeddings` is not installed.
    """
    try:
        import wordllama  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise Unavailable(
            "no embedding is installed", "pip install 'contextrelay[embeddings]'"
        ) from error
    # Use WordLlama's own folder as its cache. WordLlama looks for the tokenizer next to the
    # weights, and would otherwise download files that its package contains.
    package = Path(wordllama.__file__ or "").parent
    model: Any = wordllama.WordLlama.load(cache_dir=package, disable_download=True)

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return model.embed(list(texts), norm=True)

    return embed
