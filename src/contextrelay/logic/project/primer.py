"""The primer: what an agent is told about Context Relay, in lines that stay by their rank.

Rule: the Agent Skill says the same in the same words; a test holds them together.
"""

from __future__ import annotations

from contextrelay.logic.project.brief import LINES, Brief, Count, Line, fitted

PRIMER = (
    Line(
        0, "Context Relay: files are the single source of truth. Assume no memory; read, then work."
    ),
    Line(1, "At the start of a session, sub-agent or scheduled run: relay project start --agent"),
    Line(1, "Before you end: relay project finish --since STAMP --task T --completed X --next Y"),
    Line(2, "Todos: relay project next; todo add TITLE, start ID, done ID, block ID WHY"),
    Line(2, "Decisions: relay project decide TITLE --context WHY; never edit an old one"),
    Line(
        3, "Sub-agents read only files: relay project task give TASK --expect OUTPUT, take, return"
    ),
    Line(3, "Large output: relay push FILE prints a ref; pass the ref, look with relay peek REF"),
    Line(4, "A file that cannot be read is named with line and column: relay project doctor"),
    Line(4, "Write no secrets into these files; --strict refuses them."),
    Line(5, "Scheduled: relay project heartbeat --exec CMD does at most five todos"),
)


def primed(brief: str, budget_tokens: int, count: Count) -> Brief:
    """What an agent is told, with the brief of its project if it is in one, within a budget."""
    # What the project says goes before what is nice to know about us.
    project = [Line(2, text, LINES) for text in ("", *brief.splitlines())] if brief else []
    lines = [*(line._replace(of=LINES) for line in PRIMER), *project]
    return fitted(lines, {LINES: len(lines)}, budget_tokens, count)
