"""LoCoMo: of the turns that answer a question about a long talk, how many are in a package?

Blocks are turns, a group is a session, the question is the query, tokens are counted by o200k. The
conversations (CC BY-NC, for evaluation only) are looked for in ../shared/data; without them this is
skipped.

    python -m bench.quality.locomo [--embed] [--fit]

`--fit`: weights are fitted on two conversations and tried on the third, all three ways round; this
says how far the weights that are built in depend on these conversations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import replace

from bench.measure import Curve, Skipped
from contextrelay import Block, pack
from contextrelay.client.embedding import embedding
from contextrelay.content.tokens import count_tokens
from contextrelay.packing.embeddings import Embed
from contextrelay.packing.relevance import Relevance
from contextrelay.packing.turns import WEIGHTS, Weights

DATA = Path(__file__).parents[3] / "shared" / "data" / "locomo-dev" / "locomo-dev.json"
BUDGETS = (256, 512, 1_024, 2_048, 4_096)
ASKED = {256: 76.0, 512: 83.0, 1_024: 88.0, 2_048: 91.0, 4_096: 95.0}
ASKED_EMBEDDED = {256: 80.0, 512: 86.0, 1_024: 91.0, 2_048: 94.0, 4_096: 97.0}
_DATE = re.compile(r"on (\d+ \w+, \d{4})")


class Talk(Struct, frozen=True):
    """A conversation with its questions, each with the ids of the turns that answer it."""

    name: str
    blocks: list[Block]
    questions: list[tuple[str, set[str]]]


def scenarios(folder: Path) -> Iterator[Curve]:
    talks = read_talks()
    name = f"LoCoMo, mean of {len(talks)} conversations: evidence recall"
    yield curve(f"{name}, words alone", talks, None, ASKED)
    yield curve(f"{name}, with the embedding", talks, embedding(), ASKED_EMBEDDED)


def curve(name: str, talks: list[Talk], embed: Embed | None, asked: dict[int, float]) -> Curve:
    """How much of the evidence packages hold, by their tokens."""
    found = [recall(talk, BUDGETS, embed) for talk in talks]
    means = {budget: sum(each[budget] for each in found) / len(found) for budget in BUDGETS}
    return Curve(
        name,
        "%",
        {str(budget): mean for budget, mean in means.items()},
        ", ".join(f">= {least} at {budget}" for budget, least in asked.items()),
        all(means[budget] >= least for budget, least in asked.items()),
    )


def read_talks() -> list[Talk]:
    """The conversations.

    Raises:
        Skipped: they are not there.
    """
    if not DATA.exists():
        raise Skipped("the LoCoMo conversations are not in ../shared/data")
    return [_talk(each) for each in decode(DATA.read_bytes(), type=list[dict[str, Any]])]


def _talk(record: dict[str, Any]) -> Talk:
    conversation: dict[str, Any] = record["conversation"]
    blocks: list[Block] = []
    number = 1
    while turns := conversation.get(f"session_{number}"):
        date = _DATE.search(conversation[f"session_{number}_date_time"])
        at = datetime.strptime(date[1] + " +0000", "%d %B, %Y %z") if date else None
        for turn in turns:
            caption = turn.get("blip_caption")
            shown = f" [image: {caption}]" if caption else ""
            blocks.append(
                Block(
                    turn["dia_id"],
                    f"{turn['speaker']}: {turn['text']}{shown}",
                    "USER",
                    timestamp=round(at.timestamp() * 1000) if at else 0,
                    group=str(number),
                )
            )
        number += 1
    ids = {block.id for block in blocks}
    questions: list[tuple[str, set[str]]] = []
    for each in record["qa"]:
        evidence = {name for text in each["evidence"] for name in re.split(r"[;, ]+", text)} & ids
        if evidence:
            questions.append((each["question"], evidence))
    return Talk(str(record["sample_id"]), blocks, questions)


def recall(
    talk: Talk, budgets: tuple[int, ...], embed: Embed | None = None, weights: Weights = WEIGHTS
) -> dict[int, float]:
    """The mean share of a question's evidence that a package holds, in percent, by its tokens."""
    index = Relevance(talk.blocks, embed, weights)
    costs = {block.content: count_tokens(block.content) for block in talk.blocks}
    sums = dict.fromkeys(budgets, 0.0)
    for question, evidence in talk.questions:
        for budget in budgets:
            package = pack(talk.blocks, question, budget, relevance=index, count=costs.__getitem__)
            kept = {block.id for block in package.blocks}
            sums[budget] += len(kept & evidence) / len(evidence)
    return {budget: 100 * each / len(talk.questions) for budget, each in sums.items()}


# Fitting

_STEPS = (0.5, 0.75, 1.25, 1.6)
_FITTED = (
    "saturation",
    "length",
    "group_idf",
    "after_question",
    "answer",
    "question",
    "you",
    "group",
    "framing",
    "synonym",
    "beginning",
    "speaker",
    "date",
    "when",
)
_FIT_BUDGETS = (256, 1_024)


def fitted(talks: list[Talk], embed: Embed | None) -> Weights:
    """Weights that do best on some conversations: one after the other, while it helps."""
    best, score = WEIGHTS, _score(talks, WEIGHTS, embed)
    for name in _FITTED:
        for step in _STEPS:
            tried = replace(best, **{name: min(getattr(WEIGHTS, name) * step, 2.0)})
            reached = _score(talks, tried, embed)
            if reached > score:
                best, score = tried, reached
    return best


def _score(talks: list[Talk], weights: Weights, embed: Embed | None) -> float:
    return sum(sum(recall(talk, _FIT_BUDGETS, embed, weights).values()) for talk in talks)


def main(args: list[str]) -> int:
    talks = read_talks()
    embed = embedding() if "--embed" in args else None
    for talk in talks:
        weights = WEIGHTS
        if "--fit" in args:
            weights = fitted([each for each in talks if each is not talk], embed)
        found = recall(talk, BUDGETS, embed, weights)
        print(talk.name, "  ".join(f"{budget}: {each:.1f}" for budget, each in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
