"""A real browser: Debian's Chromium, driven by Playwright; it may reach nothing but the page.

Rule: nothing leaves the machine. A request to another origin, an error of a script and a breach of
the policy end the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)

from tests.parts import NODE_PARTS, needs

CHROMIUM = shutil.which("chromium") or ""
AXE = NODE_PARTS / "node_modules" / "axe-core" / "axe.min.js"
WIDE: ViewportSize = {"width": 1200, "height": 850}
PHONE: ViewportSize = {"width": 390, "height": 800}


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser without a window."""
    needs("chromium", bool(CHROMIUM))
    with sync_playwright() as playwright:
        # A container has no user namespaces for Chromium's own sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One tab: a page, and what went wrong in it."""

    def __init__(
        self, browser: Browser, url: str, scheme: Any = "light", size: ViewportSize = WIDE
    ) -> None:
        self.url = url
        self.wrong: list[str] = []
        self.context = browser.new_context(
            base_url=url, color_scheme=scheme, viewport=size, reduced_motion="reduce"
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.wrong.append(f"it asked {request.url}")

    def open(self, path: str) -> Page:
        self.page.goto(path, wait_until="load")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert not self.wrong, self.wrong

    def picture(self, path: Path) -> None:
        self.page.screenshot(path=path)


def violations(page: Page) -> list[str]:
    """What axe-core finds that is serious."""
    # By its own evaluation: the policy of the page lets no other script in.
    page.evaluate(AXE.read_text() + "; void 0")
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
