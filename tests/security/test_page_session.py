"""Sessions of the page in a real Chromium, next to another server on another port of its host.

A browser sends a cookie to every port of a host. What opens the page must not be among them, and
links, JSON, frames and live parts of the page must work without it all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from msgspec import Struct
from playwright.sync_api import Browser, BrowserContext, Page, expect

from contextrelay import Relay
from contextrelay.web.entry import PageOptions
from tests.server.serving import Served, serving
from tests.web.browser import CHROMIUM, chromium
from tests.web.reader import ACCEPT

CODE = "good-once"


class Other(Struct):
    """Another server of this host, on another port: of another account, or in a container."""

    url: str
    heard: list[str]
    """Its requests: line and headers."""


@contextmanager
def other_server(page_url: str) -> Generator[Other]:
    """A server whose pages ask for everything that may carry the session of the page."""
    heard: list[str] = []
    html = f"""<!doctype html><title>other</title><img src="/ui/icon.png"><img src="/icon.png">
<iframe src="/ui/frame"></iframe><iframe src="{page_url}/ui/"></iframe>
<img src="{page_url}/ui/threads.json"><form method="post" action="/ui/enter"></form>
<script>
document.cookie = "relay_page=tossed; path=/";
document.cookie = "relay_page=tossed; path=/ui";
const asked = ["/ui/threads", "/ui/~x/threads", "/v1/threads", "{page_url}/ui/threads.json"]
  .map((path) => fetch(path, {{credentials: "include"}}).catch(() => 0));
Promise.all(asked).then(() => {{ document.title = "done"; }});
</script>"""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.requestline}\n{self.headers}")
            body = html.encode() if self.path.endswith("/begin") else b"{}"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Other(f"http://127.0.0.1:{server.server_port}", heard)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def relay(store: Path) -> Generator[Relay]:
    with Relay(store) as opened:
        yield opened


@pytest.fixture
def served(store: Path, relay: Relay) -> Generator[Served]:
    """What `relay ui` serves."""
    with serving(store, needs_token=True, page=PageOptions(code=CODE)) as running:
        yield running


@pytest.fixture
def context(browser: Browser, served: Served) -> Generator[BrowserContext]:
    """A browser that has signed in."""
    assert CHROMIUM
    made = browser.new_context(base_url=served.url)
    made.set_default_timeout(20_000)
    page = made.new_page()
    page.goto(f"/ui/#code={CODE}")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    yield made
    made.close()


def test_no_other_port_receives_what_opens_the_page(
    context: BrowserContext, served: Served, relay: Relay
) -> None:
    """Promise Z2: the session is the port's."""
    relay.new_thread("secret plan")
    page = context.pages[0]
    cookies = {each["value"] for each in context.cookies([page.url]) if "value" in each}
    session = page.url.removeprefix(f"{served.url}/ui/").strip("/")

    with other_server(served.url) as other:
        for path in ("/begin", "/ui/begin", "/ui/~x/begin"):
            page.goto(f"{other.url}{path}")
            expect(page).to_have_title("done")
        page.goto("/ui/")  # By the address of old: into the session.
        expect(page.get_by_text("secret plan")).to_be_visible()
        page.evaluate(f"location.href = '{other.url}/left'")
        page.wait_for_url(f"{other.url}/left")

    said = "\n".join(other.heard)
    assert "tossed" in said, "cookies are not sent to other ports at all"
    assert len(cookies) == 1
    assert session.startswith("~")
    assert not any(each in said for each in (*cookies, session))


def test_a_cookie_opens_nothing_without_the_path_of_its_session(
    context: BrowserContext, served: Served
) -> None:
    """Promise Z2: nor the API, nor another session."""
    page = context.pages[0]
    session = page.url.removeprefix(served.url)
    headers = {**ACCEPT, "cookie": f"relay_page={context.cookies([page.url])[0].get('value')}"}

    def status(path: str) -> int:
        return httpx2.get(f"{served.url}{path}", headers=headers).status_code

    other_session = "/ui/~" + "A" * 22 + "/threads"
    assert status(f"{session}threads") == 200
    for path in ("/ui/threads", "/ui/threads.json", other_session, "/v1/threads"):
        assert status(path) == 401


def test_the_page_works_in_new_tabs_frames_and_streams(
    context: BrowserContext, served: Served, relay: Relay
) -> None:
    """Promise Z2. Promise U3: links, JSON, frames and live parts are within the session."""
    thread = relay.new_thread("plan", by="coder")
    html = relay.push("<h1>framed</h1>", name="x.html").ref
    page = context.pages[0]
    page.reload()

    with context.expect_page() as opened:
        page.get_by_role("link", name="plan").click(modifiers=["ControlOrMeta"])
    tab = opened.value
    expect(tab.locator("#timeline")).to_be_visible()
    thread.add_fact("a new one")
    expect(tab.locator("#timeline").get_by_text("v2")).to_be_visible()
    tab.get_by_role("link", name="Artifacts", exact=True).click()
    tab.get_by_role("link", name="x.html").click()
    expect(tab.frame_locator("iframe").get_by_role("heading", name="framed")).to_be_visible()
    with tab.expect_navigation():
        tab.get_by_role("button", name="Pin", exact=True).click()
    with tab.expect_navigation():
        tab.get_by_role("link", name="This page as JSON").click()
    assert html in tab.content()

    bare = _open(context, "/ui/threads?text=plan")
    expect(bare.get_by_role("row", name="plan")).to_be_visible()
    assert bare.url.startswith(page.url)


def test_who_signs_out_is_signed_out_in_every_tab(context: BrowserContext) -> None:
    """Promise Z2."""
    page = context.pages[0]
    within = page.url

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("Key, or the code")).to_be_visible()
    for address in ("/ui/", within, "/ui/health"):
        tab = _open(context, address)
        expect(tab.get_by_label("Key, or the code")).to_be_visible()
        assert not tab.evaluate("localStorage.length")


def test_an_old_address_leads_into_the_session_of_today(
    context: BrowserContext, served: Served, relay: Relay
) -> None:
    """Promise Z2: a bookmark keeps its place."""
    thread = relay.new_thread("plan")
    old = f"/ui/~{'A' * 22}/t/{thread.id}/state?v=1"

    tab = _open(context, old)

    tab.wait_for_url(f"{context.pages[0].url}t/{thread.id}/state?v=1")
    expect(tab.get_by_role("heading", name="plan")).to_be_visible()


def _open(context: BrowserContext, address: str) -> Page:
    tab = context.new_page()
    tab.goto(address)
    return tab
