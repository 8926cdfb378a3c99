"""Search: find passages of artifacts for a query, ranked, each with the next slice to read.

Rule: a query is only words, and is limited: in number of words, in the time it may spend on
updating the index, and in what it shows. Each result is looked up in the ledger of the caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush
from itertools import islice

from msgspec.json import decode

from contextrelay.content.search.words import query_words
from contextrelay.core.artifacts.holds import listed
from contextrelay.core.artifacts.records import find_readable, has_expired, live
from contextrelay.core.registry import answers
from contextrelay.core.search_hits import (
    HitList,
    PassagePlace,
    VisiblePassage,
    exact_hits,
    left_out,
)
from contextrelay.core.search_index import (
    PLACE,
    STALE,
    Ranked,
    Ranking,
    catch_up,
    index_of,
    path_of,
    rank,
    rebuild,
    remove_missing,
    state_of,
)
from contextrelay.core.spaces import VisibleReads
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.errors import Broken, Full, RelayError, Sealed, Unavailable
from contextrelay.limits import SEARCH_CANDIDATES
from contextrelay.model.artifact import Artifact
from contextrelay.model.inspect import Hits, IndexState
from contextrelay.store.search import reads
from contextrelay.store.search.index import Damaged, SearchIndex
from contextrelay.store.search.reads import Text
from contextrelay.verbs import Body, ReadSearchIndex, RebuildSearch, Search

SEARCH_TERMS_MAX = 32
# The time in seconds that a query may spend on updating the search index.
SEARCH_CATCH_UP_S = 1.0
# The maximum number of times that a query is ranked, because results that are gone are removed and
# the query is ranked again.
SEARCH_ROUNDS_MAX = 5


@answers(Search)
def search(stores: Stores, verb: Search, body: Body) -> Hits:
    asked = SearchedQuery(stores, verb.query, verb.limit * _REPEATED, verb.thread, verb.ref)
    hits = HitList(stores, asked.words, verb.tokens_max, is_one=verb.ref is not None)
    if verb.ref is not None:
        best = max((each.score for each in asked.seen), default=0.0)
        artifact = live(stores, verb.ref)
        is_unknown = asked.is_cut and not asked.seen
        exact = exact_hits(stores, artifact, verb.query, verb.tokens_max, best + 1, is_unknown)
        for hit in exact[: verb.limit]:
            hits.add_hit(hit, artifact)
        if is_unknown and not exact:
            hits.note_cut(artifact.ref)
    for each in asked.seen:
        if len(hits.hits) >= verb.limit or not hits.add(each):
            break
    return Hits(
        query=verb.query,
        scope=_scope(verb),
        hits=hits.hits,
        found=asked.found,
        left_out=left_out(asked.found, len(hits.hits), hits.repeated),
        ignored=asked.ignored,
        notes=(*asked.notes, *hits.notes),
        index=asked.state,
        text=hits.text,
        spent=hits.spent,
    )


# The number of candidates per result. It is above 1 because the same content may have been pushed
# repeatedly.
_REPEATED = 3
_CANDIDATES_MIN = 80
# The maximum number of artifacts of the same name to look up. Most artifacts that are gone have
# already left the index.
_NEWER_MAX = 8


@answers(RebuildSearch)
def rebuild_search(stores: Stores, verb: RebuildSearch, body: Body) -> IndexState:
    return rebuild(stores.space, index_of(stores))


@answers(ReadSearchIndex)
def read_search_index(stores: Stores, verb: ReadSearchIndex, body: Body) -> IndexState | None:
    path = path_of(stores.engine.home, stores.tenant)
    if path is None or not path.exists():
        return None
    return catch_up(stores, index_of(stores), 0)


class SearchedQuery:
    """A caller's query and its results, from an index that was updated as far as possible.

    Raises:
        NotFound, Gone: the ref or the thread does not exist.
        Unavailable: the index was damaged, and is being rebuilt.
    """

    def __init__(
        self,
        stores: Stores,
        query: str,
        wanted: int,
        thread: str | None = None,
        ref: str | None = None,
    ) -> None:
        if ref is not None:
            _refuse_sealed(live(stores, ref))
        elif thread is not None:
            find_record(stores.ledger, thread)
        self.words = query_words(query)
        """A dict that maps the stems of the query to their words."""
        self._stems = list(self.words)[:SEARCH_TERMS_MAX]
        self._stores, self._wanted, self._thread, self._ref = stores, wanted, thread, ref
        self._index = index_of(stores)
        self._is_limited = stores.is_limited
        self.state, self.notes = _update_index(stores)
        self.seen: list[VisiblePassage] = []
        """Passages that may be shown to the caller, best first."""
        self.ignored: tuple[str, ...] = ()
        self.found = self.looked_at = 0
        self.is_cut = False
        """Whether the index contains only the first part of the requested ref."""
        self._ranking: Ranking | None = None
        for _ in range(SEARCH_ROUNDS_MAX):
            # Remove artifacts that are gone from the index, to make room for other results.
            if not _remove_missing(stores, self._index, self._rank()):
                break
        self.is_partial = bool(self.notes) or any(each.ranked.text.is_cut for each in self.seen)
        if self._is_limited:
            # A limited key must not learn how many other artifacts exist.
            self.state = IndexState(artifacts=0, passages=0)

    def _rank(self) -> list[str]:
        """Rank the passages; return the refs of ranked artifacts that are gone."""
        candidates = min(SEARCH_CANDIDATES, max(_CANDIDATES_MIN, 2 * self._wanted))
        try:
            with self._index.reading() as view:
                spans = _spans(self._stores, view, self._thread, self._ref)
                text = reads.text_by_ref(view, self._ref) if self._ref is not None else None
                self.is_cut = text is not None and text.is_cut
                now_ms = self._stores.now_ms()
                # All results for a limited key, including scores, are computed only from what it
                # may see.
                ranking = rank(view, self._stems, spans, now_ms, candidates, self._is_limited)
                starts = {start for start, _ in spans or ()} if self._is_limited else None
                choosing = _VisibleSelection(self._stores, view, ranking, starts)
                self.seen = list(islice(choosing.seen(), self._wanted))
        except Damaged as error:
            self._index.start_over()
            raise Unavailable(f"{error}; the index is being rebuilt", "search again") from error
        self._ranking, self.found = ranking, ranking.count()
        self.looked_at = self.state.artifacts if spans is None else len(spans)
        words = (*ranking.missing, *list(self.words)[SEARCH_TERMS_MAX:])
        self.ignored = tuple(self.words[stem] for stem in words)[:SEARCH_TERMS_MAX]
        return choosing.gone

    def artifacts_found(self) -> int:
        """Return the number of artifacts that contain a word of the query."""
        with self._index.reading() as view:
            numbers = () if self._ranking is None else self._ranking.numbers()
            return reads.texts_with(view, numbers)

    def count_in(self, text: Text) -> int:
        """Return how often the words of the query occur in a text, in total."""
        with self._index.reading() as view:
            return reads.count_in(view, self._stems, text)


def _remove_missing(stores: Stores, index: SearchIndex, gone: list[str]) -> int:
    """Remove missing artifacts from the index; return their number, 0 if it is locked."""
    with suppress(RelayError):
        return remove_missing(stores.space, index, gone)
    return 0


def _update_index(stores: Stores) -> tuple[IndexState, list[str]]:
    """Update the index within a time limit; return its state and why it is incomplete."""
    index = index_of(stores)
    try:
        state = catch_up(stores.space, index, SEARCH_CATCH_UP_S)
    except (Unavailable, Full, Broken) as error:
        # The existing index can be searched even if the disk is full or busy.
        return state_of(index), [f"the index could not be updated: {error.message}"]
    if state.waiting or not state.is_complete:
        if stores.is_limited:
            return state, ["the index is being updated; search again"]
        more = "" if state.is_complete else "at least "
        text = (
            f"the index is being updated: {more}{state.waiting:,} older artifacts are not in it yet"
        )
        return state, [f"{text}; search again, or: relay gc"]
    return state, []


def _refuse_sealed(artifact: Artifact) -> None:
    """Raise an error if an artifact is sealed, so that its words cannot be indexed."""
    if artifact.sealed is not None:
        raise Sealed(
            f"{artifact.ref} is sealed and cannot be indexed",
            "grep it by its full URL with its key: relay get URL#KEY --grep RE",
        )


def _scope(verb: Search) -> str:
    if verb.ref is not None:
        return f"ref {verb.ref}"
    return "all" if verb.thread is None else f"thread {verb.thread}"


def _spans(
    stores: Stores, view: sqlite3.Connection, thread: str | None, ref: str | None
) -> list[tuple[int, int]] | None:
    """Return the ranges of passage numbers to search; None means all passages."""
    if ref is not None:
        refs: Iterator[str] = iter((ref,))
    elif thread is not None:
        refs = listed(stores.ledger, thread)
    elif stores.caller is not None and stores.caller.key.is_limited:
        return _visible_spans(VisibleReads(stores.caller.space.ledger, stores.caller.key), view)
    else:
        return None
    texts = (reads.text_by_ref(view, ref) for ref in refs)
    return [(text.start, text.stop) for text in texts if text is not None]


def _visible_spans(ledger: VisibleReads, view: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the ranges of passage numbers in the channels and threads that a limited key sees."""
    spans: set[tuple[int, int]] = set()
    for start in ledger.visible_channels:
        texts = reads.texts_by_channel(view, start)
        spans.update((text.start, text.stop) for text in texts)
    for thread in ledger.visible_threads():
        for ref in listed(ledger, thread):
            text = reads.text_by_ref(view, ref)
            if text is not None:
                spans.add((text.start, text.stop))
    return sorted(spans)


class _VisibleSelection:
    """The ranked passages that the caller may see."""

    def __init__(
        self,
        stores: Stores,
        view: sqlite3.Connection,
        ranking: Ranking,
        starts: set[int] | None,
    ) -> None:
        self.gone: list[str] = []
        self._starts = starts
        """The first passage numbers of the texts that a limited key can see; None means all texts.
        """
        self._ranking = ranking
        self._stores = stores
        self._view = view
        self._artifacts: dict[str, Artifact | None] = {}

    def seen(self) -> Iterator[VisiblePassage]:
        """Yield the passages that may be shown, best first.

        Passages of outdated artifacts have a lower score.

        The passages are looked up in the ledger only when they are requested.
        """
        heavy: list[tuple[float, int, VisiblePassage]] = []
        for order, each in enumerate(self._ranking.best):
            while heavy and -heavy[0][0] >= each.score:
                yield heappop(heavy)[-1]
            artifact = self._there(each.text.ref)
            if artifact is None:
                continue
            newer = self._newer(each.text)
            score = each.score * (1 if newer is None else STALE)
            words = self._ranking.words_near(each)
            seen = VisiblePassage(each, artifact, newer, score, self._place(each), words)
            heappush(heavy, (-score, order, seen))
        while heavy:
            yield heappop(heavy)[-1]

    def _place(self, each: Ranked) -> PassagePlace | None:
        """Return the position of a passage in its body, or None if it has none."""
        index = each.number - each.text.start - 1
        if index < 0:
            return None
        start, stop = max(0, index - 1), index + 2
        packed, pointers = reads.place(self._view, each.text.ref, start, stop)
        found = list(PLACE.iter_unpack(packed))
        start_line, stop_line, start_byte, stop_byte = found[index - start]
        is_part = sum(line == start_line for line, *_ in found) > 1
        pointer = None if pointers is None else decode(pointers)[index]
        return PassagePlace(start_line, stop_line, start_byte, stop_byte, pointer, is_part)

    def _newer(self, text: Text) -> str | None:
        """Return the ref of a newer artifact with the same name, or None."""
        found = (
            ref
            for ref, start in reads.newer(self._view, text)
            if self._starts is None or start in self._starts
        )
        return next((ref for ref in islice(found, _NEWER_MAX) if self._there(ref)), None)

    def _there(self, ref: str) -> Artifact | None:
        if ref not in self._artifacts:
            artifact = find_readable(self._stores.ledger, ref)
            if artifact is None or has_expired(artifact, self._stores.now_ms()):
                artifact = None
                self.gone.append(ref)
            self._artifacts[ref] = artifact
        return self._artifacts[ref]
