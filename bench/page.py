"""The page: how long each screen of a large store takes, what is seen live, the server's memory.

The screens are asked for over one connection, as a browser does; the slider and the live channel
are timed in Chromium, to the frame in which the change is painted.
"""

from __future__ import annotations

import http.client
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from bench.http.servers import Served, check_parts, relay
from bench.measure import Curve, Result, flat, timed, within
from contextrelay import Relay

THREADS = 1_000
ARTIFACTS = 100_000
AT_ONCE = 10_000
VERSIONS = 10_000
WARM_LOADS = 5
LOADS = 41
MEMORY_LOADS = 10_000
SCREEN_MS = 30.0
SEEN_MS = 100.0
STEPS = 30
GROWN_MAX = 1.05
CHANNEL = "news"

# Resolves when the frame with the change in it has been painted.
_SLIDE = """async (version) => {
  const slider = document.querySelector("#version"), begun = performance.now();
  const painted = new Promise((done) => {
    const look = () => {
      const title = document.querySelector("#travelled h2");
      if (title && title.textContent.endsWith(`v${version}`))
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
      else requestAnimationFrame(look);
    };
    look();
  });
  slider.value = version;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return await painted;
}"""
_SEEN = """(text) => { window.seen = new Promise((done) => {
  const now = () => performance.timeOrigin + performance.now();
  const look = () => {
    if (document.querySelector("#signals").textContent.includes(text))
      requestAnimationFrame(() => setTimeout(() => done(now())));
    else requestAnimationFrame(look);
  };
  look();
}); }"""


class Filled:
    """A large store, and the addresses of what is in it."""

    def __init__(self, store: Path) -> None:
        with Relay(store) as filled:
            threads = [filled.new_thread(f"thread {each}").id for each in range(THREADS)]
            for start in range(0, ARTIFACTS, AT_ONCE):
                filled.push_many(_item(each, threads) for each in range(start, start + AT_ONCE))
            self.thread = filled.new_thread("long")
            for number in range(VERSIONS - 1):
                fact = {"id": f"f{number}", "key": "note", "value": f"it is in file {number % 97}"}
                self.thread.patch([{"op": "add", "path": "/facts/-", "value": fact}])
            self.log = filled.push(
                "".join(
                    f"{n} INFO request {n % 89} served in {n % 13} ms\n" for n in range(50_000)
                ),
                name="server.log",
                thread=self.thread.id,
            ).ref
            lines = "".join(f"- item {n} of `code` and **weight**\n" for n in range(200))
            self.text = filled.push(f"# Plan\n\n{lines}", name="plan.md").ref
            self.json = filled.push(
                {f"key {n}": {"value": n, "on": True} for n in range(2_000)}, name="x.json"
            ).ref
            self.table = filled.push(
                "name,age,town\n" + "".join(f"n{n},{n},t{n}\n" for n in range(20_000)),
                name="t.csv",
            ).ref
            for number in range(200):
                filled.publish(CHANNEL, f"message {number}", by=f"agent {number % 7}")
            for number in range(20):
                self.handoff = self.thread.hand_off(f"agent {number % 5}", "go on", by="you").ref
            while filled.search("request").index.waiting:
                pass

    def screens(self) -> dict[str, str]:
        thread = f"/ui/t/{self.thread.id}"
        return {
            "home": "/ui/",
            "threads": "/ui/threads",
            "threads, filtered": "/ui/threads?text=thread+77",
            "thread": thread,
            "thread, an old version": f"{thread}?v=5000&with=4000",
            "events": f"{thread}/events",
            "artifacts": "/ui/artifacts",
            "artifact, lines": f"/ui/a/{self.log}?view=lines&line=25000",
            "artifact, find": f"/ui/a/{self.log}?view=grep&pattern=request+77",
            "artifact, markdown": f"/ui/a/{self.text}",
            "artifact, tree": f"/ui/a/{self.json}",
            "artifact, table": f"/ui/a/{self.table}?row=10000",
            "channels": "/ui/channels",
            "channel": f"/ui/channel?name={CHANNEL}",
            "handoffs": "/ui/handoffs",
            "handoff": f"/ui/h/{self.handoff}",
            "pipelines": "/ui/runs",
            "search": "/ui/search?q=request+served",
            "health": "/ui/health",
        }


def _item(number: int, threads: list[str]) -> tuple[str, dict[str, Any]]:
    text = f"note {number}: agent {number % 13} looked at file {number % 1_009}\n"
    return text, {"name": f"note-{number}.txt", "thread": threads[number // (ARTIFACTS // THREADS)]}


def scenarios(folder: Path) -> Iterator[Result | Curve]:
    check_parts("chromium")
    filled = Filled(folder / "store")
    with relay(folder / "store") as served:
        web = http.client.HTTPConnection(served.host, timeout=60)
        _loaded(web, "/ui/.json")  # As JSON it waits until all is counted.
        used: dict[str, float] = {}
        for name, path in filled.screens().items():
            for _ in range(WARM_LOADS):
                _loaded(web, path)
            before_us = served.cpu_us()
            taken_ms = statistics.median([_loaded(web, path) for _ in range(LOADS)])
            used[name] = (served.cpu_us() - before_us) / LOADS / 1_000
            yield within(f"{name} / {SCREEN_MS:.0f} ms", taken_ms, SCREEN_MS, "ms", 1)
        most = max(used.values())
        yield Curve("the same in processor time", "ms", used, "<= 30", most <= SCREEN_MS)
        yield from _in_chromium(served, folder / "store", filled)
        yield _memory(served, web, list(filled.screens().values()))


def _loaded(web: http.client.HTTPConnection, path: str) -> float:
    def load() -> None:
        web.request("GET", path, headers={"accept": "text/html"})
        reply = web.getresponse()
        body = reply.read()
        assert reply.status == 200, body[-2_000:]

    return timed(load) * 1_000


def _in_chromium(served: Served, store: Path, filled: Filled) -> Iterator[Result]:
    with sync_playwright() as playwright:
        found = shutil.which("chromium")
        # A container has no user namespaces for Chromium's own sandbox.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{served.url}/ui/t/{filled.thread.id}?v=5000")
        page.evaluate(_SLIDE, 4_999)
        steps = [page.evaluate(_SLIDE, 5_000 + each) for each in range(STEPS)]
        yield _seen("a step of the slider to the painted difference", steps)
        page.goto(f"{served.url}/ui/channel?name={CHANNEL}")
        with Relay(store) as pusher:
            pushes = [_pushed(page, pusher, each) for each in range(STEPS)]
        yield _seen("a push by another process to its painted line", pushes)
        browser.close()


def _pushed(page: Page, pusher: Relay, number: int) -> float:
    text = f"live {number} of {time.time_ns()}"
    page.evaluate(_SEEN, text)
    begun_ms = time.time() * 1_000
    pusher.publish(CHANNEL, text)
    return page.evaluate("window.seen") - begun_ms


def _seen(name: str, taken_ms: list[float]) -> Result:
    return within(f"{name} / {SEEN_MS:.0f} ms", statistics.median(taken_ms), SEEN_MS, "ms", 1)


def _memory(served: Served, web: http.client.HTTPConnection, paths: list[str]) -> Curve:
    """What the server holds, after as many loads of all screens in turn."""
    points: dict[str, float] = {}
    done = 0
    for loads in (MEMORY_LOADS // 5, MEMORY_LOADS // 2, MEMORY_LOADS):
        while done < loads:
            _loaded(web, paths[done % len(paths)])
            done += 1
        points[f"{loads:,} loads"] = served.memory_mb()
    return flat("memory of the server", points, "MB", GROWN_MAX)
