"""Toolsets: the tools that are offered to a model, each of which costs tokens.

By default few tools are offered: the most important ones, and one tool for each group of other
tools, whose argument `do` selects the action. On request, the tools of a group are listed
separately with full descriptions.

Rule: a tool that is not listed can still be called. Texts only name tools that are listed.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Any

from msgspec import Struct

from contextrelay.errors import Invalid
from contextrelay.mcp.tools import projects, push_pull, threads
from contextrelay.mcp.tools.tool import McpTool, ToolAnswer, ToolVisit

ALL = "all"


class GroupTool(Struct, frozen=True, kw_only=True):
    """A group of tools that is offered as one. `do` selects the tool that gets the arguments."""

    name: str
    description: str
    tools: dict[str, McpTool]
    """Maps each value of `do` to a tool."""
    shown: tuple[str, ...]
    """The arguments that the schema lists. Other arguments of the tools are accepted too."""
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
        """Run the tool that `do` selects, and return its answer."""
        rest = dict(arguments)
        do = rest.pop("do", None)
        if not isinstance(do, str) or do not in self.tools:
            known = ", ".join(self.tools)
            raise Invalid(f"unknown action {str(do)[:80]!r} of {self.name}", f"do: {known}")
        return await self.tools[do].run(visit, rest)


Offered = McpTool | GroupTool


def _type_of(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON type of an argument that several tools share."""
    first = fields[0]
    if "enum" in first:
        return {"enum": sorted({choice for each in fields for choice in each["enum"]})}
    kept = {name: first[name] for name in ("type", "items") if name in first}
    if "items" in kept and kept["items"].get("type") != "string":
        kept["items"] = {"type": "object"}
    return kept


def _by_action(tools: tuple[McpTool, ...], prefix: str) -> dict[str, McpTool]:
    return {tool.name.removeprefix(prefix): tool for tool in tools}


_THREADS = {tool.name: tool for tool in threads.THREAD_TOOLS}
# The groups by the names that `--tools` accepts: for each, the group tool and the separate tools.
GROUPS: dict[str, tuple[GroupTool, tuple[McpTool, ...]]] = {
    "threads": (
        GroupTool(
            name="relay_state",
            description=(
                "The state that agents share, by thread. header: read it, at most 2 KB; first when"
                " you take over. add: a sentence (kind, text). patch: JSON"
                " Patch; expected: the version you read. threads: list. new: create one."
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
                "Hand work over by ref. give: ask an agent (to), with refs and thread"
                " content within budget_tokens. list, show, accept, return (text: the result)."
                " pack: the thread content most relevant to query."
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
                "publish: send a small message (any JSON) to a channel. wait: for signals"
                " after a seq; default: new ones."
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
                " take or return one. init: create the files."
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
# The tools that are always listed, most useful first, and those that are listed on request.
_BASE = (*push_pull.PUSH_PULL_TOOLS, *push_pull.INSPECT_TOOLS[:-1])
_MORE: dict[str, tuple[McpTool, ...]] = {
    "artifacts": push_pull.INSPECT_TOOLS[-1:],
    **{name: tools for name, (_, tools) in GROUPS.items()},
}
NAMES = (ALL, *_MORE)
"""The values that `--tools` accepts."""
EVERY: dict[str, Offered] = {
    tool.name: tool
    for tool in chain(_BASE, *_MORE.values(), (group for group, _ in GROUPS.values()))
}
"""Every tool that can be called."""


class Toolset(Struct, frozen=True):
    """The tools that are offered, and how texts name the tools that are not."""

    tools: dict[str, Offered]
    names: dict[str, str]

    def spell(self, text: str) -> str:
        """Return a text with the names of equivalent tools for those that are not offered."""
        return _TOOL.sub(lambda found: self.names.get(found[0], found[0]), text)


_TOOL = re.compile(r"\brelay_[a-z_]+\b")


@cache
def toolset(asked: str = "", has_files: bool = True) -> Toolset:
    """Return the toolset in which the tools of some groups, as in "threads,project", are listed.

    Raises:
        Invalid: a group is unknown.
    """
    groups = {name.strip() for name in asked.split(",") if name.strip()}
    if unknown := sorted(groups - set(NAMES)):
        raise Invalid(f"unknown tool group {unknown[0][:80]!r}", f"groups: {', '.join(NAMES)}")
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
