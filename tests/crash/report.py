"""What writers report: a line for each verb that begins, and one for each that was answered."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import Decoder, Encoder

What = Literal["push", "remove", "pin", "extend", "sweep", "failed"]
ThreadWhat = Literal["thread", "patch", "restore", "put", "checkpoint", "close", "remove_thread"]
"""`thread`: one is made, new or forked."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One line of a writer: a verb it begins, or the answer that it got."""

    what: What | ThreadWhat
    is_done: bool = False
    ref: str = ""
    sha256: str = ""
    body_class: str = ""
    """How the body of a push is kept."""
    expires_ms: int | None = None
    thread: str = ""
    version: int = 0
    """Of the state; for a checkpoint, the seq of its event."""
    digest: str = ""
    """Of the state at that version; for a checkpoint, its label."""
    error: str = ""


class Mine(Struct, frozen=True):
    """What a writer may change, and no other."""

    refs: list[str]
    threads: list[str]
    """Those that are open."""


class Lost(AssertionError):
    """The store does not say what it said before."""


encode = Encoder().encode
decode = Decoder(Entry).decode
_in_order = Encoder(order="deterministic").encode


def digest_of(state: dict[str, Any]) -> str:
    """All of a state in a few characters, what a version says of itself included."""
    return hashlib.sha256(_in_order(state)).hexdigest()[:24]
