"""What a report is made of: everything of a thread, at one version.

Rule: what is left out is counted; a report of any thread is bounded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from contextrelay.cli import display
from contextrelay.client.thread import Thread
from contextrelay.limits import LIST_ITEMS_MAX, REPORT_EVENTS_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.model.thread import Numbered, Stats, ThreadView


class Report(Struct, frozen=True, kw_only=True):
    """What a report shows of a thread."""

    thread: ThreadView
    version: int
    generated_at: datetime
    summary: str
    facts: list[dict[str, Any]]
    constraints: list[dict[str, Any]]
    open_questions: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    plan: list[dict[str, Any]]
    artifacts: list[Artifact]
    artifacts_left_out: int
    timeline: list[Numbered]
    timeline_left_out: int
    """How many earlier events are left out."""
    savings: Stats

    @property
    def title(self) -> str:
        return self.thread.name or self.thread.thread_id


def gather(thread: Thread) -> Report:
    """Read all that a report needs."""
    view = thread.show()
    state = thread.state(view.version)
    artifacts = thread.artifacts(LIST_ITEMS_MAX)
    after = max(0, view.events - REPORT_EVENTS_MAX)
    return Report(
        thread=view,
        version=view.version,
        generated_at=datetime.now(UTC),
        summary=state.get("session_summary") or _summary(state),
        facts=state["facts"],
        constraints=state["constraints"],
        open_questions=state["open_questions"],
        decisions=state["decisions"],
        plan=state["plan"],
        artifacts=artifacts,
        artifacts_left_out=max(0, view.artifacts - len(artifacts)),
        timeline=thread.events(after, REPORT_EVENTS_MAX),
        timeline_left_out=after,
        savings=thread.stats(),
    )


def _summary(state: dict[str, Any]) -> str:
    """What can be said of a state that has no summary of its own."""
    opened = sum(item["status"] == "open" for item in state["open_questions"])
    done = sum(item["status"] == "done" for item in state["plan"])
    return (
        f"{display.count(len(state['facts']), 'fact')}, "
        f"{display.count(len(state['decisions']), 'decision')}, "
        f"{opened} of {len(state['open_questions'])} questions open, "
        f"{done} of {len(state['plan'])} steps done."
    )
