"""Packing: fill a window with a thread's state and blocks; blocks, and stored sessions.

A block is an artifact of the thread whose metadata say so (packing/candidates.py). A pruned block
remains an artifact; the list `pruned` of the state keeps it out of windows.

Rule: the content of an artifact is not put into a window; its outline and its ref are. Only content
that was added as a block is shown whole, unless a ref is cheaper (packing/inline_or_ref.py). The
head of a session's log moves with every change of the session's own row, so that neither a sweep
nor another writer undoes a change that it has not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.json import Decoder, Encoder
from msgspec.structs import replace

from contextrelay.content.tokens import count_tokens
from contextrelay.core.accounting.pull_rates import rates
from contextrelay.core.artifacts.bodies import read_body
from contextrelay.core.artifacts.holds import listed
from contextrelay.core.artifacts.records import described_each, has_expired
from contextrelay.core.inspect import cached_outline, digested_within, outlined_within
from contextrelay.core.push.push import push_many
from contextrelay.core.registry import answers
from contextrelay.core.schema import UNREADABLE, RowKind, session_log, walk_rows
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record, state_of
from contextrelay.core.threads.patch import find_earlier_patch
from contextrelay.core.threads.state import change_by
from contextrelay.documents.patch import Operation
from contextrelay.errors import Broken, Conflict, Invalid
from contextrelay.limits import (
    BUDGET_TOKENS_MAX,
    LOOKS_S_MAX,
    OUTLINE_BYTES_MAX,
    PAGE_ROWS_MAX,
    RETRIES_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.model.handoff import HANDOFF_MEDIA_TYPE
from contextrelay.model.package import Block, Budget, Package, Pruned, PrunedBlock, StoredSession
from contextrelay.packing.candidates import (
    BLOCK_METADATA,
    BlockFields,
    artifact_block,
    block_fields,
    pruned_refs,
    state_blocks,
)
from contextrelay.packing.inline_or_ref import Prices, Way, WindowMessage, choose
from contextrelay.packing.pack import pack
from contextrelay.packing.relevance import Relevance
from contextrelay.packing.turns import group_of
from contextrelay.store.ledger import ONLY, Ledger, Row, Stale, Write
from contextrelay.verbs import (
    AddBlocks,
    Body,
    DeleteSession,
    Pack,
    PruneContext,
    Push,
    PushMany,
    PutSession,
    ReadSession,
)

PACK_ARTIFACTS_MAX = 1_000
# The maximum number of tokens that a window shows for an artifact passed by ref.
STAND_IN_TOKENS_MAX = 150


_OWN = ("SYSTEM", "USER", "AGENT")
"""Types of blocks that belong to the conversation: addressed to the agent, or written by it."""


@answers(Pack)
def pack_thread(stores: Stores, verb: Pack, body: Body) -> Package:
    found = candidates(
        stores, verb.thread, PackingAgent(verb.prefix_tokens, verb.calls), verb.version
    )
    if not found.blocks:
        raise Invalid("the thread has no content to pack", "add facts, artifacts or blocks to it")
    # A window is read as text, so the words around each block are counted too.
    budget = Budget(verb.budget_tokens, each_tokens=EACH_TOKENS)
    with relevance_of(stores, verb.thread, found) as index:
        package = pack(
            found.blocks,
            verb.query,
            budget,
            pins=verb.pins,
            digests=found.digests,
            relevance=index.relevance,
            tokens=index.tokens,
        )
    return labelled(package, verb.thread, found.version)


@contextmanager
def relevance_of(stores: Stores, thread: str, found: Candidates) -> Generator[_ThreadIndex]:
    """Return the cached relevance index of a thread, updated to contain exactly these blocks."""
    kept = _index_of(stores, thread)
    with kept.lock:
        kept.update(found.blocks)
        kept.seen = found.seen
        yield kept
    stores.live_states.keep_index(thread, kept, sum(len(block.content) for block in found.blocks))


def _index_of(stores: Stores, thread: str) -> _ThreadIndex:
    kept: _ThreadIndex | None = stores.live_states.index(thread)
    return _ThreadIndex() if kept is None else kept


class _ThreadIndex:
    """A relevance index and its blocks.

    It returns the same results as a new index of the same blocks.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.relevance = Relevance()
        self.tokens: dict[str, int] = {}
        """Token counts by block id."""
        self.seen: dict[str, _ArtifactBlock] = {}
        """Blocks by ref."""
        self._blocks: dict[str, Block] = {}
        self._groups: dict[str, list[str]] = {}

    def update(self, blocks: list[Block]) -> None:
        """Add new blocks, replace changed ones and remove blocks that are not in the list.

        Scores include the neighbours of a block in its group. If a block of a group is removed, or
        a new block is not the last of its group, the index is rebuilt.
        """
        groups = _groups(blocks)
        if any(groups.get(name, [])[: len(ids)] != ids for name, ids in self._groups.items()):
            self.relevance, self._blocks, self.tokens = Relevance(), {}, {}
        wanted = {block.id: block for block in blocks}
        for block_id in self._blocks.keys() - wanted.keys():
            self.relevance.remove(block_id)
            del self.tokens[block_id]
        for block in blocks:
            known = self._blocks.get(block.id)
            if known is not block and known != block:
                self.relevance.add(block)
                self.tokens[block.id] = count_tokens(block.content)
        self._blocks, self._groups = wanted, groups


def _groups(blocks: list[Block]) -> dict[str, list[str]]:
    """Return a dict that maps each group to the ids of its blocks, in order."""
    groups: dict[str, list[str]] = {}
    for block in blocks:
        if (name := group_of(block)) is not None:
            groups.setdefault(name, []).append(block.id)
    return groups


class _ArtifactBlock(Struct):
    """An artifact as a block, computed once for each description of the artifact."""

    artifact: Artifact
    fields: BlockFields | None
    tokens: int | None = None
    whole: Block | None = None
    stand_in: Block | None = None


class PackingAgent(Struct, frozen=True):
    """The agent that a window is for. Its properties decide which form of a block is cheapest."""

    prefix_tokens: int = 0
    calls: int = 0


class Candidates(Struct, frozen=True):
    """All blocks of a thread that may go into a window, in a stable order."""

    version: int
    blocks: list[Block]
    digests: frozenset[str]
    """Ids of the blocks whose content is a digest of something longer."""
    seen: dict[str, _ArtifactBlock]


EACH_TOKENS = 5
"""Tokens of `[KNOWLEDGE]`, a newline and a blank line, counted with the real tokenizer."""


def labelled(package: Package, thread: str, version: int) -> Package:
    """Return a package labelled with its thread and version."""
    return replace(package, session_id=thread, trace_id=f"{thread}@v{version}")


def candidates(
    stores: Stores,
    thread: str,
    agent: PackingAgent,
    version: int | None = None,
    but: Collection[str] = (),
) -> Candidates:
    """Return the blocks of a thread that may go into a window.

    The artifacts in `but` and earlier handoffs are excluded, because their content is included
    already.
    """
    find_record(stores.ledger, thread)
    with state_of(stores, thread, version) as live:
        blocks, left_out = list(state_blocks(live.document)), pruned_refs(live.document).union(but)
        found_version = live.version
    way_of, digested_places = _way_chooser(stores, agent), set[int]()
    until_s = time.monotonic() + LOOKS_S_MAX
    known, seen = _index_of(stores, thread).seen, dict[str, _ArtifactBlock]()
    for artifact in _held(stores, thread)[-PACK_ARTIFACTS_MAX:]:
        if artifact.ref not in left_out and artifact.media_type != HANDOFF_MEDIA_TYPE:
            before = known.get(artifact.ref)
            if before is None or before.artifact is not artifact:
                before = _ArtifactBlock(artifact, block_fields(artifact))
            seen[artifact.ref] = before
            block = _block(stores, before, way_of, time.monotonic() > until_s)
            if block is not before.whole:
                digested_places.add(len(blocks))
            blocks.append(block)
    own = _with_unique_ids(blocks)
    digests = frozenset(own[place].id for place in digested_places)
    return Candidates(found_version, own, digests, seen)


def _held(stores: Stores, thread: str) -> list[Artifact]:
    """Return the existing artifacts of a thread, oldest first."""
    now_ms = stores.now_ms()
    every = described_each(stores, listed(stores.ledger, thread))
    there = [each for each in every if not has_expired(each, now_ms)]
    return sorted(there, key=lambda artifact: (artifact.created_at, artifact.ref))


def _way_chooser(stores: Stores, agent: PackingAgent) -> Callable[[str, int], Way]:
    """Return a function that picks the cheapest form of a block of a type and size.

    The choice uses the store's counts of how often such blocks were pulled.
    """
    settings, pulls = stores.settings, rates(stores)
    prices = Prices(settings.price_cache_write, settings.price_cache_read, settings.price_output)

    @cache  # Many blocks share a few types and sizes.
    def way_of(kind: str, tokens: int) -> Way:
        message = WindowMessage(
            tokens=tokens,
            prefix_tokens=agent.prefix_tokens,
            calls=agent.calls,
            is_exempt=kind in _OWN,
        )
        return choose(message, pulls(kind, tokens), prices)

    return way_of


def _block(
    stores: Stores, seen: _ArtifactBlock, way_of: Callable[[str, int], Way], is_late: bool
) -> Block:
    """Return an artifact as a block with its whole content or its outline.

    `is_late`: the deadline has passed, so a large body is outlined by lines, which is faster.
    """
    artifact, fields = seen.artifact, seen.fields
    if artifact.sealed is not None or not artifact.is_text:
        return artifact_block(artifact, fields, _line(artifact, None), is_whole=False)
    tokens = seen.tokens
    if tokens is None:
        tokens = cached_outline(stores, artifact, is_late).whole.tokens
        seen.tokens = None if is_late else tokens
    is_whole = (
        fields is not None
        and artifact.size_bytes <= OUTLINE_BYTES_MAX
        and way_of(fields.type, tokens) != "ref"
    )
    kept = seen.whole if is_whole else seen.stand_in
    if kept is not None:
        return kept
    if is_whole:
        seen.whole = artifact_block(artifact, fields, _text(stores, artifact), is_whole=True)
        return seen.whole
    shown = (outlined_within if fields is None else digested_within)(
        stores, artifact, STAND_IN_TOKENS_MAX, is_late
    )
    text = f"{_line(artifact, tokens)}\n{shown.text}"
    block = artifact_block(artifact, fields, text, is_whole=False)
    seen.stand_in = None if is_late else block
    return block


def _line(artifact: Artifact, tokens: int | None) -> str:
    """Return one line that describes an artifact: its ref, its name or type, and its size."""
    size = f"{tokens} tokens" if tokens is not None else f"{artifact.size_bytes} bytes"
    return f"[artifact:{artifact.ref} | {artifact.name or artifact.type}, {size}]"


def _text(stores: Stores, artifact: Artifact) -> str:
    try:
        return b"".join(read_body(stores, artifact)).decode()
    except UnicodeDecodeError as error:
        raise Broken(
            f"{artifact.ref} is described as text, but is not: {error}",
            "check the store: relay verify",
        ) from error


def _with_unique_ids(blocks: list[Block]) -> list[Block]:
    """Return blocks with unique ids, because entries of a state may have the same name."""
    seen: set[str] = set()
    found: list[Block] = []
    for block in blocks:
        block_id, number = block.id, 1
        while block_id in seen:
            number += 1
            block_id = f"{block.id}~{number}"
        seen.add(block_id)
        found.append(block if block_id == block.id else replace(block, id=block_id))
    return found


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
    # Use a list, because references are read back from JSON as a list.
    return {**fields, "references": list(block.references)}


@answers(PruneContext)
def prune_context(stores: Stores, verb: PruneContext, body: Body) -> Pruned:
    before = find_earlier_patch(stores, verb.thread)
    found = candidates(stores, verb.thread, PackingAgent())
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


class SessionEntry(Struct, frozen=True):
    """A session without its blocks, and the time at which it expires."""

    fields: dict[str, str]
    until_ms: int


_encoder = Encoder()
_decoder = Decoder(SessionEntry)


@answers(PutSession)
def put_session(stores: Stores, verb: PutSession, body: Body) -> None:
    log = session_log(verb.session)
    now_ms = stores.now_ms()
    blocks = [Row(RowKind.BLOCK, key, each) for key, each in verb.blocks.items()]
    blocks += [Row(RowKind.BLOCK, key, None) for key in verb.gone]
    for _ in range(RETRIES_MAX):
        head = stores.ledger.last(log)
        fields = verb.fields
        if fields is None:
            # Blocks stored without a session expire too, so that a sweep deletes them.
            fields = {} if (known := _entry(stores.ledger, log)) is None else known.fields
        entry = SessionEntry(fields, now_ms + verb.ttl_s * 1000)
        row = Row(RowKind.SESSION, ONLY, _encoder.encode(entry), entry.until_ms)
        with suppress(Stale):
            write = Write(log, (b"",), (row, *blocks), expect=head)
            stores.ledger.trim(log, stores.ledger.commit(write)[0])
            break
    else:
        raise Conflict(f"too many concurrent writes to session {verb.session}", "try again")
    for due_log, due in stores.ledger.due(now_ms, PAGE_ROWS_MAX):
        if due.kind == RowKind.SESSION:
            forget_ended(stores.ledger, due_log, now_ms)


@answers(ReadSession)
def read_session(stores: Stores, verb: ReadSession, body: Body) -> StoredSession | None:
    log = session_log(verb.session)
    entry = _entry(stores.ledger, log)
    if entry is None or entry.until_ms <= stores.now_ms():
        return None
    rows = walk_rows(stores.ledger, log, RowKind.BLOCK)
    return StoredSession(entry.fields, {row.key: row.body for row in rows if row.body is not None})


@answers(DeleteSession)
def delete_session(stores: Stores, verb: DeleteSession, body: Body) -> None:
    log = session_log(verb.session)
    with suppress(Stale):  # The session was stored again at the same time.
        stores.ledger.drop(log, expect=stores.ledger.last(log))


def forget_ended(ledger: Ledger, log: str, now_ms: int) -> None:
    """Drop the log of a session if it has expired."""
    head, entry = ledger.last(log), _entry(ledger, log)
    if entry is not None and entry.until_ms <= now_ms:
        with suppress(Stale):  # The session was stored again at the same time.
            ledger.drop(log, expect=head)


def _entry(ledger: Ledger, log: str) -> SessionEntry | None:
    raw = ledger.get(log, RowKind.SESSION, ONLY)
    try:
        return None if raw is None else _decoder.decode(raw)
    except UNREADABLE as error:
        raise Broken(f"cannot read {log}: {error}", "delete it and store it again") from error
