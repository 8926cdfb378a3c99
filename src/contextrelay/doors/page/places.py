"""Places: which screen is at which address under /ui/, and which change each form asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from contextrelay.doors.page.screen import Done, Screen, Sent, Visit
from contextrelay.doors.page.screens import home, thread, threads

Made = TypeVar("Made")


class Places(Generic[Made]):
    """Functions by address; `{name}` stands for one part of it."""

    def __init__(self, made: Mapping[str, Callable[[Visit], Made]]) -> None:
        self._made = {tuple(path.split("/")): make for path, make in made.items()}

    def find(self, path: str) -> tuple[Callable[[Visit], Made], dict[str, str]] | None:
        """The function for an address, and what the names in that stand for."""
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


SCREENS: Places[Screen | Sent] = Places(
    {
        "": home.home,
        "threads": threads.threads,
        "t/{thread}": thread.thread,
        "t/{thread}/state": thread.state,
        "t/{thread}/events": thread.events,
        "t/{thread}/trace": thread.trace,
        "t/{thread}/report": thread.report,
    }
)
CHANGES: Places[Done] = Places(
    {
        "leave": home.left,
        "t/{thread}/restore": thread.restore,
        "t/{thread}/fork": thread.fork,
    }
)
