"""Threads for models: the state that agents share, read as a header and changed by patches."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from contextrelay import verbs
from contextrelay.client.entries import add_entry
from contextrelay.client.flow import run_awaited
from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.fence import fenced
from contextrelay.errors import Invalid, TooLarge
from contextrelay.limits import (
    CHANNEL_CHARS_MAX,
    MCP_TEXT_BYTES_MAX,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    WAIT_S_DEFAULT,
    WAIT_S_MAX,
)
from contextrelay.mcp.resources import labelled_header
from contextrelay.mcp.tools import tool
from contextrelay.mcp.tools.tool import (
    McpTool,
    ToolAnswer,
    ToolVisit,
    Who,
    listed,
    of_verb,
    untrusted,
    with_fields,
)
from contextrelay.model.handoff import HandoffView
from contextrelay.model.package import Package
from contextrelay.model.thread import ThreadListing, ThreadView
from contextrelay.state.entries import Kind

ENTRY_CHARS_MAX = 4_000


def _brief(view: ThreadView) -> dict[str, object]:
    fields = {
        "thread_id": view.thread_id,
        "name": view.name,
        "status": view.status,
        "version": view.version,
        "artifacts": view.artifacts,
        "updated_at": view.updated_at,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _listed(page: ThreadListing) -> ToolAnswer:
    return listed("threads", [_brief(view) for view in page.threads], page.next, "name")


class AddEntry(Struct, frozen=True, kw_only=True):
    thread: Annotated[str, Meta(min_length=1, description="A thread: its id, or its name.")]
    kind: Kind
    text: Annotated[
        str, Meta(min_length=1, max_length=ENTRY_CHARS_MAX, description="One sentence; no content.")
    ]
    key: (
        Annotated[
            verbs.Label,
            Meta(description="Of a fact: it takes the place of the older one with this key."),
        ]
        | None
    ) = None


async def _add(visit: ToolVisit, asked: AddEntry) -> ToolAnswer:
    if asked.key is not None and asked.kind != "fact":
        raise Invalid(f"a {asked.kind} has no key", "give a key with kind fact alone")
    thread = await tool.thread_of(visit.relay, asked.thread)
    added = add_entry(thread, asked.kind, asked.text, visit.by, key=asked.key)
    done = await run_awaited(visit.relay.transport, added)
    return with_fields({"version": done.version, "id": done.id})


THREAD_TOOLS = (
    of_verb(
        "relay_state_header",
        verbs.ReadHeader,
        "The bounded view of a thread's state, at most 2 KB: facts, constraints, open questions,"
        " next steps and the newest artifacts. Read it first when you take over a thread; its"
        " version is what you give as expected when you patch.",
        lambda view: ToolAnswer(labelled_header(view)),
    ),
    of_verb(
        "relay_state_patch",
        verbs.PatchState,
        "Change a thread's state by JSON Patch (RFC 6902): all operations, or none. To add one"
        " entry, relay_state_add is simpler. Items have fields: /facts id, key, value; /constraints"
        " id, description, severity; /open_questions id, question, status open or resolved; /plan"
        " id, step, status pending, in_progress, done or skipped; /decisions id, description,"
        " reason_codes, evidence_refs, confidence. For example"
        ' [{"op": "replace", "path": "/plan/0/status", "value": "done"}]. With expected, the'
        " version you read, it is refused where somebody changed the state since: read the header"
        " again then, or say merge=true to go on where the changes do not touch.",
        lambda done: with_fields({"thread_id": done.thread_id, "version": done.version}),
    ),
    McpTool(
        name="relay_state_add",
        description=(
            "Add one entry to a thread's state, for all who work on it: a fact, a constraint, an"
            " open question, a step of the plan, or a decision. Keep it to a sentence; put content"
            " into push_context and name its URL."
        ),
        takes=AddEntry,
        act=_add,
    ),
    of_verb(
        "relay_thread_list",
        verbs.ListThreads,
        "List threads, newest first, with the version of each one's state.",
        _listed,
    ),
    of_verb(
        "relay_thread_new",
        verbs.NewThread,
        "Make a thread: a state that agents share, of its own history. Give it a name by which"
        " others find it.",
        lambda view: with_fields(_brief(view)),
    ),
)


_Handoff = Annotated[str, Meta(min_length=1, description="A handoff: its ref or URL.")]


def _packed(package: Package) -> ToolAnswer:
    notes = f"{len(package.blocks)} blocks, {package.total_tokens} tokens"
    if dropped := [each.id for each in package.dropped]:
        notes += f"; left out for lack of room: {', '.join(dropped[:20])}"
        notes += f" and {len(dropped) - 20} more" if len(dropped) > 20 else ""
    text = fenced(package.text, "what a thread holds")
    return _bounded(f"{text}\n[{defuse(notes).text}]", "ask for a smaller budget_tokens")


def _given(view: HandoffView) -> ToolAnswer:
    handoff = view.handoff
    return with_fields({"ref": view.ref, "to": handoff.to, "left_out": len(handoff.left_out)})


def _taken(view: HandoffView) -> ToolAnswer:
    source = f"handoff {view.ref[:8]} by {view.handoff.giver}"
    return _bounded(fenced(view.text, source), f"read it in pieces: relay_get url={view.ref}")


def _bounded(text: str, hint: str) -> ToolAnswer:
    size_bytes = len(text.encode())
    if size_bytes > MCP_TEXT_BYTES_MAX:
        raise TooLarge(f"it has {size_bytes:,} bytes, too many to show at once", hint)
    return ToolAnswer(text)


class ShowHandoffArgs(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    why: Annotated[
        bool, Meta(description="Why each thing is in it or is not, and how to get the rest.")
    ] = False


async def _show(visit: ToolVisit, asked: ShowHandoffArgs) -> ToolAnswer:
    named = await tool.artifact_of(visit, asked.ref)
    view = await named.relay.handoff(named.ref)
    if not asked.why:
        return _taken(view)
    reasons = fenced(view.reasons, f"handoff {view.ref[:8]}, why")
    return _bounded(reasons, "read it with relay_get")


class ReturnHandoffArgs(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    text: Annotated[str, Meta(description="What came of it.")]
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX, description="What to call it.")] = ""
    by: Who | None = None


async def _return(visit: ToolVisit, asked: ReturnHandoffArgs) -> ToolAnswer:
    if not asked.text:
        raise Invalid("there is nothing to return", "say in text what came of it")
    named = await tool.artifact_of(visit, asked.ref)
    made = await named.relay.give_back(
        asked.text, named.ref, name=asked.name or None, by=asked.by or visit.by
    )
    return with_fields({"ref": made.ref, "name": made.name, "size": made.size_bytes})


HANDOFF_TOOLS = (
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
    McpTool(
        name="relay_handoff_return",
        description=(
            "Give back what came of a handoff that you took: it goes into the giver's thread, and"
            " the giver hears of it."
        ),
        takes=ReturnHandoffArgs,
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
    McpTool(
        name="relay_handoff_show",
        description=(
            "Look at a handoff without taking it; with why, the reason for each thing in it, and"
            " for each that was left out how to get it."
        ),
        takes=ShowHandoffArgs,
        act=_show,
        is_read_only=True,
    ),
)


class WaitForSignals(Struct, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)]
    after: (
        Annotated[
            int,
            Meta(ge=0, le=NUMBER_MAX, description="The seq you have read up to; none: from now."),
        ]
        | None
    ) = None
    timeout_s: Annotated[
        float, Meta(ge=0, le=WAIT_S_MAX, description="How long to wait where there is none yet.")
    ] = WAIT_S_DEFAULT


async def _wait(visit: ToolVisit, asked: WaitForSignals) -> ToolAnswer:
    async with visit.waiting(asked.timeout_s, "waiting for a signal"):
        page = await visit.relay.wait(asked.channel, asked.after, asked.timeout_s)
    signals: list[dict[str, Any]] = to_builtins(page.signals)
    for signal in signals:
        if signal.get("ref") is not None:
            signal["url"] = visit.relay.transport.url_of(signal["ref"])
    fields: dict[str, Any] = {"signals": signals}
    fields["head"] = page.signals[-1].seq if page.signals else page.head
    if page.gap is not None:
        fields["gap"] = f"signals {page.gap[0]} to {page.gap[1]} are no longer kept"
    return with_fields(fields | (untrusted("from", "message") if signals else {}))


SIGNAL_TOOLS = (
    of_verb(
        "relay_publish",
        verbs.Publish,
        "Send a small message (any JSON value) to those who listen to a channel. For anything"
        " long, push_context with that channel instead: they then get its URL.",
        lambda signal: with_fields({"seq": signal.seq}),
    ),
    McpTool(
        name="relay_wait",
        description=(
            "Wait for what is sent to a channel: messages, and URLs of what was pushed to it."
            " Returns at once if there is something after the seq you name, else when something"
            " comes or the time is up; wait again after head to miss nothing."
        ),
        takes=WaitForSignals,
        act=_wait,
        is_read_only=True,
    ),
)
