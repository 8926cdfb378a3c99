"""The frame of every page: what it may load, its twin in JSON, its command, its errors."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest

import contextrelay.web.page as page_module
from contextrelay import Relay
from tests.web.reader import Reader

STATIC = Path(page_module.__file__).parent / "static"
SENT_BYTES_MAX = 60_000


def test_a_page_may_load_nothing_but_what_is_ours(page: Reader) -> None:
    """Promise Z2. Promise T11."""
    shown = page.open("/ui/")
    policy = shown.reply.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert shown.reply.headers["x-frame-options"] == "DENY"
    assert "://" not in shown.html
    assert not re.search(r"<script(?! src=\"/ui/static/)|<style| style=| on[a-z]+=", shown.html)
    for path in re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', shown.html):
        assert page.web.get(path).status_code == 200


def test_what_is_sent_to_a_browser_is_small() -> None:
    """Promise U3: script and style together, compressed."""
    sent = [each for each in STATIC.iterdir() if each.suffix in (".js", ".css", ".svg")]

    assert sum(len(gzip.compress(each.read_bytes())) for each in sent) < SENT_BYTES_MAX


def test_a_file_of_others_is_the_one_that_its_list_names() -> None:
    """Promise U3: vendored, with licence and hash."""
    listed = (STATIC / "VENDORED.md").read_text()

    digest = hashlib.sha256((STATIC / "htmx.min.js").read_bytes()).hexdigest()
    line = f"htmx.min.js | htmx.org 2.0.11, dist/htmx.min.js | 0BSD, htmx.LICENSE.txt | {digest}"
    assert line in listed
    assert (STATIC / "htmx.LICENSE.txt").exists()


def test_every_page_has_a_twin_in_json_and_its_command(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    relay.new_thread("release notes")

    shown, twin = page.open("/ui/threads"), page.json("/ui/threads.json")

    assert 'href="/ui/threads.json"' in shown.html
    assert "relay thread list" in shown.text
    assert [each["name"] for each in twin["threads"]] == ["release notes"]
    assert page.json("/ui/.json")["threads"] == twin["threads"]


@pytest.mark.parametrize("path", ["/ui/nothing", "/ui/threads/"])
def test_what_is_not_there_is_a_page_that_says_so(page: Reader, path: str) -> None:
    """Promise U3."""
    shown = page.open(path)

    assert shown.status == 404
    assert "Not found" in shown.text
    assert "/ui/" in shown.links


def test_an_error_of_a_twin_is_json(page: Reader) -> None:
    """Promise U3."""
    reply = page.web.get("/ui/nothing.json")

    assert reply.status_code == 404
    assert reply.json()["error"] == "page not found"
