"""Capabilities: the registry of this process, and the cache of their results.

Capabilities are built in, registered by a user with the decorator, or provided by a package through
the entry point group `contextrelay.capabilities`, which is loaded on first need. The log
`k/<cache key>` has one row `result`, which is due when the result expires.

Rule: users may replace their own capabilities, never a built-in one. A cache entry is a hint: if
its artifact is gone it is a miss, and losing it costs only a run.
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
    """The input of a capability. Capabilities registered by users get only the arguments."""

    stores: Stores
    args: dict[str, Any]
    thread: str | None


class Result(Struct, frozen=True):
    """The output of a capability: its content, and the description of that content."""

    body: bytes
    media_type: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = {}


class RegisteredCapability(Struct, frozen=True):
    """A capability and its function."""

    capability: Capability
    run: Callable[[Call], Any]
    is_built_in: bool


class Capabilities(Struct, frozen=True):
    """All capabilities, and the errors of capabilities that could not be loaded."""

    registered: list[RegisteredCapability]
    problems: list[str]


_registered: dict[str, RegisteredCapability] = {}
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
    """Register a function as a capability. The function gets its arguments as one dict.

    The function returns text, bytes, or a dict or list that is valid JSON. Change `version` when
    the results change, because results cached for other versions are not used.

    Raises:
        Invalid: the name, the schema or the cache time is invalid.
    """

    def register(function: Function) -> Function:
        text = description or (function.__doc__ or "").strip().partition("\n")[0]
        described = _described(name, text, args_schema, cacheable, cache_ttl_s, version)
        add(RegisteredCapability(described, lambda call: function(call.args), is_built_in=False))
        return function

    return register


def built_in(described: Capability, run: Callable[[Call], Result]) -> RegisteredCapability:
    """Return a built-in capability after the checks that every capability passes."""
    check_schema(described.args_schema)
    return RegisteredCapability(described, run, is_built_in=True)


def add(registered: RegisteredCapability) -> None:
    """Register a capability; it replaces one of the same name that is not built in."""
    name = registered.capability.name
    with _lock:
        there = _registered.get(name)
        if there is not None and there.is_built_in and not registered.is_built_in:
            raise Invalid(
                f"{name} is a built-in capability", "choose another name, such as my.search"
            )
        if there is None and len(_registered) >= CAPABILITIES_MAX:
            raise Full(
                f"too many capabilities: cannot add {name}",
                f"the limit is {CAPABILITIES_MAX} capabilities",
            )
        _registered[name] = registered


def find(name: str) -> RegisteredCapability:
    """Return the capability with a name; load the capabilities of packages if the name is not known
    yet.

    Raises:
        NotFound: no capability has that name.
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
    hint = f"did you mean {close[0]}?" if close else "list the capabilities: relay cap list"
    raise NotFound(f"capability not found: {ascii(name)[1:-1]}", "; ".join([hint, *every.problems]))


def known() -> Capabilities:
    """Return all capabilities by name, including those of installed packages."""
    global _is_loaded
    with _lock:
        if not _is_loaded:
            _is_loaded = True
            _load()
        return Capabilities([_registered[name] for name in sorted(_registered)], list(_problems))


def without_paths(said: str) -> str:
    """Return an error text of foreign code in which each path is shortened to its file name."""
    return _PATH.sub(lambda found: f"…/{_FOLDERS.sub('', found[0].strip(_QUOTES))}", said)


_QUOTES = "'\""
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
# Match quoted paths, which may contain spaces, and unquoted paths without spaces. A path after a
# colon or a slash is part of a URL and is not matched.
_PATH = re.compile(
    r"""'(?:/|[A-Za-z]:\\)[^']*'|"(?:/|[A-Za-z]:\\)[^"]*"|"""
    r"""(?<![\w:/.])(?:/[^\s'"():,;/]+){2,}|(?<!\w)[A-Za-z]:\\[^\s'"():,;]+"""
)


def _load() -> None:
    """Load the capabilities of packages.

    If one cannot be loaded, its error is listed and the others are still loaded.
    """
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
        raise Invalid(
            f"invalid capability name {name[:LABEL_CHARS_MAX]!r}", "use a name like my.search"
        )
    if not 1 <= cache_ttl_s <= TTL_S_MAX:
        raise Invalid(
            f"invalid cache_ttl_s of {name}: {cache_ttl_s}", f"use 1 to {TTL_S_MAX} seconds"
        )
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


# 128 bits, the length that clients of seed 002 expect.
_KEY_CHARS = 32
_canonical = Encoder(order="sorted")
_encoder = Encoder()
_decoder = Decoder(CachedResult)


def key_of(tenant: str, capability: Capability, args: dict[str, Any], thread: str | None) -> str:
    """Return the cache key of a call. The order of the arguments does not change the key."""
    named = [tenant, capability.name, args, thread, capability.version]
    return hashlib.sha256(_canonical.encode(named)).hexdigest()[:_KEY_CHARS]


def find_cached(stores: Stores, key: str) -> Artifact | None:
    """Return the cached artifact of a call, or None if it does not exist or has expired."""
    entry = _read(stores, result_log(key))
    if entry is None or entry.until_ms <= stores.now_ms():
        return None
    artifact = records.find(stores.ledger, entry.ref)
    if artifact is None or records.has_expired(artifact, stores.now_ms()):
        return None
    return artifact


def keep(stores: Stores, key: str, capability: str, ref: str, ttl_s: int) -> None:
    """Cache the ref of a result for `ttl_s` seconds."""
    # If there is no room, only the cache entry is missing; the result itself is stored.
    with suppress(Full):
        stores.ledger.commit(cache_write(stores, key, capability, ref, ttl_s))


def cache_write(stores: Stores, key: str, capability: str, ref: str, ttl_s: int) -> Write:
    """Return the write that caches the ref of a result for `ttl_s` seconds."""
    now_ms = stores.now_ms()
    entry = CachedResult(capability, ref, now_ms, now_ms + ttl_s * 1000)
    row = Row(RowKind.RESULT, ONLY, _encoder.encode(entry), entry.until_ms)
    return Write(result_log(key), rows=(row,))


def count_hit(stores: Stores, capability: str) -> Write:
    """Count a cache hit in this process; return the write that counts it in the store."""
    stores.cache_hits.add()
    return Write(CACHE_HITS, adds=((capability, 1),))


def hits(stores: Stores) -> dict[str, int]:
    """Return the number of cache hits of each capability, by its name."""
    return stores.ledger.tally(CACHE_HITS)


def forget_cached(stores: Stores, log: str) -> None:
    """Delete an expired cache entry; called by a sweep."""
    entry = _read(stores, log)
    if entry is None or entry.until_ms <= stores.now_ms():
        stores.ledger.commit(_forgetting(log))


def purge(stores: Stores, capability: str | None) -> int:
    """Delete all cache entries, or those of one capability; return the number deleted."""
    count = 0
    for page in log_pages(stores.ledger, RESULTS):
        entries = ((log, _read(stores, log)) for log in page)
        chosen = [
            log
            for log, entry in entries
            if capability is None or (entry is not None and entry.capability == capability)
        ]
        stores.ledger.commit(*(_forgetting(log) for log in chosen))
        count += len(chosen)
    return count


def _forgetting(log: str) -> Write:
    return Write(log, rows=(Row(RowKind.RESULT, ONLY, None),))


def _read(stores: Stores, log: str) -> CachedResult | None:
    row = stores.ledger.get(log, RowKind.RESULT, ONLY)
    try:
        return None if row is None else _decoder.decode(row)
    except UNREADABLE:
        return None  # A cache may lose an entry, so a damaged one counts as missing.
