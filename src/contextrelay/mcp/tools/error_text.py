"""Hints for models: an error of ours names commands of a shell, and a model has tools.

Rule: whatever a tool can do is named as that tool. What only a person at a shell can do stays a
command, and is marked as one.
"""

from __future__ import annotations

import re

# Commands and the tools that do the same; longer ones first, where one begins with another.
_TOOLS = {
    "artifact list": "relay_artifact_list",
    "artifact put": "push_context",
    "artifact show": "peek_context",
    "handoff accept": "relay_handoff_accept",
    "handoff give": "relay_handoff_give",
    "handoff list": "relay_handoff_list",
    "handoff return": "relay_handoff_return",
    "handoff show": "relay_handoff_show",
    "peek": "peek_context",
    "project decide": "relay_project_decide",
    "project decisions": "relay_project_look what=decisions",
    "project doctor": "relay_project_look what=doctor",
    "project finish": "relay_project_finish",
    "project init": "relay_project_init",
    "project next": "relay_project_look what=next",
    "project note": "relay_project_note",
    "project start": "relay_project_start",
    "project status": "relay_project_start",
    "project task list": "relay_project_look what=tasks",
    "project task": "relay_project_task action=",
    "project todo list": "relay_project_look what=todos",
    "project todo": "relay_project_todo action=",
    "pull": "pull_context",
    "push": "push_context",
    "search": "relay_search",
    "state log": "relay_state_header",
    "state show": "relay_state_header",
    "thread list": "relay_thread_list",
    "thread new": "relay_thread_new",
}
_COMMAND = re.compile(rf"\brelay ({'|'.join(_TOOLS)})\b(?: (?=[a-z]+\b))?")
_GET = re.compile(r"\brelay get (\S+)((?: --[a-z-]+(?: '[^']*'| [^\s;,·]+)?)*)")
_OPTION = re.compile(r"--([a-z][a-z-]*)")
_LEFT = re.compile(r"\brelay [a-z]")
_NAMES = {"by": "agent"}


def for_tools(hint: str) -> str:
    """A hint in which commands of a shell are the tools that do the same."""
    hint = _COMMAND.sub(_tool, _GET.sub(_get, hint))
    is_for_people = _LEFT.search(hint) is not None
    if not is_for_people:
        hint = _OPTION.sub(lambda found: _name(found[1]), hint)
    return f"{hint} (in a shell: ask the person you work for)" if is_for_people else hint


def _tool(found: re.Match[str]) -> str:
    tool = _TOOLS[found[1]]
    if tool.endswith("="):
        return tool
    return tool + (" " if found[0].endswith(" ") else "")


def _get(found: re.Match[str]) -> str:
    options = re.sub(r" --([a-z-]+) ", lambda each: f" {_name(each[1])}=", found[2])
    options = re.sub(r" --([a-z-]+)$", lambda each: f" {_name(each[1])}=true", options)
    return f"relay_get url={found[1]}{options}"


def _name(option: str) -> str:
    return _NAMES.get(option, option.replace("-", "_"))
