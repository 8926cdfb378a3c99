"""Prompts that a person selects in a client, and the completion of their arguments.

Rule: a prompt says which tools to use. Texts by others in a prompt are labelled as data. This
module does not depend on the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.errors import Invalid, RelayError
from contextrelay.mcp.resources import labelled_header
from contextrelay.mcp.tools import tool
from contextrelay.mcp.tools.tool import ToolVisit
from contextrelay.verbs import ReadHeader, ShowThread


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str
    is_required: bool = True


class McpPrompt(Struct, frozen=True):
    """A prompt: its name, its description, and the function that makes its text."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...]
    write: Callable[[ToolVisit, dict[str, str]], Awaitable[str]]

    async def text(self, visit: ToolVisit, given: dict[str, str]) -> str:
        """Return the text of the prompt for the given arguments.

        Raises:
            Invalid: an argument is missing or unknown; NotFound: there is no such thread.
        """
        known = [each.name for each in self.arguments]
        takes = f"arguments of {self.name}: {', '.join(known)}"
        for name in given:
            if name not in known:
                raise Invalid(f"unknown argument {name[:80]!r}", takes)
        for each in self.arguments:
            if each.is_required and not given.get(each.name, "").strip():
                raise Invalid(f"missing argument {each.name!r}", takes)
        return await self.write(visit, given)


_THREAD = PromptArgument("thread", "The thread: its id or name.")


async def _cold_start(visit: ToolVisit, given: dict[str, str]) -> str:
    thread = await tool.thread_of(visit.relay, given["thread"])
    header = labelled_header(await visit.relay.transport.ask(ReadHeader(thread)))
    return (
        f"Take over the work on thread {thread}. You have no memory of it; this is its state:\n\n"
        f"{header}\n\n"
        "Read the refs that matter with relay_get, outline first; do not read all of them."
        " Summarise in three sentences the state of the work and your next step, then do it. Record"
        " what others have to know in the thread as you go: relay_state_add."
    )


async def _hand_off(visit: ToolVisit, given: dict[str, str]) -> str:
    thread = await tool.thread_of(visit.relay, given["thread"])
    to = defuse(given["to"]).text
    return (
        f"Hand the work on thread {thread} over to {to!r}, who cannot see this conversation."
        " First record what is only known here: facts, decisions and open questions with"
        " relay_state_add, long content with push_context. Then call relay_handoff_give to"
        f" {to!r}: ask for one verifiable result, and include the refs that are needed for it."
    )


async def _finish(visit: ToolVisit, given: dict[str, str]) -> str:
    text = (
        "This session ends, and the next agent has no memory of it. Record what changed, but"
        " nothing that is already recorded: "
    )
    if name := given.get("thread", "").strip():
        thread = await tool.thread_of(visit.relay, name)
        text += (
            f"read the state of thread {thread} (relay_state_header), add what is new with"
            " relay_state_add, and mark completed steps with relay_state_patch."
        )
    else:
        text += (
            "in a project, relay_project_finish with the stamp of the brief; on a thread,"
            " relay_state_add. Store long content with push_context and include its URL."
        )
    return text + " Then summarise the state of the work in one sentence."


_TO = PromptArgument("to", "The receiving agent.")
_OWN_THREAD = PromptArgument("thread", "The thread you worked on, if any.", is_required=False)
_TAKE_OVER = "Take over a thread without any memory of it"
_RECORD = "Record what changed at the end of a session"
PROMPTS = {
    "cold_start": McpPrompt("cold_start", _TAKE_OVER, (_THREAD,), _cold_start),
    "hand_off": McpPrompt(
        "hand_off", "Hand a thread over to another agent", (_THREAD, _TO), _hand_off
    ),
    "finish": McpPrompt("finish", _RECORD, (_OWN_THREAD,), _finish),
}
# The number of newest list entries that completion searches.
_LOOKED_AT = 100
_VERSIONS_MAX = 10_000


async def complete(
    visit: ToolVisit, name: str, begun: str, others: dict[str, str], is_in_uri: bool = False
) -> list[str]:
    """Return values of an argument that start with `begun`, newest first.

    With `is_in_uri`, threads are completed by their id, because resource URIs do not contain names.
    """
    match name:
        case "thread":
            views = (await visit.relay.threads(_LOOKED_AT)).threads
            if is_in_uri:
                return [
                    view.thread_id
                    for view in views
                    if view.thread_id.startswith(begun) or (view.name or "").startswith(begun)
                ]
            found = [each for view in views for each in (view.name, view.thread_id) if each]
        case "ref":
            listed = (await visit.relay.list(_LOOKED_AT)).artifacts
            return [
                each.ref
                for each in listed
                if each.ref.startswith(begun) or (begun and begun in (each.name or ""))
            ]
        case "version":
            found = await _versions(visit, others.get("thread", ""))
        case "to":
            given = await visit.relay.handoffs(limit=_LOOKED_AT)
            found = list(dict.fromkeys(each.to for each in given.handoffs))
        case _:
            found = []
    return [value for value in found if value.startswith(begun)]


async def _versions(visit: ToolVisit, thread: str) -> list[str]:
    try:
        id = await tool.thread_of(visit.relay, thread)
        head = (await visit.relay.transport.ask(ShowThread(id))).version
    except RelayError:
        return []
    return [str(version) for version in range(head, max(0, head - _VERSIONS_MAX), -1)]
