"""Toolsets: which tools a model is offered. Each costs it tokens before it has done anything.

By default there are few: those that agents need most, and one for each group of the others, which
does what `do` names. On request a group is offered tool by tool, each described at length.

Rule: a tool that is not offered can still be called, and texts name tools that are offered.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Any

from msgspec import Struct

from contextrelay.errors import Invalid
from contextrelay.mcp.tools import projects, push_pull, threads
from contextrelay.mcp.tools.tool import McpTool, Offered, ToolAnswer, ToolVisit

ALL = "all"


class GroupTool(Struct, frozen=True, kw_only=True):
    """Several tools as one: `do` names which, the other arguments are that tool's."""

    name: str
    description: str
    tools: dict[str, McpTool]
    """By what `do` says."""
    shown: tuple[str, ...]
    """The arguments that its schema names; whatever else its tools take is taken too."""
    fails: str = "Error"
    is_read_only: bool = False

    @property
    def is_local(self) -> bool:
        return all(tool.is_local for tool in self.tools.values())

    def schema(self) -> dict[str, Any]:
        schemas = [tool.schema()["properties"] for tool in self.tools.values()]
        named = {
            name: _type_of([fields[name] for fields in schemas if name in fields])
            for name in self.shown
        }
        do = {"type": "string", "enum": list(self.tools)}
        return {"type": "object", "properties": {"do": do, **named}, "required": ["do"]}

    async def run(self, visit: ToolVisit, arguments: dict[str, Any]) -> ToolAnswer:
        """Raises: RelayError: there is no such thing to do, or what its tool raises."""
        rest = dict(arguments)
        do = rest.pop("do", None)
        if not isinstance(do, str) or do not in self.tools:
            known = ", ".join(self.tools)
            raise Invalid(f"{self.name} has nothing to do called {str(do)[:80]!r}", f"do: {known}")
        return await self.tools[do].run(visit, rest)


def _type_of(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The type of an argument of several tools: the description says what it is for."""
    first = fields[0]
    if "enum" in first:
        choices = {choice for each in fields for choice in each["enum"]}
        return {"enum": sorted(choices)}
    kept = {name: first[name] for name in ("type", "items") if name in first}
    if "items" in kept and kept["items"].get("type") != "string":
        kept["items"] = {"type": "object"}
    return kept


def _by_action(tools: tuple[McpTool, ...], prefix: str) -> dict[str, McpTool]:
    return {tool.name.removeprefix(prefix): tool for tool in tools}


_THREADS = {tool.name: tool for tool in threads.THREAD_TOOLS}
# By the name that `--tools` takes: the group as one tool, and its tools.
GROUPS: dict[str, tuple[GroupTool, tuple[McpTool, ...]]] = {
    "threads": (
        GroupTool(
            name="relay_state",
            description=(
                "The state that agents share, by thread. header: read it, at most 2 KB; first when"
                " you take over. add: a sentence (kind, text). patch: JSON"
                " Patch; expected: the version you read. threads: list. new: make one."
            ),
            tools={
                "header": _THREADS["relay_state_header"],
                "add": _THREADS["relay_state_add"],
                "patch": _THREADS["relay_state_patch"],
                "threads": _THREADS["relay_thread_list"],
                "new": _THREADS["relay_thread_new"],
            },
            shown=("thread", "kind", "text", "operations", "expected", "name"),
        ),
        threads.THREAD_TOOLS,
    ),
    "handoff": (
        GroupTool(
            name="relay_handoff",
            description=(
                "Hand work over by ref. give: ask of an agent (to), with refs and what a thread"
                " holds, within budget_tokens. list, show, accept, return (text: what came of it)."
                " pack: what a thread says to query."
            ),
            tools=_by_action(threads.HANDOFF_TOOLS[1:], "relay_handoff_")
            | {"pack": threads.HANDOFF_TOOLS[0]},
            shown=("thread", "to", "ask", "refs", "ref", "text", "query", "budget_tokens"),
        ),
        threads.HANDOFF_TOOLS,
    ),
    "signals": (
        GroupTool(
            name="relay_channel",
            description=(
                "publish: send a small message (any JSON) to a channel. wait: for what comes there"
                " after a seq; none: from now."
            ),
            tools=_by_action(threads.SIGNAL_TOOLS, "relay_"),
            shown=("channel", "message", "after"),
        ),
        threads.SIGNAL_TOOLS,
    ),
    "project": (
        GroupTool(
            name="relay_project",
            description=(
                "A project's memory in files. start: the brief; call it first. finish: what changed"
                " (since: the brief's stamp). todo: action; a new one has a title."
                " decide: title, context. note: text. look: what. task: give one to a sub-agent,"
                " take or return one. init: make the files."
            ),
            tools=_by_action(projects.TOOLS, "relay_project_"),
            shown=(
                *("since", "completed", "next_steps", "action", "id", "title", "note", "context"),
                *("text", "what", "task", "result"),
            ),
        ),
        projects.TOOLS,
    ),
}
# Most useful first. These are always offered; what else is in a room is asked for by its name.
_BASE = (
    *push_pull.PUSH_PULL_TOOLS,
    *(tool for tool in push_pull.INSPECT_TOOLS if tool.name != "relay_artifact_list"),
)
_MORE: dict[str, tuple[McpTool, ...]] = {
    "artifacts": tuple(
        tool for tool in push_pull.INSPECT_TOOLS if tool.name == "relay_artifact_list"
    ),
    **{name: tools for name, (_, tools) in GROUPS.items()},
}
NAMES = (ALL, *_MORE)
"""What `--tools` takes."""
EVERY: dict[str, Offered] = {
    tool.name: tool
    for tool in chain(_BASE, *_MORE.values(), (group for group, _ in GROUPS.values()))
}
"""Every tool that can be called."""


class Toolset(Struct, frozen=True):
    """The tools that are offered, and how texts name the others."""

    tools: dict[str, Offered]
    names: dict[str, str]

    def spell(self, text: str) -> str:
        """A text in which tools that are not offered are named as those that do the same."""
        return _TOOL.sub(lambda found: self.names.get(found[0], found[0]), text)


_TOOL = re.compile(r"\brelay_[a-z_]+\b")


@cache
def toolset(asked: str = "", has_files: bool = True) -> Toolset:
    """The toolset with groups, by their names with commas between.

    Raises:
        Invalid: there is no such group.
    """
    groups = {name.strip() for name in asked.split(",") if name.strip()}
    if unknown := sorted(groups - set(NAMES)):
        raise Invalid(
            f"there are no tools called {unknown[0][:80]!r}", f"ask for {', '.join(NAMES)}"
        )
    if ALL in groups:
        groups = set(_MORE)
    offered: list[Offered] = [*_BASE]
    names = {} if "artifacts" in groups else {"relay_artifact_list": "relay_search"}
    for name, tools in _MORE.items():
        if name in groups:
            offered += tools
        elif name in GROUPS:
            group, _ = GROUPS[name]
            offered.append(group)
            names |= {tool.name: f"{group.name} do={do}" for do, tool in group.tools.items()}
    return Toolset({each.name: each for each in offered if has_files or not each.is_local}, names)
