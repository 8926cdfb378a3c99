"""Handoffs for models: a thread is packed, given to another agent, taken, and returned."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextrelay import verbs
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.fence import fenced
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import MCP_TEXT_BYTES_MAX, NAME_CHARS_MAX
from contextrelay.mcp import ref_argument
from contextrelay.mcp.tools.tool import Answer, Tool, Visit, Who, listed, of_verb, with_fields
from contextrelay.model.handoff import HandoffView
from contextrelay.model.package import Package

_Handoff = Annotated[str, Meta(min_length=1, description="A handoff: its ref or URL.")]


def _packed(package: Package) -> Answer:
    notes = f"{len(package.blocks)} blocks, {package.total_tokens} tokens"
    if dropped := [each.id for each in package.dropped]:
        notes += f"; left out for lack of room: {', '.join(dropped[:20])}"
        notes += f" and {len(dropped) - 20} more" if len(dropped) > 20 else ""
    text = fenced(package.text, "what a thread holds")
    return _bounded(f"{text}\n[{defuse(notes).text}]", "ask for a smaller budget_tokens")


def _given(view: HandoffView) -> Answer:
    handoff = view.handoff
    return with_fields({"ref": view.ref, "to": handoff.to, "left_out": len(handoff.left_out)})


def _taken(view: HandoffView) -> Answer:
    source = f"handoff {view.ref[:8]} by {view.handoff.giver}"
    return _bounded(fenced(view.text, source), f"read it in pieces: relay_get url={view.ref}")


def _bounded(text: str, hint: str) -> Answer:
    size_bytes = len(text.encode())
    if size_bytes > MCP_TEXT_BYTES_MAX:
        raise TooLarge(f"it has {size_bytes:,} bytes, too many to show at once", hint)
    return Answer(text)


class ShowHandoff(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    why: Annotated[
        bool, Meta(description="Why each thing is in it or is not, and how to get the rest.")
    ] = False


async def _show(visit: Visit, asked: ShowHandoff) -> Answer:
    named = await ref_argument.artifact_of(visit, asked.ref)
    view = await named.relay.handoff(named.ref)
    if not asked.why:
        return _taken(view)
    reasons = fenced(view.reasons, f"handoff {view.ref[:8]}, why")
    return _bounded(reasons, "read it with relay_get")


class ReturnHandoff(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    text: Annotated[str, Meta(description="What came of it.")]
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX, description="What to call it.")] = ""
    by: Who | None = None


async def _return(visit: Visit, asked: ReturnHandoff) -> Answer:
    if not asked.text:
        raise Invalid("there is nothing to return", "say in text what came of it")
    named = await ref_argument.artifact_of(visit, asked.ref)
    made = await named.relay.give_back(
        asked.text, named.ref, name=asked.name or None, by=asked.by or visit.by
    )
    return with_fields({"ref": made.ref, "name": made.name, "size": made.size_bytes})


TOOLS = (
    of_verb(
        "relay_pack",
        verbs.Pack,
        "What a thread's state and blocks say to a query, chosen to fit into budget_tokens: never"
        " more, by the real tokenizer. Artifacts come as an outline with their ref. It says what"
        " was left out.",
        _packed,
    ),
    of_verb(
        "relay_handoff_give",
        verbs.GiveHandoff,
        "Hand a thread over to another agent, by its name: what you ask of it, with what it needs"
        " to know packed into a budget of tokens, and refs. It hears of it on the channel"
        " handoff/<to>. What comes of it is returned into the thread; wait for it on"
        " handoff/<your own name>, or see relay_handoff_show.",
        _given,
        has_by=True,
    ),
    of_verb(
        "relay_handoff_accept",
        verbs.AcceptHandoff,
        "Take a handoff by its ref: the ask, what you need to know, and refs to read with"
        " relay_get. The giver sees that you took it.",
        _taken,
        has_by=True,
    ),
    Tool(
        name="relay_handoff_return",
        description=(
            "Give back what came of a handoff that you took: it goes into the giver's thread, and"
            " the giver hears of it."
        ),
        takes=ReturnHandoff,
        act=_return,
        has_by=True,
    ),
    of_verb(
        "relay_handoff_list",
        verbs.ListHandoffs,
        "List handoffs, newest first: for whom (to), of which thread, and with is_open only those"
        " that nobody has taken yet.",
        lambda page: listed("handoffs", page.handoffs, page.next, "from", "ask"),
    ),
    Tool(
        name="relay_handoff_show",
        description=(
            "Look at a handoff without taking it; with why, the reason for each thing in it, and"
            " for each that was left out how to get it."
        ),
        takes=ShowHandoff,
        act=_show,
        is_read_only=True,
    ),
)
