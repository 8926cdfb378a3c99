"""The storage schema: every log name and row kind of a store, and the loops that page through them.

A ledger stores logs, facts and rows of bytes. Their names, content, writers and lifetimes are
defined here; docs/engines.md shows LOGS and COUNTERS as tables.

Rule: no other file of src spells the prefix of a log or the kind of a row (tests/tidy.py checks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from msgspec import DecodeError, Struct

from contextrelay.errors import Broken
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
"""Exceptions raised when a damaged record is decoded. msgspec raises UnicodeDecodeError for text
that is not UTF-8.
"""


def damaged(error: Exception) -> Broken:
    """Return the error for a record that cannot be decoded."""
    return Broken(f"cannot read a stored record: {error}", "check the store: relay verify")


_DAY_MS = DAY_S * 1000
_END_DAY = 99_999


def artifact_log(ref: str) -> str:
    return f"{ARTIFACTS}{ref}"


def artifact_index_log(created_ms: int) -> str:
    """Return the index log of a day. Names count down, so that the newest day is listed first."""
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
    """Return the name of the log that indexes threads of a kind; None means ordinary threads."""
    return THREAD_INDEX if kind is None else f"{KIND_INDEXES}{kind}"


def split_log(log: str) -> tuple[str | None, str]:
    """Split a log name into its tenant and the rest.

    The tenant is None for logs of the store itself.
    """
    if not log.startswith(TENANTS):
        return None, log
    tenant, _, rest = log.removeprefix(TENANTS).partition("/")
    return tenant, rest


KEY_NAMES = "key names"
"""Key of the row `finished` that says that no two keys have one name."""


class RowKind:
    """The kinds of rows. LOGS describes each one."""

    ACCEPTED = "accepted"
    ARTIFACT = "artifact"
    ASKED = "asked"
    AT = "at"
    BLOBS = PLACE_KIND
    BLOCK = "block"
    BODY = "body"
    BUCKET = "bucket"
    CANDIDATE = "candidate"
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
    """Return the name of a limited key's counters, which count only the actions of that key."""
    return f"{name}@{key_id}"


def key_counters(key_id: str) -> str:
    return f"{KEY_COUNTERS}{key_id}"


def pull_counters(kind: str, size_class: str) -> str:
    return f"{PULL_COUNTERS}{kind}/{size_class}"


def savings_counters(thread: str | None) -> str:
    """Return the name of a thread's counters; None means the counters of the whole space."""
    return SAVINGS if thread is None else f"{SAVINGS}/{thread}"


# Paging


def log_pages(
    ledger: Reads, prefix: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[list[str]]:
    """Yield pages of log names that start with a prefix and follow the name `after`."""
    return _pages(lambda last: ledger.logs(prefix, last, limit), str, after)


def row_pages(
    ledger: Reads, log: str, kind: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[list[Row]]:
    """Yield pages of rows of one kind in a log, starting after the key `after`."""
    return _pages(lambda last: ledger.rows(log, kind, last, limit), lambda row: row.key, after)


def fact_pages(ledger: Reads, log: str, after: int = 0) -> Iterator[list[Fact]]:
    """Yield pages of facts of a log, starting after the seq `after`."""
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
    """Yield the names of logs that start with a prefix; `limit` is the number of names per read."""
    return chain.from_iterable(log_pages(ledger, prefix, after, limit))


def walk_rows(
    ledger: Reads, log: str, kind: str, after: str = "", limit: int = PAGE_ROWS_MAX
) -> Iterator[Row]:
    """Yield the rows of one kind in a log; `limit` is the number of rows per read."""
    return chain.from_iterable(row_pages(ledger, log, kind, after, limit))


def walk_facts(ledger: Reads, log: str, after: int = 0) -> Iterator[Fact]:
    """Yield the facts of a log."""
    return chain.from_iterable(fact_pages(ledger, log, after))


def first_page(found: Iterable[tuple[str, Item]], limit: int) -> tuple[list[Item], str]:
    """Return the first page of (cursor, item) pairs, and its last cursor, "" at the end."""
    taken = list(islice(found, limit + 1))
    page = taken[:limit]
    return [item for _, item in page], page[-1][0] if len(taken) > limit else ""


def known_refs(ledger: Reads, refs: Iterable[str]) -> list[str]:
    """Return the refs of artifacts that exist or existed, as this view of the ledger sees them."""
    return [ref for ref in refs if ledger.kinds(artifact_log(ref))]


def tenants(ledger: Reads) -> Iterator[str]:
    """Yield the names of the tenants that have a log in a store."""
    after = ""
    while page := ledger.logs(TENANTS, after, 1):
        tenant = page[0].removeprefix(TENANTS).partition("/")[0]
        yield tenant
        # Continue after all logs of this tenant: "0" follows "/" in the order of names.
        after = f"{TENANTS}{tenant}0"


# The schema


class Rows(Struct, frozen=True):
    """One kind of row in a log."""

    kind: str
    key: str
    """The parts of the row's key; ONLY if the log has a single row of this kind."""
    holds: str
    writer: str
    """The file of core that writes the row; ENGINE if no file of core writes it."""
    goes: str = "with the log"
    """When the row is deleted."""


class Log(Struct, frozen=True):
    """One kind of log."""

    name: str
    facts: str
    """What the facts of the log are; "none" if the log has only rows."""
    goes: str
    """When the log is dropped."""
    rows: tuple[Rows, ...] = ()


ENGINE = "(the engine)"
BEFORE = "(earlier versions)"
_GONE, _FREED = "with the artifact", "when no artifact uses it"
_THREAD, _REMOVED = "with the thread", "when it is removed"
_AGAIN = Rows(
    RowKind.ONCE, "request", "the answer to a request with a key", "idempotency", "after a day"
)
_INDEXED = (
    Rows(RowKind.REF, "time, ref", "hash of an artifact", "artifacts/catalog", _GONE),
    Rows(RowKind.HANDOFF, "time, ref", "hash of a handoff", "artifacts/catalog", _GONE),
)
_LAST = (
    Rows(RowKind.FOLDER, "key, place", "current and previous thread", "threads/listing", "never"),
    Rows(
        RowKind.CANDIDATE,
        "key, owner, thread",
        "empty: the owner used this thread there",
        "threads/listing",
        "when the thread is removed or closed, and another is used there",
    ),
    Rows(RowKind.PUSHED, "key, place", "ref last pushed there", "artifacts/records", "never"),
)
_LISTED = (Rows(RowKind.THREAD, "time, id", "nothing", "threads/threads", _THREAD),)
_NAMED = (Rows(RowKind.THREAD, "name, time, id", "nothing", "threads/threads", _THREAD),)
_PACED = (Rows(RowKind.BUCKET, ONLY, "remaining rate of a key", "access", "after a day"),)
_RESULT = (Rows(RowKind.RESULT, ONLY, "ref of a result", "capabilities", "when it expires"),)
_SESSION = (
    Rows(RowKind.SESSION, ONLY, "agent, version, ids of blocks", "packing", "when it expires"),
    Rows(RowKind.BLOCK, "id", "a block as JSON", "packing"),
)
_SENT = Rows(
    RowKind.HOOK, "thread", "position of its hooks' delivery", "threads/events", "when it ends"
)
_SWEPT = (
    Rows(
        RowKind.CURSOR,
        ONLY,
        "until when interrupted pushes were searched",
        "upgrade",
        "an hour later",
    ),
)

LOGS: tuple[Log, ...] = (
    Log(
        f"{ARTIFACTS}<ref>",
        "events of an artifact, each with the hash of the previous one",
        "30 days after the artifact",
        (
            Rows(RowKind.ARTIFACT, ONLY, "its description", "artifacts/records", _GONE),
            Rows(
                RowKind.TOMBSTONE,
                ONLY,
                "when and why it was removed, metadata",
                "artifacts/records",
            ),
            Rows(RowKind.DERIVED, "ref", "an artifact made from this one", "push/push"),
            Rows(RowKind.HOLDER, "thread", "a thread that holds it", "artifacts/holds", _THREAD),
            Rows(RowKind.CLOSED, ONLY, "its push was abandoned", "upgrade"),
            Rows(RowKind.READ, ONLY, "its size is counted in savings", "accounting/usage"),
            Rows(RowKind.SHOWN, ONLY, "whether it was packed, then read", "accounting/pull_rates"),
            _AGAIN,
        ),
    ),
    Log(
        f"{BODIES}<sha256>",
        "empty; the head moves when the row `at` changes, except for a new small body",
        "30 days after the body was freed",
        (
            Rows(RowKind.AT, ONLY, "size, name of the blob, parts", "artifacts/bodies", _FREED),
            Rows(RowKind.BODY, ONLY, "the bytes, up to 32 KiB", "artifacts/incoming", _FREED),
            Rows(
                RowKind.HOLD,
                "ref, name",
                "an artifact that uses this body",
                "artifacts/bodies",
                _GONE,
            ),
            Rows(RowKind.FREED, ONLY, "marks that the bytes are deleted", "artifacts/bodies"),
            Rows(RowKind.LOOKED, "type, tenant", "outline, token count", "inspect", _FREED),
            Rows(RowKind.LINES, ONLY, "where lines start", "inspect"),
        ),
    ),
    Log(
        f"{CHANNELS}<channel>",
        "signals, deleted when too old or too many",
        "30 days after its last signal",
        (
            Rows(
                RowKind.PENDING,
                "ref",
                "a push whose signal is not sent",
                BEFORE,
                "within an hour",
            ),
            Rows(RowKind.KEPT, "time", "when signals reach their age limit", "channels", "then"),
            Rows(RowKind.IDLE, ONLY, "when all signals are old", "channels", "at the next signal"),
            _AGAIN,
        ),
    ),
    Log(f"{ARTIFACT_INDEX}<day>", "none", "never", _INDEXED),
    Log(ADDED, "time and ref of each artifact, by commit", "never; a sweep keeps 10,000"),
    Log(THREAD_NAMES, "empty, one for each thread with a name", "never", _NAMED),
    Log(THREAD_INDEX, "none", "never", _LISTED),
    Log(f"{KIND_INDEXES}<kind>", "none", "never", (*_LISTED, _SENT)),
    Log(LAST_USED, "none", "never", _LAST),
    Log(f"{RESULTS}<cache key>", "none", "with its row", _RESULT),
    Log(
        f"{KEYS}<id>",
        "`made`, `revoked`: servers follow them",
        "30 days after the key ended",
        (
            Rows(RowKind.KEY, ONLY, "the key, hash of its token", "access"),
            Rows(RowKind.USED, ONLY, "when it was last used", "access"),
        ),
    ),
    Log(
        f"{REQUESTS}<hash of an idempotency key>",
        "empty: the request was received, its reply was stored",
        "a day after the request",
        (Rows(RowKind.ASKED, ONLY, "hash of the request, seed of its ids", "idempotency"), _AGAIN),
    ),
    Log(f"{RATES}<key id>", "empty, one per change; only the last is kept", "with its row", _PACED),
    Log(
        RESTORE,
        "one, empty, if the blobs are not stored with the ledger",
        "never; not restored from a backup",
        (
            Rows(RowKind.BLOBS, ONLY, "where the blobs are", ENGINE, "never"),
            Rows(
                RowKind.LOCK,
                ONLY,
                "the token of a restore, which alone may write",
                ENGINE,
                "when it ends",
            ),
            Rows(
                RowKind.FINISHED,
                f"{ONLY} or `{KEY_NAMES}`",
                "no push of an earlier version is unfinished; key names are unique",
                "upgrade",
                "never",
            ),
            Rows(RowKind.UNFINISHED, ONLY, "left by a restore of an earlier version", "backup"),
        ),
    ),
    Log(f"{SESSIONS}<id>", "empty, only the last is kept", "with its row", _SESSION),
    Log(SWEEP, "none", "never", _SWEPT),
    Log(
        f"{THREADS}<thread>",
        "events of a thread, including the patches, each with the hash of the previous one",
        "30 days after the thread was removed",
        (
            Rows(RowKind.THREAD, ONLY, "name, status, origin", "threads/threads", _REMOVED),
            Rows(RowKind.GONE, ONLY, "when it was removed", "threads/threads"),
            Rows(
                RowKind.ARTIFACT,
                "ref",
                "tokens of an artifact that it holds",
                "artifacts/holds",
                _REMOVED,
            ),
            Rows(RowKind.SNAPSHOT, "version", "the state, compressed", "threads/head", _REMOVED),
            Rows(RowKind.CHECKPOINT, "label", "a newer version", "threads/events", _REMOVED),
            Rows(RowKind.ENDED, ONLY, "when it expires", "threads/threads", _REMOVED),
            Rows(
                RowKind.OWNER, ONLY, "id of the key that started a run", "threads/threads", _REMOVED
            ),
            Rows(RowKind.STEP, "step", "how a step ended", "runs", "when it is retried"),
            Rows(RowKind.ACCEPTED, "ref, receiver", "a handoff was accepted", "handoffs"),
            Rows(RowKind.HOOK, "id", "where to send its updates", "threads/events", _REMOVED),
            _AGAIN,
        ),
    ),
    Log(f"{TENANTS}<tenant>/...", "as above: the tenant's own logs, except bodies", "as above"),
)

COUNTERS: dict[str, str] = {
    CACHE_HITS: "by capability: number of cache hits (capabilities.py)",
    f"{KEY_COUNTERS}<id>": "requests and bytes of a key (access.py)",
    f"{PULL_COUNTERS}<type>/<size>": "packed as refs, then read (accounting/pull_rates.py)",
    SAVINGS: "tokens sent and kept out of prompts, in total (accounting/usage.py)",
    f"{SAVINGS}/<thread>": "the same for the artifacts of a thread",
    "<name>@<id>": "any of these, as counted for a limited key (spaces.py)",
}
