"""A run on the screen: one line a step, redrawn on a terminal, printed as it ends where piped."""

from __future__ import annotations

import os
import shutil
import sys
import time
from threading import Event, Lock, Thread

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.terminal import ERASE_BELOW, REDRAW, UP
from contextrelay.model.pipeline import PipelineRun, StepView
from contextrelay.model.step import FINAL

_SIGNS = {"done": "✔", "failed": "✘", "skipped": "–", "waiting": "?", "running": "▶"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_S = 0.1


def step_line(view: StepView, sign: str = "", elapsed_s: float | None = None) -> str:
    """One step in one line: how it stands, its time, tokens and price, its ref or the reason."""
    sign = sign or _SIGNS.get(view.status, "◻")
    parts = [f"{sign} {display.clean(view.step)}", f"{view.kind} {view.status}"]
    duration_s = elapsed_s if elapsed_s is not None else view.duration_ms / 1000
    if duration_s >= _TICK_S / 10:
        parts.append(f"{duration_s:.1f} s")
    if view.is_cached:
        parts.append("cached")
    if view.tokens_in or view.tokens_out:
        parts.append(f"{view.tokens_in:,} tok in, {view.tokens_out:,} out")
        parts.append(price(view.price))
    if view.ref:
        parts.append(display.short(view.ref))
    if view.kind == "approve" and view.status in FINAL:
        parts.append(f"by {display.clean(view.by)}")
    if view.reason:
        parts.append(display.clean(view.reason.splitlines()[0]))
    if view.status == "waiting" and view.hint:
        parts.append(f"→ {display.clean(view.hint)}")
    return "  ".join(parts)


def price(amount: str | None) -> str:
    return "price not known" if amount is None else f"${amount}"


def summary(run: PipelineRun) -> list[str]:
    """How a run stands, in a few lines, with the next step."""
    count: dict[str, int] = {}
    for view in run.steps.values():
        if "[" not in view.step and "/" not in view.step:
            count[view.status] = count.get(view.status, 0) + 1
    steps = ", ".join(f"{number} {status}" for status, number in count.items())
    spent = ""
    if run.tokens_in or run.tokens_out:
        spent = f" · {run.tokens_in:,} tok in, {run.tokens_out:,} out · {price(run.price)}"
    time_taken = f" · {run.duration_ms / 1000:.1f} s" if run.duration_ms else ""
    name = display.clean(run.name)
    lines = [f"{name} {display.short(run.run)}  {run.status}: {steps}{time_taken}{spent}"]
    lines += (f"  {display.clean(line)}" for line in run.reason.splitlines())
    if run.hint and run.status != "running":
        lines.append(f"  next: {run.hint}")
    return lines


class View:
    """Shows a run while it goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._is_live = console.is_human and not console.is_json and is_terminal
        self._lock = Lock()
        self._views: dict[str, StepView] = {}
        self._began_s: dict[str, float] = {}
        self._lines = 0
        self._over = Event()
        self._is_read = True
        self._ticker = Thread(target=self._tick, daemon=True) if self._is_live else None

    def __enter__(self) -> View:
        if self._ticker is not None:
            self._ticker.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
            self._draw(is_last=True)

    def begin(self, run: str, name: str) -> None:
        """Say which run it is, to those who read lines."""
        if self._console.is_json:
            self._line(PipelineRun(run=run, name=name, status="running", steps={}), "")

    def hear(self, view: StepView) -> None:
        """Take in how a step stands now."""
        with self._lock:
            self._views[view.step] = view
            self._began_s.setdefault(view.step, time.monotonic())
        if self._console.is_json:
            self._line(view, "")
        elif not self._is_live and view.status != "running":
            self._line(view, step_line(view))

    def _line(self, value: object, human: str) -> None:
        """Print a line; where nobody reads them any more (`| head`), the run goes on without."""
        if self._is_read:
            try:
                self._console.line(value, human)
            except OSError:
                self._is_read = False

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            self._draw()

    def _draw(self, is_last: bool = False) -> None:
        """Draw every step; until the last time no more than there is room for.

        Those that are under way and the newest, then: what scrolled away cannot be redrawn.
        """
        size = shutil.get_terminal_size()
        with self._lock:
            views = list(self._views.values())
        room = max(3, size.lines - 3)
        lines: list[str] = []
        if len(views) > room and not is_last:
            lines.append(f"… {len(views) - room + 1} more steps")
            room -= 1
            busy = [view for view in views if view.status in ("running", "waiting", "failed")]
            rest = [view for view in views if view not in busy]
            views = [*rest[len(rest) - max(0, room - len(busy)) :], *busy][-room:]
        frame = _SPINNER[int(time.monotonic() / _TICK_S) % len(_SPINNER)]
        for view in views:
            is_busy = view.status == "running"
            elapsed_s = time.monotonic() - self._began_s[view.step] if is_busy else None
            line = step_line(view, frame if is_busy else "", elapsed_s)
            lines.append(line[: size.columns - 1])
        above = UP * self._lines + REDRAW + ERASE_BELOW
        sys.stdout.write(above + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._lines = len(lines)
