"""Handoffs: who gave what to whom, as a graph, and one of them with what it keeps and drops."""

from __future__ import annotations

from collections import Counter

from contextrelay.cli import display
from contextrelay.limits import PAGE_GRAPH_EDGES, PAGE_GRAPH_NODES_MAX, PAGE_ROWS
from contextrelay.model.handoff import HandoffLine
from contextrelay.web.drawing import Box, Edge, graph, rows_of
from contextrelay.web.screen import Screen, Visit


def handoffs(visit: Visit) -> Screen:
    """Handoffs, newest first, and a graph of these."""
    to, is_open = visit.text("to") or None, visit.text("open") == "on"
    listing = visit.relay.handoffs(to, None, is_open, PAGE_ROWS, visit.text("after"))
    return Screen(
        template="handoffs",
        title="Handoffs",
        command="relay handoff list",
        answer={
            "handoffs": listing.handoffs,
            "next": listing.next,
            "is_filtered": bool(to or is_open),
        },
        drawn={"picture": _graph(visit, listing.handoffs)},
        place="handoffs",
    )


def _graph(visit: Visit, lines: list[HandoffLine]) -> str:
    """Agents, and how often each gave to which; the busiest, where there are many."""
    given = Counter((each.giver, each.to) for each in reversed(lines)).most_common(PAGE_GRAPH_EDGES)
    agents = list(dict.fromkeys(agent for pair, _ in given for agent in pair))
    agents = agents[:PAGE_GRAPH_NODES_MAX]
    pairs = [(pair, times) for pair, times in given if set(pair) <= set(agents)]
    if not pairs:
        return ""
    edges = [Edge(giver, to, str(times), min(6, times)) for (giver, to), times in pairs]
    boxes = {agent: Box(agent, "", visit.link(f"handoffs?to={agent}")) for agent in agents}
    return graph(rows_of(agents, [pair for pair, _ in pairs]), boxes, edges)


def handoff(visit: Visit) -> Screen:
    """A handoff: its ask, its package with what was kept and dropped and why, and its refs."""
    ref = visit.ref()
    view = visit.relay.handoff(ref)
    return Screen(
        template="handoff",
        title=f"Handoff {display.short(ref)}",
        command=f"relay handoff show {display.short(ref)} --why",
        answer={"view": view},
        place="handoffs",
    )
