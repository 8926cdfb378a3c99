"""The storage schema: every log name and row kind of a store, and the loops that page through them.

A ledger knows logs, facts and rows of bytes. What they are called, what they hold, which file
writes them and when they go is on this page; docs/engines.md shows LOGS and COUNTERS as tables.

Rule: no other file of src spells the prefix of a log or the kind of a row (tests/tidy.py checks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from msgspec import DecodeError, Struct

from contextrelay.limits import DAY_S, PAGE_ROWS_MAX
from contextrelay.model.names import CHANNELS, KEYS, TENANTS, THREADS
from contextrelay.store.ledger import LOCK_KIND, LOCK_LOG, ONLY, PLACE_KIND, Fact, Reads, Row

Item = TypeVar("Item")
Place = TypeVar("Place", str, int)

# Log names

ARTIFACTS = "a/"
BODIES = "b/"
INDEXES = "i/"
ADDED = "i/added"
ARTIFACT_INDEX = "i/a/"
THREAD_NAMES = "i/n"
THREAD_INDEX = "i/t"
KIND_INDEXES = "i/k/"
LAST_USED = "i/u"
RESULTS = "k/"
REQUESTS, RATES = "o/", "rate/"
RESTORE = LOCK_LOG
SESSIONS, SWEEP = "s/", "sweep"

UNREADABLE = (DecodeError, UnicodeDecodeError)
"""What decoding a damaged record raises: of a text that is not UTF-8, msgspec raises the second."""

_DAY_MS = DAY_S * 1000
_END_DAY = 99_999


def artifact_log(ref: str) -> str:
    return f"{ARTIFACTS}{ref}"


def artifact_index_log(created_ms: int) -> str:
    """The index of the day of a time. Names count down, so that the newest day is listed first."""
    return f"{ARTIFACT_INDEX}{_END_DAY - created_ms // _DAY_MS:05d}"


def body_log(sha256: str) -> str:
    return f"{BODIES}{sha256}"


def request_log(key_sha256: str) -> str:
    return f"{REQUESTS}{key_sha256}"


def result_log(cache_key: str) -> str:
    return f"{RESULTS}{cache_key}"


def session_log(session: str) -> str:
    return f"{SESSIONS}{session}"


def thread_index(kind: str | None) -> str:
    """Where threads of a kind are listed; None for those that somebody works on."""
    return THREAD_INDEX if kind is None else f"{KIND_INDEXES}{kind}"


def split_log(log: str) -> tuple[str | None, str]:
    """The tenant of a log, None for the store's own, and its name without the tenant's prefix."""
    if not log.startswith(TENANTS):
        return None, log
    tenant, _, rest = log.removeprefix(TENANTS).partition("/")
    return tenant, rest


class RowKind:
    """The kinds of rows. What each one holds is in LOGS."""

    ACCEPTED = "accepted"
    ARTIFACT = "artifact"
    ASKED = "asked"
    AT = "at"
    BLOBS = PLACE_KIND
    BLOCK = "block"
    BODY = "body"
    BUCKET = "bucket"
    CHECKPOINT = "checkpoint"
    CLOSED = "closed"
    CURSOR = "cursor"
    DERIVED = "derived"
    ENDED = "ended"
    FINISHED = "finished"
    FOLDER = "folder"
    FREED = "freed"
    GONE = "gone"
    HANDOFF = "handoff"
    HOLD = "hold"
    HOLDER = "holder"
    HOOK = "hook"
    IDLE = "idle"
    KEPT = "kept"
    KEY = "key"
    LINES = "lines"
    LOCK = LOCK_KIND
    LOOKED = "looked"
    ONCE = "once"
    OWNER = "owner"
    PENDING = "pending"
    PUSHED = "pushed"
    READ = "read"
    REF = "ref"
    RESULT = "result"
    SESSION = "session"
    SHOWN = "shown"
    SNAPSHOT = "snapshot"
    STEP = "step"
    THREAD = "thread"
    TOMBSTONE = "tombstone"
    UNFINISHED = "unfinished"
    USED = "used"


# Counters (tallies of the ledger)

CACHE_HITS = "cache hits"
SAVINGS, SAVINGS_BY = "savings", "savings by "
KEY_COUNTERS, PULL_COUNTERS = "key/", "pulls/"


def own_counters(name: str, key_id: str) -> str:
    """The counters of a limited key in place of its space's: it has only what it did itself."""
    return f"{name}@{key_id}"


def key_counters(key_id: str) -> str:
    return f"{KEY_COUNTERS}{key_id}"


def pull_counters(kind: str, size_class: str) -> str:
    return f"{PULL_COUNTERS}{kind}/{size_class}"


def savings_counters(thread: str | None) -> str:
    """The counters of a thread; None for those of the whole space."""
    return SAVINGS if thread is None else f"{SAVINGS}/{thread}"


# Paging


def log_pages(
    ledger: Reads, prefix: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[list[str]]:
    """The names of logs that begin with a prefix, in pages; from behind `after`."""
    return _pages(lambda last: ledger.logs(prefix, last, limit), str, after)


def row_pages(
    ledger: Reads, log: str, kind: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[list[Row]]:
    """The rows of one kind in a log, in pages; from behind the key `after`."""
    return _pages(lambda last: ledger.rows(log, kind, last, limit), lambda row: row.key, after)


def fact_pages(ledger: Reads, log: str, after: int = 0) -> Iterator[list[Fact]]:
    """The facts of a log, in pages; from behind the seq `after`."""
    return _pages(lambda last: ledger.read(log, last, PAGE_ROWS_MAX), lambda fact: fact.seq, after)


def _pages(
    read: Callable[[Place], list[Item]], place_of: Callable[[Item], Place], after: Place
) -> Iterator[list[Item]]:
    while page := read(after):
        yield page
        after = place_of(page[-1])


def walk_logs(
    ledger: Reads, prefix: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[str]:
    """The names of logs that begin with a prefix; `limit` is how many are read at a time."""
    return chain.from_iterable(log_pages(ledger, prefix, after, limit))


def walk_rows(
    ledger: Reads, log: str, kind: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[Row]:
    """The rows of one kind in a log; `limit` is how many are read at a time."""
    return chain.from_iterable(row_pages(ledger, log, kind, after, limit))


def walk_facts(ledger: Reads, log: str, after: int = 0) -> Iterator[Fact]:
    """The facts of a log."""
    return chain.from_iterable(fact_pages(ledger, log, after))


def first_page(found: Iterable[tuple[str, Item]], limit: int) -> tuple[list[Item], str]:
    """The page that a listing shows of cursors and items, and its last cursor if there are more."""
    taken = list(islice(found, limit + 1))
    page = taken[:limit]
    return [item for _, item in page], page[-1][0] if len(taken) > limit else ""


def known_refs(ledger: Reads, refs: Iterable[str]) -> list[str]:
    """The refs that are there, or were, as this view of the ledger sees it."""
    return [ref for ref in refs if ledger.kinds(artifact_log(ref))]


def tenants(ledger: Reads) -> Iterator[str]:
    """The names of all tenants that have a log in a store."""
    after = ""
    while page := ledger.logs(TENANTS, after, 1):
        tenant = page[0].removeprefix(TENANTS).partition("/")[0]
        yield tenant
        # Behind all logs of this tenant: "0" is what follows "/" in the order of names.
        after = f"{TENANTS}{tenant}0"


# What there is


class Rows(Struct, frozen=True):
    """One kind of row in a log."""

    kind: str
    key: str
    """What its key says; ONLY where there is one such row."""
    holds: str
    writer: str
    """The file of core that writes it; ENGINE for a row that no file of core writes."""
    goes: str = "with the log"
    """When it is deleted."""


class Log(Struct, frozen=True):
    """One kind of log."""

    name: str
    facts: str
    """What its facts are; "none" for a log of rows alone."""
    goes: str
    """When it is dropped."""
    rows: tuple[Rows, ...] = ()


ENGINE = "(the engine)"
BEFORE = "(earlier versions)"
_GONE, _FREED = "with the artifact", "when no artifact has it"
_THREAD, _REMOVED = "with the thread", "when it is removed"
_AGAIN = Rows(
    RowKind.ONCE, "request", "the answer to a request with a key", "idempotency", "a day on"
)
_INDEXED = (
    Rows(RowKind.REF, "time, ref", "hash of an artifact", "artifacts/catalog", _GONE),
    Rows(RowKind.HANDOFF, "time, ref", "hash of a handoff", "artifacts/catalog", _GONE),
)
_LAST = (
    Rows(RowKind.FOLDER, "key, path", "thread last used there", "threads/threads", "never"),
    Rows(RowKind.PUSHED, "key, place", "ref last pushed there", "artifacts/records", "never"),
)
_LISTED = (Rows(RowKind.THREAD, "time, id", "nothing", "threads/threads", _THREAD),)
_NAMED = (Rows(RowKind.THREAD, "name, time, id", "nothing", "threads/threads", _THREAD),)
_PACED = (Rows(RowKind.BUCKET, ONLY, "what is left of a key's rate", "access", "a day on"),)
_RESULT = (Rows(RowKind.RESULT, ONLY, "ref of a result", "capabilities", "at its end"),)
_SESSION = (
    Rows(RowKind.SESSION, ONLY, "agent, version, ids of blocks", "packing", "at its end"),
    Rows(RowKind.BLOCK, "id", "a block as JSON", "packing"),
)
_SENT = Rows(RowKind.HOOK, "thread", "how far its hooks were served", "threads/hooks", "at its end")
_SWEPT = (Rows(RowKind.CURSOR, ONLY, "the last time an earlier version swept", BEFORE, "never"),)

LOGS: tuple[Log, ...] = (
    Log(
        f"{ARTIFACTS}<ref>",
        "events of an artifact, each with the hash of the one before",
        "30 days after the artifact",
        (
            Rows(RowKind.ARTIFACT, ONLY, "its description", "artifacts/records", _GONE),
            Rows(RowKind.TOMBSTONE, ONLY, "when and why it went, metadata", "artifacts/records"),
            Rows(RowKind.DERIVED, "ref", "an artifact made from this one", "push/push"),
            Rows(RowKind.HOLDER, "thread", "a thread that has it", "artifacts/holds", _THREAD),
            Rows(RowKind.CLOSED, ONLY, "its push was given up", "upgrade"),
            Rows(RowKind.READ, ONLY, "its size is counted in savings", "accounting/usage"),
            Rows(RowKind.SHOWN, ONLY, "whether it was packed, then read", "accounting/pull_rates"),
            _AGAIN,
        ),
    ),
    Log(
        f"{BODIES}<sha256>",
        "empty; the head moves when the row `at` changes, but for a new small body",
        "30 days after the body was freed",
        (
            Rows(RowKind.AT, ONLY, "size, name of the blob, parts", "artifacts/bodies", _FREED),
            Rows(RowKind.BODY, ONLY, "the bytes, up to 32 KiB", "artifacts/incoming", _FREED),
            Rows(RowKind.HOLD, "ref, name", "who has this body", "artifacts/bodies", _GONE),
            Rows(RowKind.FREED, ONLY, "that the bytes are deleted", "artifacts/bodies"),
            Rows(RowKind.LOOKED, "type, tenant", "outline, token count", "inspect", _FREED),
            Rows(RowKind.LINES, ONLY, "where lines begin", "inspect"),
        ),
    ),
    Log(
        f"{CHANNELS}<channel>",
        "signals, deleted when they are old or too many",
        "30 days after its last signal",
        (
            Rows(RowKind.PENDING, "ref", "a push to be signalled", BEFORE, "at the first open"),
            Rows(RowKind.KEPT, "time", "until when to keep signals", "channels", "then"),
            Rows(RowKind.IDLE, ONLY, "that all signals are old", "channels", "at a signal"),
            _AGAIN,
        ),
    ),
    Log(f"{ARTIFACT_INDEX}<day>", "none", "never", _INDEXED),
    Log(ADDED, "time and ref of each artifact, by commit", "never; a sweep leaves 10,000"),
    Log(THREAD_NAMES, "empty, one for each thread with a name", "never", _NAMED),
    Log(THREAD_INDEX, "none", "never", _LISTED),
    Log(f"{KIND_INDEXES}<kind>", "none", "never", (*_LISTED, _SENT)),
    Log(LAST_USED, "none", "never", _LAST),
    Log(f"{RESULTS}<cache key>", "none", "with its row", _RESULT),
    Log(
        f"{KEYS}<id>",
        "`made`, `revoked`: servers listen to them",
        "30 days after the key ended",
        (
            Rows(RowKind.KEY, ONLY, "the key, hash of its token", "access"),
            Rows(RowKind.USED, ONLY, "when it was last used", "access"),
        ),
    ),
    Log(
        f"{REQUESTS}<hash of an idempotency key>",
        "empty: the request came, its reply was kept",
        "a day after the request",
        (Rows(RowKind.ASKED, ONLY, "hash of the request, seed of its ids", "idempotency"), _AGAIN),
    ),
    Log(f"{RATES}<key id>", "empty, one each time; the last are left", "with its row", _PACED),
    Log(
        RESTORE,
        "one, empty, where the blobs are not with the ledger",
        "never; no backup brings it back",
        (
            Rows(RowKind.BLOBS, ONLY, "where the blobs are", ENGINE, "never"),
            Rows(
                RowKind.LOCK, ONLY, "the token of a restore: only it writes", ENGINE, "at its end"
            ),
            Rows(RowKind.FINISHED, ONLY, "no old push is unfinished", "upgrade", "never"),
            Rows(RowKind.UNFINISHED, ONLY, "left by an old version's restore", "backup"),
        ),
    ),
    Log(f"{SESSIONS}<id>", "empty, the last one", "with its row", _SESSION),
    Log(SWEEP, "none", "never", _SWEPT),
    Log(
        f"{THREADS}<thread>",
        "events of a thread, among them the patches, each with the hash of the one before",
        "30 days after the thread was removed",
        (
            Rows(RowKind.THREAD, ONLY, "name, status, origin", "threads/threads", _REMOVED),
            Rows(RowKind.GONE, ONLY, "when it was removed", "threads/threads"),
            Rows(RowKind.ARTIFACT, "ref", "tokens of one that it has", "artifacts/holds", _REMOVED),
            Rows(RowKind.SNAPSHOT, "version", "the state, compressed", "threads/head", _REMOVED),
            Rows(RowKind.CHECKPOINT, "label", "a version", "threads/events", _REMOVED),
            Rows(RowKind.ENDED, ONLY, "until when it is kept", "threads/threads", _REMOVED),
            Rows(
                RowKind.OWNER, ONLY, "id of the key that began a run", "threads/threads", _REMOVED
            ),
            Rows(RowKind.STEP, "step", "how a step ended", "runs", "when it is retried"),
            Rows(RowKind.ACCEPTED, "ref, who", "a handoff was accepted", "handoffs"),
            Rows(RowKind.HOOK, "id", "where its updates go", "threads/hooks", _REMOVED),
            _AGAIN,
        ),
    ),
    Log(f"{TENANTS}<tenant>/...", "as above: the tenant's own logs, except bodies", "as above"),
)

COUNTERS: dict[str, str] = {
    CACHE_HITS: "by capability: how often its result was cached (capabilities.py)",
    f"{KEY_COUNTERS}<id>": "requests and bytes of a key (access.py, access.py)",
    f"{PULL_COUNTERS}<type>/<size>": "packed as refs, and then read (accounting/pull_rates.py)",
    SAVINGS: "tokens sent and kept out of prompts, in all (accounting/usage.py)",
    f"{SAVINGS}/<thread>": "the same, of a thread's artifacts",
    "<name>@<id>": "any of these, as a limited key counted them (spaces.py)",
}
