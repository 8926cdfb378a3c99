"""The blocks of a thread's context: added, and pruned when there are too many.

A block is an artifact of the thread whose metadata say so (packing/candidates.py). What is
pruned stays an artifact; the list `pruned` of the state keeps it out of windows.
"""

from __future__ import annotations

from typing import Any

from msgspec import convert, to_builtins

from contextrelay.core.packing.pack import EACH_TOKENS, Agent, candidates, relevance_of
from contextrelay.core.push.push import push_many
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.patch import patched_before
from contextrelay.core.threads.state import change_by
from contextrelay.documents.patch import Operation
from contextrelay.limits import BUDGET_TOKENS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.package import Block, Budget, Package, Pruned, PrunedBlock
from contextrelay.packing.candidates import BLOCK_METADATA
from contextrelay.packing.pack import pack
from contextrelay.verbs import AddBlocks, Body, PruneContext, Push, PushMany

PRUNE_AT, PRUNE_TO = 0.9, 0.8


@answers(AddBlocks)
def add_blocks(stores: Stores, verb: AddBlocks, body: Body) -> list[Artifact]:
    items = [
        Push(metadata={BLOCK_METADATA: _fields(block)}, created_by=verb.by, thread=verb.thread)
        for block in verb.blocks
    ]
    contents = [block.content.encode() for block in verb.blocks]
    return push_many(stores, PushMany(items, list(map(len, contents))), b"".join(contents))


def _fields(block: Block) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(block)
    del fields["content"]
    return {**fields, "references": list(block.references)}  # As they are read back.


@answers(PruneContext)
def prune_context(stores: Stores, verb: PruneContext, body: Body) -> Pruned:
    before = patched_before(stores, verb.thread)
    found = candidates(stores, verb.thread, Agent())
    with relevance_of(stores, verb.thread, found) as index:

        def packed(tokens: int) -> Package:
            budget = Budget(tokens, each_tokens=EACH_TOKENS)
            return pack(
                found.blocks,
                verb.query,
                budget,
                pins=verb.pins,
                digests=found.digests,
                relevance=index.relevance,
                tokens=index.tokens,
            )

        whole = packed(BUDGET_TOKENS_MAX)
        if before is not None or whole.total_tokens < PRUNE_AT * verb.budget_tokens:
            added = [] if before is None else before.operations
            values = [each["value"] for each in added if each["path"] == "/pruned/-"]
            return _pruned(verb, convert(values, list[PrunedBlock]), whole.total_tokens)
        package = packed(max(1, int(PRUNE_TO * verb.budget_tokens)))
    out = {block.id: block.metadata["ref"] for block in package.dropped if "ref" in block.metadata}
    pruned = [PrunedBlock(ref, str(package.why(block_id))) for block_id, ref in out.items()]

    def operations(document: dict[str, Any]) -> list[Operation]:
        first = [] if "pruned" in document else [Operation(op="add", path="/pruned", value=[])]
        every = [Operation(op="add", path="/pruned/-", value=to_builtins(each)) for each in pruned]
        return [*first, *every] if every else []

    change_by(stores, verb.thread, verb.by, operations)
    left = (block for block in whole.blocks if block.id not in out)
    return _pruned(verb, pruned, sum(whole.why(block.id).tokens for block in left))


def _pruned(verb: PruneContext, pruned: list[PrunedBlock], kept_tokens: int) -> Pruned:
    return Pruned(pruned=pruned, kept_tokens=kept_tokens, budget_tokens=verb.budget_tokens)
