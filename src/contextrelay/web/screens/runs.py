"""Pipeline runs: a list, and one run as a graph with the status of each step.

Rule: only the owner can run commands on this machine, in `relay ui`. A server shows the command
instead. On a server, a step can be approved or rejected, which only records the decision.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from contextrelay.cli import display
from contextrelay.client.transport.local import Local
from contextrelay.errors import Forbidden, Invalid
from contextrelay.limits import PAGE_GRAPH_NODES_MAX, PAGE_ROWS
from contextrelay.model.pipeline import PipelineRun
from contextrelay.pipelines import runs as pipeline_runs
from contextrelay.pipelines.approval import ApprovalDecision
from contextrelay.pipelines.language import Step, layers
from contextrelay.web.rendering import Box, Edge, graph
from contextrelay.web.screen import Done, PageVisit, Screen


def runs(visit: PageVisit) -> Screen:
    """List the newest runs."""
    return Screen(
        template="runs",
        title="Pipelines",
        command="relay pipeline list",
        answer={"runs": pipeline_runs.list_runs(visit.relay, PAGE_ROWS)},
        place="runs",
    )


def run(visit: PageVisit) -> Screen:
    """Show a run: its graph, its steps with their costs, and the actions that are possible."""
    _, view = visit.thread()
    shown, steps = pipeline_runs.show_with_steps(visit.relay, view.thread_id)
    waiting = [name for name, step in shown.steps.items() if step.status == "waiting"]
    return Screen(
        template="run",
        title=f"{shown.name} {display.short(shown.run)}",
        command=f"relay pipeline show {display.short(shown.run)}",
        answer={
            "run": shown,
            "thread": view,
            "waiting": waiting,
            "is_owner": _is_own(visit),
        },
        drawn={"picture": _graph(shown, dict(steps))},
        place="runs",
    )


def _graph(shown: PipelineRun, steps: dict[str, Step]) -> str:
    if not 0 < len(steps) <= PAGE_GRAPH_NODES_MAX:
        return ""
    boxes: dict[str, Box] = {}
    for name, step in steps.items():
        view = shown.steps[name]
        label = f"{step.kind} · {view.status}" + (" · cached" if view.is_cached else "")
        boxes[name] = Box(name, label, f"#step-{name}", view.status)
    edges = [Edge(need, name) for name, step in steps.items() for need in step.needs]
    return graph(layers({name: step.needs for name, step in steps.items()}), boxes, edges)


# Changes


def decide(visit: PageVisit) -> Done:
    """Approve or reject a waiting step."""
    _, view = visit.thread()
    verdict = visit.text("verdict")
    if verdict not in ("approve", "reject"):
        raise Invalid("missing decision", "choose approve or reject")
    decision = ApprovalDecision(verdict == "approve", visit.by, visit.text("reason"))
    pipeline_runs.decided(visit.relay, view.thread_id, visit.text("step"), decision)
    return Done(to=visit.link("r", view.thread_id), note="decided")


def cancel(visit: PageVisit) -> Done:
    """Cancel a run."""
    _, view = visit.thread()
    _check_own(visit)
    pipeline_runs.cancel(visit.relay, view.thread_id, visit.by)
    return Done(to=visit.link("r", view.thread_id), note="cancelled")


def resume(visit: PageVisit) -> Done:
    """Resume a run in a separate process, which continues after this server stops."""
    _, view = visit.thread()
    home = _check_own(visit)
    words = ["--store", str(home), "pipeline", "resume", view.thread_id, "--by", visit.by]
    subprocess.Popen(
        [sys.executable, "-m", "contextrelay", *words],
        cwd=visit.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Done(to=visit.link("r", view.thread_id), note="resumed")


def _is_own(visit: PageVisit) -> bool:
    return bool(visit.folder) and _home(visit) is not None


def _home(visit: PageVisit) -> Any:
    transport = visit.relay.transport
    return transport.stores.engine.home if isinstance(transport, Local) else None


def _check_own(visit: PageVisit) -> Any:
    if not _is_own(visit):
        raise Forbidden(
            "runs cannot be cancelled or resumed on a server",
            "run relay pipeline on the machine of the run",
        )
    return _home(visit)
