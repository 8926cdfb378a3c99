"""Signals: facts on a channel, numbered as they come; each announces a push, or is a message.

Rule: a signal carries a ref, never a URL and never a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, field


class Signal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One signal: `ref` of what was pushed, or the `message` that was published."""

    seq: int
    ts: int
    """When it was sent, in milliseconds since 1970."""
    by: str = field(name="from")
    ref: str | None = None
    message: Any = None
    """Any JSON value but null."""
    key: str = ""
    """Of a message: the name of the sender's key, written by the store; `by` is only a label."""


class SignalPage(Struct, frozen=True, kw_only=True):
    """Signals of a channel after a seq, in order, to iterate over; and how far the channel is.

    `gap`: signals first to last, both included, came after that seq and are no longer kept; reading
    goes on behind the last. Where first > last, the channel was forgotten and starts over.
    """

    signals: list[Signal]
    head: int
    gap: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Signal]:
        return iter(self.signals)


class ChannelView(Struct, frozen=True, kw_only=True):
    """A channel as it stands: its name, and the seq of its newest signal."""

    name: str
    head: int
    last_at: datetime | None
    """When the newest was sent; None where none is kept."""


class ChannelListing(Struct, frozen=True, kw_only=True):
    """One page of channels, by name; `next` is "" on the last one."""

    channels: list[ChannelView]
    next: str = ""


class SentSignal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal as its channel's log keeps it; its seq is its place there.

    `id` is made by the writer: after a lost reply it shows whether the write was done.
    """

    id: str
    ts: int
    by: str = field(name="from")
    ref: str | None = None
    message: Any = None
    key: str = ""
