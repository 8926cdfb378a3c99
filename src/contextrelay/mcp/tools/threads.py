"""Thread tools: the shared state of a thread, which is read as a header and changed by patches."""

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
    about,
    listed,
    of_verb,
    untrusted,
    with_fields,
)
from contextrelay.model.handoff import HandoffView
from contextrelay.model.package import Package
from contextrelay.model.thread import ThreadView
from contextrelay.state.schema import Kind

ENTRY_CHARS_MAX = 4_000
_SOME = Meta(min_length=1)
_ENTRY = Meta(min_length=1, max_length=ENTRY_CHARS_MAX)


def _brief(view: ThreadView) -> dict[str, object]:
    names = ("thread_id", "name", "status", "version", "artifacts", "updated_at")
    return {name: each for name in names if (each := getattr(view, name)) is not None}


_KEY = "Of a fact: replaces the older fact with this key."


class AddEntry(Struct, frozen=True, kw_only=True):
    thread: Annotated[str, _SOME, about("A thread: its id or name.")]
    kind: Kind
    text: Annotated[str, _ENTRY, about("One sentence; no content.")]
    key: Annotated[verbs.Label, about(_KEY)] | None = None


async def _add(visit: ToolVisit, asked: AddEntry) -> ToolAnswer:
    if asked.key is not None and asked.kind != "fact":
        raise Invalid(f"key is not allowed with kind {asked.kind}", "key is for facts only")
    thread = await tool.thread_of(visit.relay, asked.thread)
    added = add_entry(thread, asked.kind, asked.text, visit.by, key=asked.key)
    done = await run_awaited(visit.relay.transport, added)
    return with_fields({"version": done.version, "id": done.id})


THREAD_TOOLS = (
    of_verb(
        "relay_state_header",
        verbs.ReadHeader,
        "A bounded summary of a thread's state, at most 2 KB: facts, constraints, open questions,"
        " next steps and the newest artifacts. Read it first when you take over a thread; pass its"
        " version as expected when you patch.",
        lambda view: ToolAnswer(labelled_header(view)),
    ),
    of_verb(
        "relay_state_patch",
        verbs.PatchState,
        "Change a thread's state by JSON Patch (RFC 6902): all operations, or none. To add one"
        " entry, relay_state_add is simpler. Items have fields: /facts id, key, value; /constraints"
        " id, description, severity; /open_questions id, question, status open or resolved; /plan"
        " id, step, status pending, in_progress, done or skipped; /decisions id, description,"
        ' reason_codes, evidence_refs, confidence. For example [{"op": "replace", "path":'
        ' "/plan/0/status", "value": "done"}]. With expected, the version you read, the patch is'
        " refused if the state has changed since: then read the header again, or pass merge=true to"
        " allow changes in other places.",
        lambda done: with_fields({"thread_id": done.thread_id, "version": done.version}),
    ),
    McpTool(
        name="relay_state_add",
        description="Add one entry to a thread's state, for everyone who works on it: a fact, a"
        " constraint, an open question, a plan step, or a decision. Keep it to a sentence; store"
        " content with push_context and include its URL.",
        takes=AddEntry,
        act=_add,
    ),
    of_verb(
        "relay_thread_list",
        verbs.ListThreads,
        "List threads, newest first, with the version of their states.",
        lambda page: listed("threads", [_brief(each) for each in page.threads], page.next, "name"),
    ),
    of_verb(
        "relay_thread_new",
        verbs.NewThread,
        "Create a thread: a state that agents share, with its own history. Give it a name by which"
        " others find it.",
        lambda view: with_fields(_brief(view)),
    ),
)


_Handoff = Annotated[str, _SOME, about("A handoff: its ref or URL.")]


def _packed(package: Package) -> ToolAnswer:
    notes = f"{len(package.blocks)} blocks, {package.total_tokens} tokens"
    if dropped := [each.id for each in package.dropped]:
        notes += f"; left out, over the budget: {', '.join(dropped[:20])}"
        notes += f" and {len(dropped) - 20} more" if len(dropped) > 20 else ""
    text = fenced(package.text, "thread content")
    return _bounded(f"{text}\n[{defuse(notes).text}]", "pass a smaller budget_tokens")


def _given(view: HandoffView) -> ToolAnswer:
    handoff = view.handoff
    return with_fields({"ref": view.ref, "to": handoff.to, "left_out": len(handoff.left_out)})


def _taken(view: HandoffView) -> ToolAnswer:
    source = f"handoff {view.ref[:8]} by {view.handoff.giver}"
    return _bounded(fenced(view.text, source), f"read it in parts: relay_get url={view.ref}")


def _bounded(text: str, hint: str) -> ToolAnswer:
    size_bytes = len(text.encode())
    if size_bytes > MCP_TEXT_BYTES_MAX:
        raise TooLarge(f"{size_bytes:,} bytes are too many to show at once", hint)
    return ToolAnswer(text)


_WHY = "Why each item was included or left out, and how to get the rest."


class ShowHandoffArgs(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    why: Annotated[bool, about(_WHY)] = False


async def _show(visit: ToolVisit, asked: ShowHandoffArgs) -> ToolAnswer:
    named = await tool.artifact_of(visit, asked.ref)
    view = await named.relay.handoff(named.ref)
    if not asked.why:
        return _taken(view)
    reasons = fenced(view.reasons, f"handoff {view.ref[:8]}, why")
    return _bounded(reasons, "read it with relay_get")


class ReturnHandoffArgs(Struct, frozen=True, kw_only=True):
    ref: _Handoff
    text: Annotated[str, about("The result, as text.")]
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX), about("Name of the result.")] = ""
    by: Who | None = None


async def _return(visit: ToolVisit, asked: ReturnHandoffArgs) -> ToolAnswer:
    if not asked.text:
        raise Invalid("empty result", "pass the result as text")
    named = await tool.artifact_of(visit, asked.ref)
    made = await named.relay.give_back(
        asked.text, named.ref, name=asked.name or None, by=asked.by or visit.by
    )
    return with_fields({"ref": made.ref, "name": made.name, "size": made.size_bytes})


HANDOFF_TOOLS = (
    of_verb(
        "relay_pack",
        verbs.Pack,
        "The parts of a thread's state and blocks most relevant to a query, packed into"
        " budget_tokens by the real tokenizer. Artifacts come as an outline with their ref. The"
        " answer lists what was left out.",
        _packed,
    ),
    of_verb(
        "relay_handoff_give",
        verbs.GiveHandoff,
        "Hand a thread over to another agent, by its name: a task, the knowledge it needs"
        " packed into a token budget, and refs. The agent is notified on the channel"
        " handoff/<to>. Its result is attached to the thread; wait for it on"
        " handoff/<your own name>, or see relay_handoff_show.",
        _given,
        has_by=True,
    ),
    of_verb(
        "relay_handoff_accept",
        verbs.AcceptHandoff,
        "Accept a handoff by its ref: returns the task, the knowledge it needs, and refs to read"
        " with relay_get. The giver can see that you accepted it.",
        _taken,
        has_by=True,
    ),
    McpTool(
        name="relay_handoff_return",
        description="Return the result of a handoff that you accepted: it is attached to the"
        " giver's thread, and the giver is notified.",
        takes=ReturnHandoffArgs,
        act=_return,
        has_by=True,
    ),
    of_verb(
        "relay_handoff_list",
        verbs.ListHandoffs,
        "List handoffs, newest first: to an agent (to), of a thread, or with is_open only those"
        " that were not accepted yet.",
        lambda page: listed("handoffs", page.handoffs, page.next, "from", "ask"),
    ),
    McpTool(
        name="relay_handoff_show",
        description="Show a handoff without accepting it; with why, the reason for each item in it,"
        " and how to get each item that was left out.",
        takes=ShowHandoffArgs,
        act=_show,
        is_read_only=True,
    ),
)


_AFTER = "The last seq you have read; default: new signals only."
_TIMEOUT = "How long to wait if there is none yet."


class WaitForSignals(Struct, frozen=True, kw_only=True):
    channel: Annotated[str, Meta(min_length=1, max_length=CHANNEL_CHARS_MAX)]
    after: Annotated[int, Meta(ge=0, le=NUMBER_MAX), about(_AFTER)] | None = None
    timeout_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX), about(_TIMEOUT)] = WAIT_S_DEFAULT


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
        fields["gap"] = f"signals {page.gap[0]} to {page.gap[1]} are no longer stored"
    return with_fields(fields | (untrusted("from", "message") if signals else {}))


SIGNAL_TOOLS = (
    of_verb(
        "relay_publish",
        verbs.Publish,
        "Send a small message (any JSON value) to the subscribers of a channel. For long content,"
        " call push_context with that channel: they get its URL.",
        lambda signal: with_fields({"seq": signal.seq}),
    ),
    McpTool(
        name="relay_wait",
        description="Wait for signals of a channel: messages, and URLs of content pushed to it."
        " Returns at once if there are signals after the seq you pass, otherwise at the next signal"
        " or the timeout; pass head to the next call to miss nothing.",
        takes=WaitForSignals,
        act=_wait,
        is_read_only=True,
    ),
)
