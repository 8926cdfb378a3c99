"""The page in a real Chromium: every screen in both schemes and on a phone, by keyboard, live."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from contextrelay import Relay
from contextrelay.client.seal.fernet import seal
from contextrelay.content.untrusted.hidden_chars import is_hidden, spell_hidden
from contextrelay.project.project import Project, init_project
from contextrelay.web.entry import PageOptions
from tests.parts import needs
from tests.rigs import rig, some
from tests.server.serving import Served, serving
from tests.web.browser import AXE, PHONE, WIDE, Tab, chromium, violations

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>'
RIGHT_TO_LEFT = "\u202eevil\u202c txt.exe \u05e9\u05dc\u05d5\u05dd"


class Desk:
    """A server over a store with something on every screen."""

    def __init__(self, served: Served, relay: Relay) -> None:
        self.served, self.relay = served, relay
        self.thread = relay.new_thread(f"work {HOSTILE}", by=f"coder {HOSTILE}")
        for number in range(12):
            self.thread.add_fact(f"fact {number} {HOSTILE} {RIGHT_TO_LEFT}", by="planner")
        self.log = relay.push(
            "".join(f"{n} INFO line {n} {HOSTILE}\n" for n in range(1, 500)),
            name="\u05e9\u05dc\u05d5\u05dd <img src=x onerror=alert(1)>.log",
            thread=self.thread.id,
        ).ref
        self.json = relay.push({"a": {HOSTILE: [1, 2, {"b": HOSTILE}]}}, name="x.json").ref
        self.table = relay.push(f"name,age\n{HOSTILE},3\n", name="t.csv").ref
        self.html = relay.push(f"<h1>hi</h1>{HOSTILE}", name="x.html").ref
        self.markdown = relay.push(f"# Plan\n\n{HOSTILE} **bold**\n", name="x.md").ref
        relay.publish("news", HOSTILE, by=HOSTILE)
        self.handoff = self.thread.hand_off("reviewer", HOSTILE, by="coder").ref
        self.thread.run("What is new?", model="echo")

    @property
    def screens(self) -> dict[str, str]:
        thread = f"/ui/t/{self.thread.id}"
        return {
            "home": "/ui/",
            "threads": "/ui/threads",
            "thread": f"{thread}?v=9",
            "state": f"{thread}/state",
            "events": f"{thread}/events",
            "trace": f"{thread}/trace",
            "report": f"{thread}/report",
            "artifacts": "/ui/artifacts",
            "artifact": f"/ui/a/{self.log}?view=lines",
            "tree": f"/ui/a/{self.json}",
            "table": f"/ui/a/{self.table}",
            "html": f"/ui/a/{self.html}",
            "markdown": f"/ui/a/{self.markdown}",
            "channel": "/ui/channel?name=news",
            "handoffs": "/ui/handoffs",
            "handoff": f"/ui/h/{self.handoff}",
            "runs": "/ui/runs",
            "projects": "/ui/project",
            "search": "/ui/search?q=line",
            "health": "/ui/health",
        }


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    store = tmp_path_factory.mktemp("desk") / "store"
    with Relay(store) as relay, serving(store) as served:
        yield Desk(served, relay)


@rig
@pytest.mark.parametrize(
    ("scheme", "size"),
    some([("light", WIDE), ("dark", WIDE), ("dark", PHONE), ("light", PHONE)], 2),
    ids=str,
)
def test_every_screen_is_readable_by_everybody_and_runs_nothing_of_others(
    browser: Browser, desk: Desk, scheme: str, size: ViewportSize
) -> None:
    """Promise U3. Promise Z2: axe-core finds nothing serious; no request leaves the machine."""
    needs("axe", AXE.exists())
    tab = Tab(browser, desk.served.url, scheme, size)
    found: dict[str, list[str]] = {}

    for name, path in some(desk.screens.items(), 3):
        page = tab.open(path)
        found[name] = violations(page)
        assert page.title() != "owned"
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} pixels too wide"

    # What an HTML artifact tries in its frame is refused, which the console says.
    tab.wrong = [each for each in tab.wrong if "sandboxed" not in each and "x.html" not in each]
    tab.wrong = [each for each in tab.wrong if "default-src 'none'" not in each]
    tab.close()
    assert not {name: each for name, each in found.items() if each}


def test_the_slider_and_the_keys_travel_in_time(browser: Browser, desk: Desk) -> None:
    """Promise U3: by keyboard; a reload keeps the place."""
    tab = Tab(browser, desk.served.url)
    page = tab.open(f"/ui/t/{desk.thread.id}?v=9")

    page.keyboard.press("[")
    expect(page.locator("#travelled h2").first).to_contain_text("v7 → v8")
    page.keyboard.press("]")
    expect(page.locator("#travelled h2").first).to_contain_text("v8 → v9")
    page.keyboard.press("[")
    expect(page.locator("#travelled h2").first).to_contain_text("v7 → v8")
    assert "v=8" in page.url
    page.reload()

    expect(page.locator("#travelled h2").first).to_contain_text("v7 → v8")
    tab.close()


def test_a_thread_that_grows_is_followed_from_where_one_is(browser: Browser, desk: Desk) -> None:
    """Promise U3: a new version is on the timeline and the slider; what is shown stays."""
    thread = desk.relay.new_thread("growing")
    for number in range(3):
        thread.add_fact(f"fact {number}")
    tab = Tab(browser, desk.served.url)
    page = tab.open(f"/ui/t/{thread.id}?v=2")

    thread.add_fact("a new one")

    expect(page.locator("#timeline").get_by_text("v5")).to_be_visible()
    expect(page.locator("#version")).to_have_attribute("max", "5")
    expect(page.locator("#timeline [aria-current]")).to_have_text("v2")
    expect(page.locator("#travelled h2").first).to_contain_text("v1 → v2")
    tab.close()


def test_a_tour_by_keyboard(browser: Browser, desk: Desk) -> None:
    """Promise U3: / searches, g goes, j and k move, Enter opens, ? explains."""
    tab = Tab(browser, desk.served.url)
    page = tab.open("/ui/")

    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/ui/threads")
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/t/*")
    page.go_back()
    page.wait_for_url("**/ui/threads")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("line 42")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/search?q=line+42")

    expect(page.locator("mark").first).to_be_visible()
    tab.close()


def test_back_and_reload_keep_the_place(browser: Browser, desk: Desk) -> None:
    """Promise U3: a filter, the lines of a body and the point of a replay are in the address."""
    tab = Tab(browser, desk.served.url)
    page = tab.open("/ui/threads")

    page.fill("input[name=text]", "work")
    page.wait_for_url("**/ui/threads?text=work*")
    page.locator("[data-row] a").first.click()
    page.wait_for_url("**/ui/t/*")
    page.go_back()
    expect(page.locator("input[name=text]")).to_have_value("work")
    expect(page.locator("[data-row]")).to_have_count(1)

    tab.open(f"/ui/a/{desk.log}?view=lines")
    page.get_by_role("link", name="More").click()
    expect(page.locator("#L201")).to_be_visible()
    page.reload()
    expect(page.locator("#L201")).to_be_visible()
    page.go_back()
    expect(page.locator("#L1")).to_be_visible()
    tab.close()


def test_the_board_of_a_project_is_used_with_a_browser(browser: Browser, tmp_path: Path) -> None:
    """Promise U3: todos are added and moved; a server shows them to read."""
    store, folder = tmp_path / "store", tmp_path / "project"
    folder.mkdir()
    init_project(Project(folder))
    own = PageOptions(code="once", folder=str(folder), address=str(store))
    with serving(store, needs_token=True, page=own) as served, serving(store) as elsewhere:
        tab = Tab(browser, served.url, "dark", PHONE)
        page = tab.open("/ui/#code=once")
        page.wait_for_url("**/ui/~*/")
        tab.wrong.clear()  # Who has no cookie yet is answered 401, which the console says.
        tab.page.get_by_role("link", name="Project").click()
        page.fill("input[name=title] >> nth=0", f"write {HOSTILE}")
        page.get_by_role("button", name="Add").click()
        todo = page.locator(".board li", has_text="write")
        todo.locator("summary").click()
        todo.get_by_role("button", name="start", exact=True).click()
        expect(page.get_by_label("in progress").locator("li")).to_contain_text("write")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found = violations(page) if AXE.exists() else []
        tab.close()

        reading = Tab(browser, elsewhere.url)
        shown = reading.open("/ui/project")
        expect(shown.get_by_label("in progress").locator("li")).to_contain_text("write")
        expect(shown.get_by_role("button", name="Add")).to_have_count(0)
        reading.close()

    assert not found


def test_two_browsers_watch_a_channel(browser: Browser, desk: Desk) -> None:
    """Promise U3: what is published is seen live, and above it nothing moves."""
    tabs = [Tab(browser, desk.served.url) for _ in range(2)]
    for tab in tabs:
        tab.open("/ui/channel?name=watched")

    with tabs[0].page.expect_navigation():
        tabs[0].page.fill("#message", "from the first")
        tabs[0].page.get_by_role("button", name="Publish to").click()
    expect(tabs[1].page.get_by_text("from the first")).to_be_visible()
    desk.relay.publish("watched", "from a program")

    for tab in tabs:
        expect(tab.page.get_by_text("from a program")).to_be_visible()
        tab.close()


def test_what_is_sealed_is_opened_by_the_browser_alone(browser: Browser, desk: Desk) -> None:
    """Promise U3. Promise Z2: both formats; the key is sent nowhere."""
    pushed = desk.relay.push("k2 secret\n" * 20_000, name="k2.txt", seal=True)
    token, key = seal("k1 secret")
    old = desk.relay.push(token, name="k1.txt", sealed="k1").ref
    k2 = "#" + pushed.url.partition("#")[2]
    sent: list[str] = []
    for ref, fragment, text in ((pushed.ref, k2, "k2 secret"), (old, f"#key={key}", "k1 secret")):
        tab = Tab(browser, desk.served.url)
        tab.page.on("request", lambda request: sent.append(f"{request.url} {request.post_data}"))
        page = tab.open(f"/ui/a/{ref}{fragment}")
        expect(page.locator("#seal-text")).to_contain_text(text)
        page = tab.open(f"/ui/a/{ref}")
        page.fill("#seal-key", f"{fragment[:-3]}AAA")
        page.locator("#seal-open").click()
        expect(page.locator("#seal-said")).to_contain_text("key")
        expect(page.locator("#seal-text")).to_be_hidden()
        tab.close()

    assert not any(k2[4:] in each or key in each for each in sent)


def test_what_a_reader_cannot_see_of_an_opened_seal_is_spelled(
    browser: Browser, desk: Desk
) -> None:
    """Promise U3. Promise Z2."""
    every = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    known = {code: is_hidden(chr(code)) for code in every}
    # Where hidden characters begin and end, what is on both sides.
    edges = [
        chr(code)
        for code in every
        if {known.get(code - 1, False), known[code], known.get(code + 1, False)} == {True, False}
    ]
    text = "\ufeffred\x1b[31m\rover\r\nline" + "x".join(edges)
    pushed = desk.relay.push(text.encode(), name="wild.txt", seal=True)
    tab = Tab(browser, desk.served.url)

    page = tab.open(f"/ui/a/{pushed.ref}#{pushed.url.partition('#')[2]}")
    expect(page.locator("#seal-said")).to_contain_text("Decrypted here")
    shown = page.locator("#seal-text").evaluate("each => each.textContent")
    tab.close()

    assert shown == spell_hidden(text) + "\n"


def test_a_first_run_shows_what_comes_by_itself(browser: Browser, tmp_path: Path) -> None:
    """Promise U3."""
    with Relay(tmp_path / "store") as relay, serving(tmp_path / "store") as served:
        tab = Tab(browser, served.url)
        page = tab.open("/ui/")
        expect(page.get_by_text("Nothing here yet")).to_be_visible()
        relay.push("here", name="first.txt")

        expect(page.get_by_text("first.txt")).to_be_visible()
        tab.close()
