"""The registry: which capabilities this process knows, and the function behind each.

Built in, a user's own by the decorator, or brought by a package through the entry points of the
group `contextrelay.capabilities`, which are loaded when they are first needed.

Rule: a name means one thing. A user may redefine a capability of their own, never one built in.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from contextrelay.core.stores import Stores
from contextrelay.documents.args_schema import check_schema
from contextrelay.documents.bounds import check_label
from contextrelay.errors import Full, Invalid, NotFound
from contextrelay.limits import (
    CACHE_TTL_S_DEFAULT,
    CAPABILITIES_MAX,
    LABEL_CHARS_MAX,
    PROBLEMS_MAX,
    TTL_S_MAX,
)
from contextrelay.model.capability import Capability

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


class Known(Struct, frozen=True):
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


def known() -> Known:
    """Every capability by name, those of installed packages included."""
    global _is_loaded
    with _lock:
        if not _is_loaded:
            _is_loaded = True
            _load()
        return Known([_registered[name] for name in sorted(_registered)], list(_problems))


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
