"""Tools: everything that a model is offered, most useful first."""

from __future__ import annotations

from contextrelay.doors.mcp import handoffs, inspect, projects, push_pull, signals, threads

TOOLS = {
    tool.name: tool
    for tool in (
        *push_pull.TOOLS,
        *inspect.TOOLS,
        *threads.TOOLS,
        *handoffs.TOOLS,
        *signals.TOOLS,
        *projects.TOOLS,
    )
}
