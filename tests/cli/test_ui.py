"""relay ui: the page of a store or of a server, for who started it."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx2

from contextrelay import Relay
from tests.cli.shell import Shell
from tests.server.serving import serving
from tests.web.reader import Page, Reader


def opened(url: str, *paths: str) -> list[Page]:
    """Pages, as a browser has them that was given the address."""
    address, _, code = url.partition("/ui/#code=")
    with httpx2.Client(base_url=address) as web:
        reader = Reader(web)
        return [reader.enter(code), *map(reader.open, paths)]


def test_it_prints_an_address_that_lets_in_once_and_ends_well(shell: Shell) -> None:
    """Promise U3."""
    shell.out("thread", "new", "--name", "release notes")

    with shell.started("ui", "--no-open") as server:
        url = server.line()
        first, threads = opened(url, "/ui/threads")
        (second,) = opened(url)
        api = httpx2.get(url.partition("/ui/")[0] + "/v1/threads")
        code, _, said = server.ended(signal.SIGINT)

    assert (first.status, second.status, api.status_code) == (200, 401, 401)
    assert "release notes" in threads.text
    assert (code, said) == (0, "")


def test_it_shows_a_server_elsewhere_the_same_way(shell: Shell, tmp_path: Path) -> None:
    """Promise U3: the page is over the client, so a remote relay is shown as a store is."""
    with Relay(tmp_path / "far") as far, serving(tmp_path / "far", needs_token=True) as served:
        far.new_thread("far away")
        shell.env |= {
            "CONTEXTRELAY_URL": served.url,
            "CONTEXTRELAY_API_KEY": far.new_key(scope="admin").token,
        }
        with shell.started("ui") as server:
            # As JSON it waits until everything is counted.
            _, threads, _, home = opened(server.line(), "/ui/threads", "/ui/.json", "/ui/")

    assert "far away" in threads.text
    assert "Stored" in home.text


def test_a_store_that_cannot_be_used_is_reported_before_anything_is_opened(shell: Shell) -> None:
    """Promise U3."""
    (shell.home / "store").write_text("no folder")

    code, said = shell.fails("ui")

    assert code == 2
    assert "store" in said
