"""Signing in: who gets to see the page, and what may be changed from it."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from contextrelay.web.entry import PageOptions
from tests.server.serving import Served, serving
from tests.store.engines import until
from tests.web.reader import ACCEPT, SESSION, Reader


def test_a_key_lets_in_by_a_cookie_that_no_script_and_no_other_site_can_use(
    relay: Relay, stranger: Reader
) -> None:
    """Promise Z2."""
    token = relay.new_key(name="ann", scope="write").token
    before = stranger.open("/ui/threads?text=a")
    form = before.form("/ui/enter")
    reply = stranger.web.post("/ui/enter", data={**form.fields, "key": token})
    cookie = reply.headers["set-cookie"]

    rules = re.search(r"; Path=(\S+); Max-Age=\d+; HttpOnly; SameSite=Strict$", cookie)
    assert rules
    after = stranger.open(f"{rules[1]}threads")

    assert before.status == 401
    assert SESSION.fullmatch(rules[1])
    assert reply.headers["location"] == f"{rules[1]}threads?text=a"
    assert token not in cookie
    assert after.status == 200


def test_who_has_not_signed_in_is_shown_nothing(relay: Relay, stranger: Reader) -> None:
    """Promise Z2."""
    thread = relay.new_thread("secret plan")

    for path in ("/ui/", "/ui/threads", "/ui/threads.json", f"/ui/t/{thread.id}", "/ui/nothing"):
        reply = stranger.web.get(path)
        assert reply.status_code == 401
        assert "secret plan" not in reply.text


def test_a_key_that_is_revoked_is_signed_out(relay: Relay, stranger: Reader) -> None:
    """Promise Z2."""
    issued = relay.new_key(scope="read")
    stranger.enter(issued.token)
    relay.revoke_key(issued.key.id)

    # A key that was just found good is trusted for a few milliseconds.
    until(lambda: stranger.open("/ui/threads").status == 401, "the key to be refused")


def test_the_cookie_opens_the_page_and_nothing_else(relay: Relay, stranger: Reader) -> None:
    """Promise Z2: another site cannot use it on the API."""
    stranger.enter(relay.new_key(scope="admin").token)
    cookie = {"cookie": f"relay_page={stranger.web.cookies['relay_page']}"}

    assert httpx2.get(f"{stranger.web.base_url}/v1/threads", headers=cookie).status_code == 401
    assert stranger.open("/ui/threads").status == 200


def test_a_person_can_sign_out(relay: Relay, stranger: Reader) -> None:
    """Promise Z2."""
    home = stranger.enter(relay.new_key().token)

    out = stranger.send(home.form("/ui/leave"))

    assert out.status == 401
    assert not stranger.web.cookies


def test_a_change_needs_the_form_token_of_its_page(relay: Relay, stranger: Reader) -> None:
    """Promise Z2."""
    home = stranger.enter(relay.new_key().token)
    form = home.form("/ui/leave")

    assert stranger.send(form, form="0" * 64).status == 403
    assert stranger.send(form, form="").status == 403
    assert stranger.open("/ui/").status == 200


def test_a_page_of_another_origin_may_not_send_a_form(page: Reader) -> None:
    """Promise Z2."""
    headers = {**ACCEPT, "origin": "http://evil.example"}

    reply = page.web.post("/ui/leave", data={"form": ""}, headers=headers)

    assert reply.status_code == 403


@pytest.mark.parametrize(
    "to", ["//evil.example/ui/", "https://evil.example", "/ui/\\evil", "/v1/threads", "/ui/enter"]
)
def test_after_a_sign_in_nobody_is_led_elsewhere(relay: Relay, stranger: Reader, to: str) -> None:
    """Promise Z2."""
    token = relay.new_key().token

    reply = stranger.web.post("/ui/enter", data={"next": to, "key": token})

    assert SESSION.fullmatch(reply.headers["location"])


def test_a_code_lets_one_in_as_the_owner_and_once(store: object, relay: Relay) -> None:
    """Promise U3: other accounts of the machine get nothing."""
    page = PageOptions(code="only-once")
    with (
        serving(str(store), needs_token=True, page=page) as served,
        httpx2.Client(base_url=served.url) as web,
        httpx2.Client(base_url=served.url) as other,
    ):
        first, second = Reader(web).enter("only-once"), Reader(other).enter("only-once")

    assert first.status == 200
    assert second.status == 401


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_code_lets_no_other_account_in_though_it_sees_the_command_line(
    store: object, relay: Relay, family: int
) -> None:
    """Promise U3: other accounts of the machine get nothing."""
    if os.geteuid() != 0 or not Path("/proc/net/tcp6").exists():
        return  # Only root can give a socket to another account.
    form = "key=only-once"
    head = (
        f"POST /ui/enter HTTP/1.1\r\nhost: {{}}\r\nconnection: close\r\ncontent-length: {len(form)}"
    )
    kind = "content-type: application/x-www-form-urlencoded"
    with (
        serving(str(store), needs_token=True, page=PageOptions(code="only-once")) as served,
        httpx2.Client(base_url=served.url) as web,
        socket.socket(family) as other,
    ):
        host = served.url.removeprefix("http://")
        os.fchown(other.fileno(), 65534, 65534)
        loopback = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
        other.connect((loopback, int(host.rpartition(":")[2])))
        other.sendall(f"{head.format(host)}\r\n{kind}\r\n\r\n{form}".encode())
        refused = other.makefile("rb").read()
        ours = Reader(web).enter("only-once")

    assert refused.startswith(b"HTTP/1.1 401 ")
    assert b"set-cookie" not in refused
    assert ours.status == 200


def test_processes_of_one_server_know_each_others_cookies(relay: Relay, store: object) -> None:
    """Promise Z2: the secret is the server's, not a process's."""
    page = PageOptions()
    token = relay.new_key().token
    with (
        serving(str(store), needs_token=True, page=page) as one,
        serving(str(store), needs_token=True, page=page) as two,
        serving(str(store), needs_token=True) as stranger,
        httpx2.Client(base_url=one.url) as web,
    ):
        reader = Reader(web)
        reader.enter(token)
        cookie = {"cookie": f"relay_page={web.cookies['relay_page']}"}

        def status(served: Served) -> int:
            return httpx2.get(served.url + reader.within("/ui/threads"), headers=cookie).status_code

        assert (status(two), status(stranger)) == (200, 401)
