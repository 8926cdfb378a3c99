"""Threads for models: the state that agents share, read as a header and changed by patches."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextrelay import verbs
from contextrelay.client.entries import add_entry
from contextrelay.client.flow import run_awaited
from contextrelay.errors import Invalid
from contextrelay.limits import ENTRY_CHARS_MAX
from contextrelay.mcp import ref_argument
from contextrelay.mcp.resources import labelled_header
from contextrelay.mcp.tools.tool import Answer, Tool, Visit, listed, of_verb, with_fields
from contextrelay.model.thread import ThreadListing, ThreadView
from contextrelay.state.entries import Kind


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


def _listed(page: ThreadListing) -> Answer:
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


async def _add(visit: Visit, asked: AddEntry) -> Answer:
    if asked.key is not None and asked.kind != "fact":
        raise Invalid(f"a {asked.kind} has no key", "give a key with kind fact alone")
    thread = await ref_argument.thread_of(visit.relay, asked.thread)
    added = add_entry(thread, asked.kind, asked.text, visit.by, key=asked.key)
    done = await run_awaited(visit.relay.transport, added)
    return with_fields({"version": done.version, "id": done.id})


TOOLS = (
    of_verb(
        "relay_state_header",
        verbs.ReadHeader,
        "The bounded view of a thread's state, at most 2 KB: facts, constraints, open questions,"
        " next steps and the newest artifacts. Read it first when you take over a thread; its"
        " version is what you give as expected when you patch.",
        lambda view: Answer(labelled_header(view)),
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
    Tool(
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
