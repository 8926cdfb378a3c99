"""The core package: one function per verb, and one entry point.

Everything that other packages may import is exported here: opening stores, `answer`, the caller's
identity, and the registration of capabilities. An import-linter contract checks this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contextrelay.core.answer import answer, answer_pushes, can_share_commit, open_stores
from contextrelay.core.stores import Stores

if TYPE_CHECKING:
    from contextrelay.core.access import (
        FoundKey,
        find_key,
        stores_of_key,
        tenant_spaces,
        with_permissions_of,
    )
    from contextrelay.core.capabilities import capability

_LATER = {
    "FoundKey": "access",
    "capability": "capabilities",
    "stores_of_key": "access",
    "find_key": "access",
    "with_permissions_of": "access",
    "tenant_spaces": "access",
}

__all__ = [
    "FoundKey",
    "Stores",
    "answer",
    "answer_pushes",
    "can_share_commit",
    "capability",
    "stores_of_key",
    "find_key",
    "open_stores",
    "with_permissions_of",
    "tenant_spaces",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that short commands start fast."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
