"""Routes of the web page: the screen of each address under /ui/, and the function of each form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from contextrelay.web.screen import BytesReply, Done, PageVisit, Screen
from contextrelay.web.screens import artifact, lists, project, runs, thread

Made = TypeVar("Made")


class Places(Generic[Made]):
    """Functions by the patterns of their addresses. `{name}` matches one path segment."""

    def __init__(self, made: Mapping[str, Callable[[PageVisit], Made]]) -> None:
        self._made = {tuple(path.split("/")): make for path, make in made.items()}

    def find(self, path: str) -> tuple[Callable[[PageVisit], Made], dict[str, str]] | None:
        """Return the function of an address and the values of its `{name}` parts, or None."""
        parts = tuple(path.split("/"))
        for pattern, make in self._made.items():
            if len(pattern) == len(parts):
                values = {
                    name[1:-1]: part
                    for name, part in zip(pattern, parts, strict=True)
                    if name.startswith("{") and part
                }
                if all(
                    name == part or name[1:-1] in values
                    for name, part in zip(pattern, parts, strict=True)
                ):
                    return make, values
        return None


SCREENS: Places[Screen | BytesReply] = Places(
    {
        "": lists.home,
        "threads": lists.threads,
        "t/{thread}": thread.thread,
        "t/{thread}/state": thread.state,
        "t/{thread}/events": thread.events,
        "t/{thread}/trace": thread.trace,
        "t/{thread}/report": thread.report,
        "artifacts": artifact.artifacts,
        "a/{ref}": artifact.artifact,
        "a/{ref}/image": artifact.image,
        "a/{ref}/frame": artifact.frame,
        "a/{ref}/sealed": artifact.sealed,
        "channels": lists.channels,
        "channel": lists.channel,
        "handoffs": lists.handoffs,
        "h/{ref}": lists.handoff,
        "runs": runs.runs,
        "r/{thread}": runs.run,
        "project": project.board,
        "search": lists.search,
        "health": lists.health,
    }
)
CHANGES: Places[Done] = Places(
    {
        "leave": lists.left,
        "t/{thread}/restore": thread.restore,
        "t/{thread}/fork": thread.fork,
        "a/{ref}/pin": artifact.pin,
        "a/{ref}/unpin": artifact.unpin,
        "channel": lists.publish,
        "r/{thread}/decide": runs.decide,
        "r/{thread}/cancel": runs.cancel,
        "r/{thread}/resume": runs.resume,
        "project/add": project.add_todo,
        "project/todo": project.move_todo,
        "project/decide": project.decide,
        "health/sweep": lists.sweep,
    }
)
