"""Search: passages by words, and the index that finds them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from contextrelay.limits import PIECE_TOKENS_DEFAULT, QUERY_CHARS_MAX, SEARCH_RESULTS_MAX
from contextrelay.model.inspect import Hits, IndexState
from contextrelay.model.ref import Ref
from contextrelay.wire.verbs.verb import PieceTokens, Traits, Verb


class Search(Verb[Hits], frozen=True):
    """Passages that answer a query in words, best first: in one ref, a thread, or everything."""

    traits = Traits(
        looks=True,
        needs="read",
        answered_in="search.search",
        http="GET /v1/search",
        counted=True,
        fails=(404, 410, 413),
    )

    query: Annotated[str, Meta(min_length=1, max_length=QUERY_CHARS_MAX)]
    thread: Ref | None = None
    ref: Ref | None = None
    limit: Annotated[int, Meta(ge=1, le=SEARCH_RESULTS_MAX)] = 10
    tokens_max: PieceTokens = PIECE_TOKENS_DEFAULT


class RebuildSearch(Verb[IndexState], frozen=True):
    """Throw the search index away and rebuild it from what the store holds."""

    traits = Traits(
        needs="admin", answered_in="search.search", http="POST /v1/search/rebuild", slow=True
    )
