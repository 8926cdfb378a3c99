"""Context Relay: store content once, pass small refs.

    from contextrelay import Relay

    with Relay() as relay:
        ref = relay.push("a long report").ref
        print(relay.peek(ref).preview.text)
        print(relay.pull(ref).decode())

Rule: importing this package is nearly free; a public name is loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextrelay.client.bridge.bridge import AgentBridge
    from contextrelay.client.contextrelay import ContextRelay
    from contextrelay.client.relay import AsyncRelay, Relay
    from contextrelay.core import capability
    from contextrelay.errors import (
        Broken,
        BudgetTooSmall,
        Conflict,
        Failed,
        Forbidden,
        Full,
        Gone,
        Invalid,
        Limited,
        NotFound,
        Refused,
        RelayError,
        Sealed,
        TooLarge,
        Unavailable,
        Unconfirmed,
    )
    from contextrelay.model.artifact import Artifact, Preview, Provenance
    from contextrelay.model.package import Block, Budget, Package
    from contextrelay.model.settings import Settings
    from contextrelay.packing.pack import pack
    from contextrelay.pipelines.pipeline import Pipeline

__version__ = "1.0.0.dev0"

_FILES = {
    "AgentBridge": "client.bridge.bridge",
    "Artifact": "model.artifact",
    "AsyncRelay": "client.relay",
    "Block": "model.package",
    "Broken": "errors",
    "Budget": "model.package",
    "BudgetTooSmall": "errors",
    "Conflict": "errors",
    "ContextRelay": "client.contextrelay",
    "Failed": "errors",
    "Forbidden": "errors",
    "Full": "errors",
    "Gone": "errors",
    "Invalid": "errors",
    "Limited": "errors",
    "NotFound": "errors",
    "Package": "model.package",
    "Pipeline": "pipelines.pipeline",
    "Preview": "model.artifact",
    "Provenance": "model.artifact",
    "Refused": "errors",
    "Relay": "client.relay",
    "RelayError": "errors",
    "Sealed": "errors",
    "Settings": "model.settings",
    "TooLarge": "errors",
    "Unavailable": "errors",
    "Unconfirmed": "errors",
    "capability": "core",
    "pack": "packing.pack",
}

__all__ = [
    "AgentBridge",
    "Artifact",
    "AsyncRelay",
    "Block",
    "Broken",
    "Budget",
    "BudgetTooSmall",
    "Conflict",
    "ContextRelay",
    "Failed",
    "Forbidden",
    "Full",
    "Gone",
    "Invalid",
    "Limited",
    "NotFound",
    "Package",
    "Pipeline",
    "Preview",
    "Provenance",
    "Refused",
    "Relay",
    "RelayError",
    "Sealed",
    "Settings",
    "TooLarge",
    "Unavailable",
    "Unconfirmed",
    "capability",
    "pack",
]


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module 'contextrelay' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"contextrelay.{_FILES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
