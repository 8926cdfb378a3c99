"""Tools: everything that a model is offered, most useful first."""

from __future__ import annotations

from contextrelay.doors.mcp import handoffs, projects, reading, signals, texts, threads

TOOLS = {
    tool.name: tool
    for tool in (
        *texts.TOOLS,
        *reading.TOOLS,
        *threads.TOOLS,
        *handoffs.TOOLS,
        *signals.TOOLS,
        *projects.TOOLS,
    )
}
