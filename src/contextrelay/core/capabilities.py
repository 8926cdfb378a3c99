"""Capabilities that this process knows, the function behind each, and the cache of their results.

They are built in, a user's own by the decorator, or brought by a package through the entry points
of the group `contextrelay.capabilities`, which are loaded when they are first needed. The log
`k/<cache key>` has one row `result`, which comes up on the due list when its time is over.

Rule: a name means one thing: a user may redefine a capability of their own, never one built in. An
entry of the cache is a hint: where its artifact is gone it is a miss, and losing it costs a run.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from contextrelay.core.artifacts import records
from contextrelay.core.schema import CACHE_HITS, RESULTS, UNREADABLE, RowKind, log_pages, result_log
from contextrelay.core.stores import Stores
from contextrelay.documents.args_schema import check_schema
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Full, Invalid, NotFound
from contextrelay.limits import CACHE_TTL_S_DEFAULT, LABEL_CHARS_MAX, PROBLEMS_MAX, TTL_S_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.capability import Capability
from contextrelay.store.ledger import ONLY, Row, Write

CAPABILITIES_MAX = 1_000


GROUP = "contextrelay.capabilities"

Function = TypeVar("Function", bound=Callable[[dict[str, Any]], Any])
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*")
_ANY_ARGS: dict[str, Any] = {"type": "object"}


class Call(Struct, frozen=True):
    """What a capability is run with; those of users see the arguments alone."""

    stores: Stores
    args: dict[str, Any]
    thread: str | None


class Result(Struct, frozen=True):
    """What a capability brings, with what describes it."""

    body: bytes
    media_type: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = {}


class Registered(Struct, frozen=True):
    """A capability, and what runs it."""

    capability: Capability
    run: Callable[[Call], Any]
    is_built_in: bool


class Capabilities(Struct, frozen=True):
    """Every capability there is, and what is wrong with those that could not be loaded."""

    registered: list[Registered]
    problems: list[str]


_registered: dict[str, Registered] = {}
_problems: list[str] = []
_lock = threading.RLock()
_is_loaded = False


def capability(
    name: str,
    *,
    description: str = "",
    args_schema: dict[str, Any] | None = None,
    cacheable: bool = True,
    cache_ttl_s: int = CACHE_TTL_S_DEFAULT,
    version: str = "1",
) -> Callable[[Function], Function]:
    """Make a function invocable by name: it takes the arguments as a dict.

    It returns text, bytes, or a dict or list that is JSON. Change `version` when the results
    change: those that are cached are then no longer used.

    Raises:
        Invalid: the name, the schema or the time is not what it has to be.
    """

    def register(function: Function) -> Function:
        text = description or (function.__doc__ or "").strip().partition("\n")[0]
        described = _described(name, text, args_schema, cacheable, cache_ttl_s, version)
        add(Registered(described, lambda call: function(call.args), is_built_in=False))
        return function

    return register


def built_in(described: Capability, run: Callable[[Call], Result]) -> Registered:
    """A capability of our own, checked as any other."""
    check_schema(described.args_schema)
    return Registered(described, run, is_built_in=True)


def add(registered: Registered) -> None:
    """Register a capability, in place of an earlier one of that name."""
    name = registered.capability.name
    with _lock:
        there = _registered.get(name)
        if there is not None and there.is_built_in and not registered.is_built_in:
            raise Invalid(f"{name} is built in", "choose another name, such as my.search")
        if there is None and len(_registered) >= CAPABILITIES_MAX:
            raise Full(f"{name} is one too many", f"the limit is {CAPABILITIES_MAX} capabilities")
        _registered[name] = registered


def find(name: str) -> Registered:
    """The capability of a name; where none is known, packages are asked for it.

    Raises:
        NotFound: there is none.
    """
    found = _registered.get(name)
    if found is not None:
        return found
    every = known()
    for each in every.registered:
        if each.capability.name == name:
            return each
    from difflib import get_close_matches

    names = [each.capability.name for each in every.registered]
    close = get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {close[0]}?" if close else "see what there is with: relay cap list"
    raise NotFound(
        f"no capability is called {ascii(name)[1:-1]}", "; ".join([hint, *every.problems])
    )


def known() -> Capabilities:
    """Every capability by name, those of installed packages included."""
    global _is_loaded
    with _lock:
        if not _is_loaded:
            _is_loaded = True
            _load()
        return Capabilities([_registered[name] for name in sorted(_registered)], list(_problems))


def without_paths(said: str) -> str:
    """What foreign code said, with file names but without their folders."""
    return _PATH.sub(lambda found: f"…/{_FOLDERS.sub('', found[0].strip(_QUOTES))}", said)


_QUOTES = "'\""
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
# In quotes, with blanks in it; or without either. What follows a colon or a slash is a URL's.
_PATH = re.compile(
    r"""'(?:/|[A-Za-z]:\\)[^']*'|"(?:/|[A-Za-z]:\\)[^"]*"|"""
    r"""(?<![\w:/.])(?:/[^\s'"():,;/]+){2,}|(?<!\w)[A-Za-z]:\\[^\s'"():,;]+"""
)


def _load() -> None:
    """Import what packages bring; one that is broken is listed and does not stop the others."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            if len(_problems) < PROBLEMS_MAX:
                said = without_paths(repr(error))
                _problems.append(f"{point.name} ({point.value}) cannot be loaded: {said}")


def _described(
    name: str,
    description: str,
    args_schema: dict[str, Any] | None,
    cacheable: bool,
    cache_ttl_s: int,
    version: str,
) -> Capability:
    if not _NAME.fullmatch(name) or len(name) > LABEL_CHARS_MAX:
        raise Invalid(f"{name[:LABEL_CHARS_MAX]!r} is no name", "write it like my.search")
    if not 1 <= cache_ttl_s <= TTL_S_MAX:
        raise Invalid(f"cache_ttl_s of {name} is {cache_ttl_s}", f"take 1 to {TTL_S_MAX} seconds")
    if description:
        check_label(description, "description", _DESCRIPTION_CHARS_MAX)
    schema = _ANY_ARGS if args_schema is None else args_schema
    check_schema(schema)
    return Capability(
        name=name,
        description=description,
        args_schema=schema,
        cacheable=cacheable,
        cache_ttl_s=cache_ttl_s,
        version=check_label(version, "version"),
    )


_DESCRIPTION_CHARS_MAX = 1_000


class CachedResult(Struct, frozen=True):
    """One cached result."""

    capability: str
    ref: str
    made_ms: int
    until_ms: int


# As many as the clients of seed 002 expect: 128 bits.
_KEY_CHARS = 32
_canonical = Encoder(order="sorted")
_encoder = Encoder()
_decoder = Decoder(CachedResult)


def key_of(tenant: str, capability: Capability, args: dict[str, Any], thread: str | None) -> str:
    """What a result is found by: the same for the same arguments, in whatever order they come."""
    named = [tenant, capability.name, args, thread, capability.version]
    return hashlib.sha256(_canonical.encode(named)).hexdigest()[:_KEY_CHARS]


def find_cached(stores: Stores, key: str) -> Artifact | None:
    """The artifact that answers, if it is there and its time is not over."""
    entry = _read(stores, result_log(key))
    if entry is None or entry.until_ms <= stores.now_ms():
        return None
    artifact = records.find(stores.ledger, entry.ref)
    if artifact is None or records.is_over(artifact, stores.now_ms()):
        return None
    return artifact


def keep(stores: Stores, key: str, capability: str, ref: str, ttl_s: int) -> None:
    """Remember a result for so long."""
    now_ms = stores.now_ms()
    entry = CachedResult(capability, ref, now_ms, now_ms + ttl_s * 1000)
    row = Row(RowKind.RESULT, ONLY, _encoder.encode(entry), entry.until_ms)
    with suppress(Full):  # The result is there, whether or not there is room to remember it.
        stores.ledger.commit(Write(result_log(key), rows=(row,)))


def count_hit(stores: Stores, capability: str) -> None:
    """Count that the cache had a result: in this process, and in the store."""
    stores.cache_hits.add()
    with suppress(Full):
        stores.ledger.tally(CACHE_HITS, {capability: 1})


def hits(stores: Stores) -> dict[str, int]:
    """How often the cache had a result, by capability."""
    return stores.ledger.tally(CACHE_HITS, {})


def forget_cached(stores: Stores, log: str) -> None:
    """Forget an entry that is due; a sweep comes here."""
    entry = _read(stores, log)
    if entry is None or entry.until_ms <= stores.now_ms():
        stores.ledger.commit(_forgetting(log))


def purge(stores: Stores, capability: str | None) -> int:
    """Forget every entry, or those of one capability; how many."""
    count = 0
    for page in log_pages(stores.ledger, RESULTS):
        chosen = [log for log in page if _is_of(_read(stores, log), capability)]
        stores.ledger.commit(*(_forgetting(log) for log in chosen))
        count += len(chosen)
    return count


def _is_of(entry: CachedResult | None, capability: str | None) -> bool:
    return capability is None or (entry is not None and entry.capability == capability)


def _forgetting(log: str) -> Write:
    return Write(log, rows=(Row(RowKind.RESULT, ONLY, None),))


def _read(stores: Stores, log: str) -> CachedResult | None:
    row = stores.ledger.get(log, RowKind.RESULT, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE:
        return None  # A cache may lose an entry.
