"""Packing: choose the blocks for a window with a limited number of tokens.

Rule: the chosen blocks never exceed the budget, as counted by the real tokenizer, and every block
is either kept or dropped, with a reason. The chosen blocks keep their order, so that a conversation
reads as it happened, and what was sent before stays a prefix of what is sent next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from contextrelay.content.tokens import TOKENIZER_DEFAULT, count_tokens
from contextrelay.errors import BudgetTooSmall, Invalid
from contextrelay.model.package import Block, Budget, Package, Reason
from contextrelay.model.tokens import Tokenizer
from contextrelay.packing.embeddings import Embed
from contextrelay.packing.relevance import Relevance

PACK_BLOCKS_MAX = 1_000_000
# Returns a text to show instead of a block of this many tokens, a digest with a ref, or None.
Digester = Callable[[Block, int], str | None]

DECAY_A_MINUTE = 0.95
DECAY_FLOOR = 0.1
# If there is a query, the creator's score of a block and its age only decide between similar
# scores.
_PRIOR = 0.02
# Matched words are reported for this many of the best blocks, because finding them for all would be
# slow.
_EXPLAINED = 100


def pack(
    blocks: Sequence[Block],
    query: str = "",
    budget_tokens: int | Budget = 4_096,
    *,
    pins: Collection[str] = (),
    now_ms: int | None = None,
    tokenizer: Tokenizer = TOKENIZER_DEFAULT,
    count: Callable[[str], int] | None = None,
    embed: Embed | None = None,
    relevance: Relevance | None = None,
    shorten: Digester | None = None,
    digests: Collection[str] = (),
    tokens: Mapping[str, int] | None = None,
) -> Package:
    """Choose the blocks most relevant to a query, within a budget.

    SYSTEM blocks and `pins` (ids) are always included. `relevance`: an index over these blocks that
    is kept between calls. `now_ms`: the time from which ages are counted; by default, the time of
    the newest block. `count`: another token counter. `tokens`: known token counts by id. `digests`:
    ids of blocks whose content replaces a longer text, which `why` then reports.

    Raises:
        BudgetTooSmall: SYSTEM and pinned blocks alone exceed the budget.
        Invalid: an id is duplicate, a pin is unknown, or the budget is invalid.
    """
    query = query or ""
    budget = budget_tokens if isinstance(budget_tokens, Budget) else Budget(budget_tokens)
    _check(blocks, pins)
    counted = count or partial(count_tokens, tokenizer=tokenizer)
    taken = {each.id: counted(each.content) for each in blocks} if tokens is None else tokens
    costs = {block.id: taken[block.id] + budget.each_tokens for block in blocks}
    choice = _Choice(budget.spendable_tokens, costs, digests)
    _take_required(choice, blocks, set(pins))
    _drop_duplicates(choice, blocks)
    index = _index(blocks, relevance, embed) if query.strip() else Relevance()
    found = index.scores(query)
    priors = _priors(blocks, now_ms)
    shown = dict[str, Block]()
    for rank, place in enumerate(_ranked(blocks, choice, found, priors), 1):
        block = blocks[place]
        if (short := shorten and shorten(block, costs[block.id])) is not None:
            shown[block.id] = replace(block, content=short)
            costs[block.id] = counted(short) + budget.each_tokens
        if (score := found.get(block.id)) is None:
            choice.take(block.id, "recent", 0.0 if found else priors[place], rank)
            continue
        is_explained = rank <= _EXPLAINED or choice.has_room(block.id)
        words = index.found(query, block.id) if is_explained else ()
        choice.take(block.id, "relevant", score, rank, words, short is not None)
    kept = tuple(shown.get(block.id, block) for block in blocks if choice.keeps(block.id))
    return Package(
        blocks=kept,
        dropped=tuple(block for block in blocks if not choice.keeps(block.id)),
        reasons=choice.reasons,
        budget=budget,
        total_tokens=sum(costs[block.id] for block in kept),
        tokenizer=tokenizer if count is None else "",
        query=query,
    )


def _ranked(
    blocks: Sequence[Block], choice: _Choice, found: dict[str, float], priors: list[float]
) -> list[int]:
    """Return the indexes of competing blocks, best first; of equal scores, newest first."""
    scale = -1 / (max(found.values(), default=0.0) or 1.0)
    get, decided = found.get, choice.reasons
    worth = [
        (get(block.id, 0.0) * scale - _PRIOR * priors[place], -place)
        for place, block in enumerate(blocks)
        if block.id not in decided
    ]
    worth.sort()
    return [-place for _, place in worth]


class _Choice(Struct):
    """The decisions made so far by a call of `pack`."""

    left_tokens: int
    costs: dict[str, int]
    digests: Collection[str] = ()
    reasons: dict[str, Reason] = {}

    def has_room(self, block_id: str) -> bool:
        return self.costs[block_id] <= self.left_tokens

    def keeps(self, block_id: str) -> bool:
        return self.reasons[block_id].verdict == "kept"

    def take(
        self,
        block_id: str,
        because: str,
        score: float = 0.0,
        rank: int = 0,
        words: tuple[str, ...] = (),
        is_digest: bool = False,
    ) -> None:
        """Keep a block if the budget has room for it, else drop it; record the reason."""
        tokens = self.costs[block_id]
        fits = tokens <= self.left_tokens
        if fits:
            self.left_tokens -= tokens
        self.reasons[block_id] = Reason(
            verdict="kept" if fits else "dropped",
            because=because if fits else "over_budget",  # pyright: ignore[reportArgumentType]
            tokens=tokens,
            score=score,
            rank=rank,
            words=words,
            is_digest=is_digest or block_id in self.digests,
        )


def decay(age_ms: int) -> float:
    """Return the factor by which the age since creation reduces relevance."""
    return max(DECAY_FLOOR, DECAY_A_MINUTE ** min(max(age_ms, 0) / 60_000, 1_000))


def _check(blocks: Sequence[Block], pins: Collection[str]) -> None:
    if len(blocks) > PACK_BLOCKS_MAX:
        raise Invalid(f"{len(blocks)} blocks", f"pack at most {PACK_BLOCKS_MAX} at once")
    ids = {block.id for block in blocks}
    if len(ids) < len(blocks):
        seen = set[str]()
        twice = next(block.id for block in blocks if block.id in seen or seen.add(block.id))
        raise Invalid(f"duplicate block {twice}", "give each block a unique id")
    if strange := [pin for pin in pins if pin not in ids]:
        raise Invalid(f"pinned block {strange[0]} is not among the blocks")


def _take_required(choice: _Choice, blocks: Sequence[Block], pins: set[str]) -> None:
    musts = [block for block in blocks if block.type == "SYSTEM" or block.id in pins]
    needed = sum(choice.costs[block.id] for block in musts)
    if needed > choice.left_tokens:
        raise BudgetTooSmall(
            f"SYSTEM and pinned blocks take {needed} tokens of {choice.left_tokens}",
            f"pass a budget of {needed} tokens or more, or unpin some",
        )
    for block in musts:
        choice.take(block.id, "pinned" if block.id in pins else "system")


def _drop_duplicates(choice: _Choice, blocks: Sequence[Block]) -> None:
    first = {block.content: block.id for block in reversed(blocks)}
    first |= {block.content: block.id for block in reversed(blocks) if block.id in choice.reasons}
    for block in blocks:
        if first[block.content] != block.id and block.id not in choice.reasons:
            tokens, of = choice.costs[block.id], first[block.content]
            reason = Reason(verdict="dropped", because="duplicate", tokens=tokens, of=of)
            choice.reasons[block.id] = reason


def _index(blocks: Sequence[Block], relevance: Relevance | None, embed: Embed | None) -> Relevance:
    index = Relevance(embed=embed) if relevance is None else relevance
    for block in blocks:
        if block.id not in index:
            index.add(block)
    return index


def _priors(blocks: Sequence[Block], now_ms: int | None) -> list[float]:
    """Return the value of each block without a query, from 0 to 1: its score, reduced by age."""
    newest_ms = max((block.timestamp for block in blocks), default=0)
    at_ms = newest_ms if now_ms is None else now_ms
    fading = (decay(at_ms - each.timestamp) if each.timestamp else 1.0 for each in blocks)
    worth = [max(0.0, each.relevance_score) * by for each, by in zip(blocks, fading, strict=True)]
    highest = max(worth, default=0.0) or 1.0
    return [each / highest for each in worth]
