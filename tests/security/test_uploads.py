"""Bodies that nobody asked for: a key that may not send one holds nothing by sending it.

What can be known before a body is read is looked at before: scope, quota, thread, size. What is on
its way in is bounded, for one caller and for all, in number, in bytes and in time.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest

from contextrelay import Relay
from contextrelay.server import bounds, request_body
from contextrelay.server.app import App
from contextrelay.server.bounds import IncomingBodies, ServerBounds
from contextrelay.verbs.routes import FRAMED
from tests.security.raw import Raw
from tests.server.serving import Served, serving

LATE_S_MAX = 8.0
LARGE = 200_000
NOBODY = "00000000-0000-4000-8000-000000000000"
# What anybody with a key may ask, by a method that brings a body.
READS = {"/mcp", "/render/{thread}"}
# What has to be said of a body before who may send it is looked at.
NEEDED = {
    "/v1/pipelines": "?name=run",
    "/v1/threads/{thread}/runs": "?run=r&action=a",
    "/v1/threads/{thread}/calls": "?run=r",
    "/v1/threads/{thread}/steps": "?step=s",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads") / "store"


@pytest.fixture(scope="module")
def owner(store: Path) -> Generator[Relay]:
    with Relay(store) as relay:
        yield relay


@pytest.fixture(scope="module")
def served(store: Path, owner: Relay) -> Generator[Served]:
    with serving(store, needs_token=True) as running:
        yield running


def incoming_of(served: Served) -> IncomingBodies:
    app = served.server.config.loaded_app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(App, app).incoming


def head(
    served: Served, path: str, token: str, size: int | None, more: str = "", method: str = "POST"
) -> bytes:
    """The beginning of a request, of which no body comes yet."""
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {token}\r\n{length}\r\n{more}\r\n"
    ).encode()


def reply(served: Served, *parts: bytes) -> tuple[int, bytes]:
    """What is answered to who has sent so much, and waits."""
    with Raw(served.port, LATE_S_MAX) as raw:
        raw.say(*parts)
        begun_s = time.monotonic()
        answer = raw.answer()
        assert time.monotonic() - begun_s < LATE_S_MAX
        return answer


def body_routes(served: Served) -> list[tuple[str, str]]:
    return [
        (method, path)
        for path, place in served.door.paths.places.items()
        for method in place.methods
        if method in ("POST", "PUT", "PATCH")
    ]


# Looked at first


@pytest.mark.parametrize("more", ["", "Expect: 100-continue\r\n"])
def test_who_may_only_read_is_refused_before_a_body_is_read(
    served: Served, owner: Relay, more: str
) -> None:
    """Promise Z3. On every route that takes a body, and without a `100 Continue` first."""
    token = owner.new_key(scope="read").token
    thread = owner.new_thread("here").id
    types = "Content-Type: application/json\r\n"

    statuses = {
        path: reply(
            served,
            head(
                served,
                path.replace("{thread}", thread).replace("{ref}", NOBODY) + NEEDED.get(path, ""),
                token,
                LARGE,
                more + ("" if path.startswith("/v1/artifacts") else types),
                method,
            ),
        )[0]
        for method, path in body_routes(served)
        if path not in READS
    }

    # A long body for a handoff that is not there is for nobody, whoever sends it.
    not_there = {path for path in statuses if path.endswith("/return")}
    many = {"/v1/artifacts/many"}  # It has to come framed.
    # A form of the page is short, and its path and its own token are looked at first.
    forms = {path for path in statuses if path.startswith("/ui/")}
    others = {path for path, status in statuses.items() if status != 403}
    assert others <= not_there | many | forms
    assert all(400 <= status < 500 for status in statuses.values())
    assert incoming_of(served).uploads == incoming_of(served).held_bytes == 0


def test_many_pushes_of_who_may_only_read_are_refused_before_they_come(
    served: Served, owner: Relay
) -> None:
    """Promise Z3."""
    token = owner.new_key(scope="read").token
    framed = f"Content-Type: {FRAMED}\r\n"

    for path in ("/v1/artifacts/many", "/v1/artifacts", "/v1/threads/import", "/v1/restore"):
        assert reply(served, head(served, path, token, LARGE, framed))[0] == 403
        assert reply(served, head(served, path, token, None, framed))[0] == 403


def test_a_limited_key_is_refused_before_a_body_that_would_belong_nowhere(
    served: Served, owner: Relay
) -> None:
    """Promise Z3."""
    token = owner.new_key(channels=("public-",)).token

    assert reply(served, head(served, "/push", token, LARGE))[0] == 403
    assert reply(served, head(served, "/v1/artifacts", token, LARGE))[0] == 403
    assert reply(served, head(served, "/v1/artifacts?channel=private", token, LARGE))[0] == 403
    assert reply(served, head(served, "/v1/threads/import", token, LARGE))[0] == 403


def test_a_body_for_a_thread_that_is_not_there_is_refused_before_it_comes(
    served: Served, owner: Relay
) -> None:
    """Promise Z3."""
    token = owner.new_key().token
    form = "Content-Type: multipart/form-data; boundary=b\r\n"

    for path, more in (
        (f"/threads/{NOBODY}/artifacts", form),
        (f"/threads/{NOBODY}/artifacts", ""),
        (f"/threads/{NOBODY}/state/patch", ""),
        (f"/render/{NOBODY}", ""),
        (f"/reports/{NOBODY}", ""),
        (f"/v1/artifacts?thread={NOBODY}", ""),
        (f"/v1/handoffs/{NOBODY}/return", ""),
        (f"/v1/threads/{NOBODY}/events", ""),
    ):
        assert reply(served, head(served, path, token, LARGE, more))[0] == 404, path
    patch = head(served, f"/v1/threads/{NOBODY}/state", token, LARGE, method="PATCH")
    assert reply(served, patch)[0] == 404


def test_a_body_past_the_quota_is_refused_before_it_comes(served: Served, owner: Relay) -> None:
    """Promise Z1: quota. One that was stored already, and is asked for again, is not."""
    token = owner.new_key(quota_bytes=100_000).token
    json = "Content-Type: application/json\r\n"
    again = "Idempotency-Key: again\r\n"

    assert reply(served, head(served, "/push", token, LARGE))[0] == 402
    small = head(served, "/push", token, 100_000, again)
    assert reply(served, small, b"a" * 100_000)[0] == 200
    for path, more in (
        ("/push", json),
        ("/push", ""),
        ("/v1/artifacts", f"Content-Type: {FRAMED}\r\n"),
        ("/v1/artifacts/many", f"Content-Type: {FRAMED}\r\n"),
        ("/v1/threads/import", ""),
    ):
        assert reply(served, head(served, path, token, LARGE, more))[0] == 402, path
        assert reply(served, head(served, path, token, None, more))[0] == 402, path
    assert reply(served, small, b"a" * 100_000)[0] == 200
    assert reply(served, head(served, "/push", token, None))[0] == 402


def test_a_body_of_unknown_length_is_cut_where_the_quota_ends(served: Served, owner: Relay) -> None:
    """Promise Z1: quota. It is refused while it comes, not when all of it is here."""
    token = owner.new_key(quota_bytes=1_000_000).token
    chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n"

    assert reply(served, head(served, "/push", token, None), chunk * 40)[0] == 402


def test_expect_100_continue_is_answered_once_nothing_is_in_the_way(
    served: Served, owner: Relay
) -> None:
    """Promise Z3."""
    token = owner.new_key().token
    with Raw(served.port, LATE_S_MAX) as raw:
        raw.say(head(served, "/push", token, LARGE, "Expect: 100-continue\r\n"))
        assert raw.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.say(b"a" * LARGE)
        assert raw.answer()[0] == 200


# Bounds of what is held


def test_what_one_key_sends_at_a_time_is_bounded_and_leaves_room_for_others(
    tmp_path: Path,
) -> None:
    """Promise Z3. In number: of one, and of all."""
    with (
        Relay(tmp_path / "store") as relay,
        serving(tmp_path / "store", needs_token=True, bounds=ServerBounds(uploads=4)) as served,
        ExitStack() as stack,
    ):
        greedy, other, third = (relay.new_key().token for _ in range(3))

        def begin(token: str) -> Raw:
            raw = stack.enter_context(Raw(served.port, LATE_S_MAX))
            raw.say(head(served, "/push", token, LARGE), b"a" * 100)
            return raw

        first, second = begin(greedy), begin(greedy)
        wait_for(lambda: incoming_of(served).uploads == 2)
        with Raw(served.port, LATE_S_MAX) as raw:
            raw.say(head(served, "/push", greedy, LARGE))
            heard = raw.hear()
        assert heard.statuses == [429]
        assert b"retry-after: 2\r\n" in heard.raw
        for _ in range(2):
            begin(other)
        wait_for(lambda: incoming_of(served).uploads == 4)
        assert reply(served, head(served, "/push", third, LARGE))[0] == 503
        assert reply(served, head(served, "/push", third, 5), b"small")[0] == 200
        first.say(b"a" * (LARGE - 100))
        assert first.answer()[0] == 200
        wait_for(lambda: incoming_of(served).uploads == 3)
        assert reply(served, head(served, "/push", third, LARGE), b"a" * LARGE)[0] == 200
        second.socket.close()
        wait_for(lambda: incoming_of(served).uploads == 2)


def test_one_caller_does_not_fill_the_temporary_folder(
    served: Served, owner: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3. It is 507 in words, at once where the size is known; small ones are taken."""
    room = 4_000_000
    token, other = owner.new_key().token, owner.new_key().token
    held = incoming_of(served)

    def usage(_: Any) -> Any:
        return SimpleNamespace(free=room - held.held_bytes)

    monkeypatch.setattr(bounds.shutil, "disk_usage", usage)
    status, text = reply(served, head(served, "/push", token, 3_000_000))
    assert (status, text) == (507, b"not enough space on the server to receive this body")
    chunk = b"%x\r\n" % 1_000_000 + b"a" * 1_000_000 + b"\r\n"
    assert reply(served, head(served, "/push", token, None), chunk * 3)[0] == 507
    with Raw(served.port, LATE_S_MAX) as raw:
        raw.say(head(served, "/push", token, 1_500_000), b"a" * 1_400_000)
        wait_for(lambda: held.held_bytes > 1_000_000)
        assert reply(served, head(served, "/push", token, 1_500_000))[0] == 507
        assert reply(served, head(served, "/push", other, 900_000), b"b" * 900_000)[0] == 200
        assert reply(served, head(served, "/push", token, 5), b"small")[0] == 200
    wait_for(lambda: held.held_bytes == held.uploads == 0)


def test_a_temporary_folder_that_is_full_is_507_and_spoils_nothing(
    served: Served, owner: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3."""
    token = owner.new_key().token
    thread = owner.new_thread("full").id

    def full() -> IO[bytes]:
        if not os.path.exists("/dev/full"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return open("/dev/full", "r+b")

    monkeypatch.setattr(request_body.tempfile, "TemporaryFile", full)
    large = b"a" * 1_000_000
    form = "Content-Type: multipart/form-data; boundary=b\r\n"
    part = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + large + b"\r\n--b--\r\n"
    artifacts = f"/threads/{thread}/artifacts"

    assert reply(served, head(served, "/push", token, len(large)), large)[0] == 507
    assert reply(served, head(served, "/v1/artifacts", token, len(large)), large)[0] == 507
    assert reply(served, head(served, artifacts, token, len(part), form), part)[0] == 507
    assert reply(served, head(served, "/v1/threads/import", token, len(large)), large)[0] == 507
    assert reply(served, head(served, "/push", token, 5), b"small")[0] == 200
    assert incoming_of(served).uploads == incoming_of(served).held_bytes == 0


def test_a_slow_upload_is_ended_whatever_it_has_sent_before(tmp_path: Path) -> None:
    """Promise Z3. A little now and then is not enough to hold what is there."""
    with serving(tmp_path / "store", bounds=ServerBounds(body_s=0.5)) as served:
        with Raw(served.port, LATE_S_MAX) as raw:
            raw.say(head(served, "/push", "", 5_000_000).replace(b"Authorization", b"X-Nothing"))
            raw.say(b"a" * 1_000_000)
            wait_for(lambda: incoming_of(served).held_bytes > 500_000)
            raw.socket.settimeout(0.05)
            begun_s = time.monotonic()
            heard = b""
            while not heard and time.monotonic() - begun_s < LATE_S_MAX:
                raw.say(b"a" * 200)  # 4 kB a second.
                try:
                    heard = raw.socket.recv(1_000)
                except TimeoutError:
                    continue

        assert heard.startswith(b"HTTP/1.1 408 ")
        wait_for(lambda: incoming_of(served).held_bytes == incoming_of(served).uploads == 0)


def test_a_body_that_comes_at_its_pace_is_taken(tmp_path: Path) -> None:
    """Promise Z3. It may take many times as long as a pause may last."""
    with (
        serving(tmp_path / "store", bounds=ServerBounds(body_s=0.4)) as served,
        Raw(served.port, LATE_S_MAX) as raw,
    ):
        raw.say(head(served, "/push", "", 200_000).replace(b"Authorization", b"X-Nothing"))
        for _ in range(20):
            raw.say(b"a" * 10_000)
            time.sleep(0.05)
        assert raw.answer()[0] == 200


def wait_for(what: Any) -> None:
    deadline_s = time.monotonic() + LATE_S_MAX
    while not what():
        assert time.monotonic() < deadline_s, "it did not come to be"
        time.sleep(0.01)
