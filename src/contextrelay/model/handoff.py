"""Handoffs: a package, a state, refs and a request that one agent gives to another."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from contextrelay.model.package import Package

HANDOFF_SCHEMA = "com.relay.handoff.v1"
HANDOFF_MEDIA_TYPE = "application/vnd.contextrelay.handoff+json"


class HandedRef(Struct, frozen=True, kw_only=True):
    """A ref in a handoff, with facts that help its reader decide whether to load the content."""

    ref: str
    name: str | None
    type: str
    size_bytes: int = field(name="size")
    tokens: int
    outline: str


class LeftOut(Struct, frozen=True, kw_only=True):
    """An item that did not fit into a handoff, with the reason and how to get the item."""

    id: str
    tokens: int
    why: str
    get: str


class Handoff(Struct, frozen=True, kw_only=True):
    """A handoff as it was given. The receiver reads exactly these bytes."""

    schema: Literal["com.relay.handoff.v1"] = field(name="$schema", default=HANDOFF_SCHEMA)
    giver: str = field(name="from")
    to: str
    ask: str
    thread: str
    version: int
    given_at: datetime
    package: Package
    refs: tuple[HandedRef, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def state_ref(self) -> str:
        return f"{self.thread}@v{self.version}"


class Accepted(Struct, frozen=True, kw_only=True):
    """The name of the agent that accepted a handoff, and the time."""

    by: str
    at: datetime


class HandoffView(Struct, frozen=True, kw_only=True):
    """A handoff and its current status."""

    ref: str
    sha256: str
    handoff: Handoff
    accepted: tuple[Accepted, ...] = ()
    returned: tuple[str, ...] = ()
    """The refs of the handoff's results."""

    @property
    def text(self) -> str:
        """Return the text that the receiver's model reads."""
        parts = [f"[HANDOFF] from {self.handoff.giver} to {self.handoff.to}", self.handoff.ask]
        parts += [f"[{block.type}]\n{block.content}" for block in self.handoff.package.blocks]
        for each in self.handoff.refs:
            parts.append(f"[REF {each.ref}] {each.name or each.type}, {each.tokens} tokens")
            if each.outline:
                parts.append(each.outline)
        if self.handoff.left_out:
            parts.append(
                f"[LEFT OUT] {len(self.handoff.left_out)}: relay handoff show {self.ref} --why"
            )
        return "\n\n".join(parts)

    @property
    def reasons(self) -> str:
        """Return lines that say why each item is included or not, and how to get the items left
        out.
        """
        package = self.handoff.package
        parts = [f"{block.id}  {package.why(block.id)}" for block in package.blocks]
        for each in self.handoff.left_out:
            parts += [f"{each.id}  {each.why}", f"  {each.get}"]
        return "\n".join(parts)


class HandoffLine(Struct, frozen=True, kw_only=True):
    """A handoff in a listing."""

    ref: str
    giver: str = field(name="from")
    to: str
    ask: str
    thread: str
    given_at: datetime
    accepted: tuple[Accepted, ...] = ()
    returned: tuple[str, ...] = ()


class HandoffListing(Struct, frozen=True, kw_only=True):
    """One page of handoffs, newest first; `next` is "" on the last page."""

    handoffs: list[HandoffLine]
    next: str = ""
