"""Hostile clients: whatever comes over a socket gets a 4xx or a closed connection, and soon.

Beside every test an honest client asks the whole time (raw.py). A server that fails on its side
logs an error, and none may be logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest

from contextrelay.model.settings import Settings
from contextrelay.server.app import App
from contextrelay.server.bounds import ServerBounds
from tests.security.hostile import (
    BAD_FORMS,
    BAD_FRAMES,
    BAD_JSON,
    BINARY,
    CLOSE,
    FORM,
    GET,
    JSON_PATHS,
    PING,
    PUSH,
    REFUSED,
    TEXT,
    UNREADABLE,
    WS,
    WS_KEY,
    WS_VERSION,
    frame,
)
from tests.security.raw import Heard, HonestClient, Raw
from tests.server.serving import Served, serving
from tests.store.engines import until

BODY_BYTES_MAX = 1 << 20
# So short that a test does not wait long; so long that a busy machine does not pass it.
BOUNDS = ServerBounds(head_s=1.5, body_s=1.5, read_s=1.5)
LATE_S_MAX = 8.0
HONEST_S_MAX = 8.0


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One server for all of them."""
    settings = Settings(body_bytes_max=BODY_BYTES_MAX)
    store = tmp_path_factory.mktemp("hostile") / "store"
    with serving(store, settings=settings, bounds=BOUNDS) as running:
        yield running


@pytest.fixture(autouse=True)
def honest(hostile: Served, caplog: pytest.LogCaptureFixture) -> Generator[HonestClient]:
    """The honest client, answered throughout; and nothing that the server has to complain of."""
    with HonestClient(hostile.port) as client:
        yield client
    assert not client.failed
    assert client.slowest_s < HONEST_S_MAX
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert not errors, [each.getMessage() for each in errors]


def asked(port: int, *parts: bytes) -> Heard:
    with Raw(port) as raw:
        raw.say(*(part.replace(b"HOST", b"127.0.0.1:%d" % port) for part in parts))
        return raw.hear()


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_in_one_way_is_refused_and_cut_off(hostile: Served, name: str) -> None:
    """Promise Z3. Nothing behind it is taken for a request."""
    heard = asked(hostile.port, UNREADABLE[name])

    assert heard.is_closed
    assert heard.took_s < LATE_S_MAX
    assert len(heard.statuses) <= 1
    assert all(400 <= status < 500 for status in heard.statuses)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_to_be_had_is_refused(hostile: Served, name: str) -> None:
    """Promise Z3."""
    request, expected = REFUSED[name]

    heard = asked(hostile.port, request)

    assert heard.is_closed
    assert heard.took_s < LATE_S_MAX
    assert len(heard.statuses) == 1
    assert heard.statuses[0] in expected


def json(path: bytes, body: bytes, method: bytes = b"POST") -> bytes:
    head = (
        b"%s %s HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    )
    return head % (method, path, len(body)) + CLOSE + body


@pytest.mark.parametrize("path", JSON_PATHS)
def test_json_that_is_none_is_refused(hostile: Served, path: bytes) -> None:
    """Promise Z3."""
    statuses = {
        name: asked(hostile.port, json(path, body)).statuses for name, body in BAD_JSON.items()
    }

    empty_is_fine = {"nothing": [201]} if path.endswith(b"threads") else {}
    odd = {
        name: heard
        for name, heard in statuses.items()
        if not (len(heard) == 1 and 400 <= heard[0] < 500) and empty_is_fine.get(name) != heard
    }
    assert not odd


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_form_that_is_none_is_refused(hostile: Served, thread: bytes, name: str) -> None:
    """Promise Z3."""
    boundary, body = BAD_FORMS[name]
    head = b"POST /threads/%s/artifacts HTTP/1.1\r\nHost: HOST\r\nContent-Length: %d\r\n"

    heard = asked(
        hostile.port, head % (thread, len(body)) + FORM + boundary + b"\r\n" + CLOSE + body
    )

    assert heard.took_s < LATE_S_MAX
    assert heard.statuses in ([400], [413], [422])


@pytest.fixture
def thread(hostile: Served) -> bytes:
    """The id of a new thread."""
    heard = asked(hostile.port, json(b"/threads", b"{}"))
    return heard.raw.partition(b'"thread_id":"')[2][:36]


# Odd, but right: these have to be answered well.


def test_what_is_odd_but_right_is_answered(hostile: Served) -> None:
    """Promise Z3. Old clients, proxies and pipelines; what is not asked for is not looked at."""
    chunked = PUSH + b"Transfer-Encoding: chunked\r\nConnection: close\r\n"
    odd = {
        "HTTP/1.0": b"GET /health HTTP/1.0\r\nHost: HOST\r\n\r\n",
        "a whole URL": b"GET http://HOST/health HTTP/1.1\r\nHost: HOST\r\n" + CLOSE,
        "an upgrade to something": GET + b"Upgrade: h2c\r\nConnection: upgrade, close\r\n\r\n",
        "bytes in a header": GET + b"X-A: \xff\xfe\r\n" + CLOSE,
        "a body nobody asked for": GET + b"Content-Length: 5\r\n" + CLOSE + b"hello",
        "an odd expectation": PUSH + b"Expect: wonders\r\nContent-Length: 1\r\n" + CLOSE + b"a",
        "a chunk with an extension": chunked + b'\r\n5;a="b"\r\nhello\r\n0\r\n\r\n',
        "packed content": PUSH
        + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n"
        + CLOSE
        + b"\x1f\x8b",
        "a seq that is far away": (
            b"GET /v1/channels/a?after=9007199254740991 HTTP/1.1\r\nHost: HOST\r\n" + CLOSE
        ),
        "JSON with a key twice": json(b"/push", b'{"data": "a", "data": "b"}'),
        # It would be JSON, and none, if what comes after the body counted.
        "a type after the body": (
            chunked + b"\r\n5\r\nhello\r\n0\r\nContent-Type: application/json\r\n\r\n"
        ),
    }

    assert {name: asked(hostile.port, request).statuses for name, request in odd.items()} == {
        name: [200] for name in odd
    }


def test_many_requests_at_once_are_answered_in_order(hostile: Served) -> None:
    """Promise Z3. What is wrong in the end does not spoil the answers before it."""
    paths = [b"/health" if number % 2 else b"/nowhere" for number in range(500)]
    requests = [b"GET %s HTTP/1.1\r\nHost: HOST\r\n\r\n" % path for path in paths]

    heard = asked(hostile.port, b"".join(requests) + b"garbage\r\n\r\n")

    assert heard.is_closed
    assert heard.statuses == [200 if path == b"/health" else 404 for path in paths] + [400]


# Half a connection


@pytest.mark.parametrize("path", [b"/health", b"/metrics", b"/v1/verify"])
def test_who_has_said_all_still_gets_the_answer(hostile: Served, path: bytes) -> None:
    """Promise Z3. A client may close its side once it has asked."""
    method = b"POST" if path == b"/v1/verify" else b"GET"
    with Raw(hostile.port) as raw:
        raw.say(b"%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (method, path, hostile.port))
        raw.finish()
        heard = raw.hear()

    assert heard.is_closed
    assert heard.statuses == [200]


def test_who_has_said_all_and_waits_for_news_is_let_go(hostile: Served) -> None:
    """Promise Z3. From there on it looks as if it had left, which is not to be waited for."""
    for path in (b"/v1/channels/quiet?wait=60", b"/v1/channels/quiet/events"):
        with Raw(hostile.port) as raw:
            raw.say(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path, hostile.port))
            raw.finish()
            heard = raw.hear()

        assert heard.is_closed
        assert heard.took_s < LATE_S_MAX
        assert not any(status >= 500 for status in heard.statuses)
    until(lambda: hostile.door.hub.listeners == 0, "that nobody listens")


def test_who_leaves_with_more_requests_under_way_leaves_nothing(hostile: Served) -> None:
    """Promise Z3. It is the first of them that waits, not the last."""
    waiting = b"GET /v1/channels/quiet/events HTTP/1.1\r\nHost: HOST\r\n\r\n" + GET + b"\r\n"
    with Raw(hostile.port) as raw:
        raw.say(waiting.replace(b"HOST", b"127.0.0.1:%d" % hostile.port))
        until(lambda: hostile.door.hub.listeners == 1, "that it listens")
    left_s = time.monotonic()

    until(lambda: hostile.door.hub.listeners == 0, "that nobody listens")
    assert time.monotonic() - left_s < LATE_S_MAX  # Not only when it would be told the next time.


def test_who_leaves_in_the_middle_of_a_body_leaves_nothing(hostile: Served) -> None:
    """Promise Z3. Shorter than announced: nothing is stored."""
    for body in (b"Content-Length: 10\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"):
        with Raw(hostile.port) as raw:
            raw.say(b"POST /push HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % hostile.port + body)
            raw.finish()
            heard = raw.hear()

        assert heard.is_closed
        assert not any(status < 400 or status >= 500 for status in heard.statuses)


def test_a_body_that_is_longer_than_announced_is_not_read_on(hostile: Served) -> None:
    """Promise Z3. What is too much is a request of its own, and none."""
    heard = asked(hostile.port, PUSH + b"Content-Length: 5\r\n\r\nhello and more")

    assert heard.is_closed
    assert heard.statuses == [200, 400]


# Slow ones


def drip(raw: Raw, data: bytes, pause_s: float = 0.1) -> Heard:
    """Send byte by byte until there is an answer."""
    begun_s = time.monotonic()
    raw.socket.settimeout(pause_s)
    came = b""
    for number in range(len(data)):
        raw.say(data[number : number + 1])
        try:
            came = raw.socket.recv(65_536)
        except TimeoutError:
            continue
        except ConnectionResetError:
            pass
        break
    raw.socket.settimeout(LATE_S_MAX)
    rest = raw.hear()
    return Heard(came + rest.raw, rest.is_closed, time.monotonic() - begun_s)


NO_PULL = b"GET /pull/00000000-0000-4000-8000-000000000000 HTTP/1.1\r\nHost: HOST\r\n"
SLOW: dict[str, tuple[bytes, bytes, list[int]]] = {
    "nothing at all": (b"", b"", []),
    "headers": (b"", GET + b"X-A: " + b"a" * 1_000, [408]),
    "a body": (PUSH + b"Content-Length: 1000\r\n\r\n", b"a" * 1_000, [408]),
    "chunks": (PUSH + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 200, [408]),
    "an extension of a chunk": (
        PUSH + b"Transfer-Encoding: chunked\r\n\r\n1;",
        b"a" * 1_000,
        [408],
    ),
    "a body that never comes": (PUSH + b"Content-Length: 1000\r\n\r\n", b"", [408]),
    "a body of JSON that never comes": (json(b"/push", b"a" * 9)[:-9], b"", [408]),
    "a body that nobody reads": (
        b"POST /nowhere HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000\r\n\r\n",
        b"a" * 1_000,
        [404],
    ),
    "the rest of a pull": (
        NO_PULL + b"Content-Length: 1000\r\n\r\n",
        b"a" * 1_000,
        [404],
    ),
    "a second request": (GET + b"\r\n", GET + b"X-A: " + b"a" * 1_000, [200, 408]),
}


@pytest.mark.parametrize("name", SLOW)
def test_who_sends_slowly_is_cut_off(hostile: Served, name: str) -> None:
    """Promise Z3. It has as long as a server's bounds say, however it spreads it."""
    begin, slowly, expected = SLOW[name]
    host = b"127.0.0.1:%d" % hostile.port
    with Raw(hostile.port) as raw:
        raw.say(begin.replace(b"HOST", host))
        first = raw.answer()[0] if name == "a second request" else None
        heard = drip(raw, slowly.replace(b"HOST", host))

    assert heard.is_closed
    assert heard.took_s < LATE_S_MAX
    assert ([first] if first else []) + heard.statuses == expected


def test_hundreds_of_slow_ones_hold_up_nobody(hostile: Served, honest: HonestClient) -> None:
    """Promise Z3. All of them are cut off, and others are answered meanwhile."""
    answered = honest.answered
    with ExitStack() as stack:
        slow = [stack.enter_context(Raw(hostile.port, LATE_S_MAX)) for _ in range(300)]
        for each in slow:
            each.say(b"POST /push HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % hostile.port)
            each.say(b"Content-Length: 1000000\r\n\r\n" + b"a" * 900)
        heard = [each.hear() for each in slow]

    assert [each.statuses for each in heard] == [[408]] * len(slow)
    assert honest.answered > answered + 10
    until(lambda: connections(hostile) == 1, "that only the honest one is left")


def connections(served: Served) -> int:
    return len(served.server.server_state.connections)


# Who does not read


@pytest.mark.parametrize(
    "path", ["/pull/{ref}", "/pull/{ref}?raw=1", "/v1/artifacts/{ref}/content"]
)
@pytest.mark.parametrize("size_bytes", [10_000, 200_000, BODY_BYTES_MAX])
def test_who_does_not_read_is_cut_off(hostile: Served, path: str, size_bytes: int) -> None:
    """Promise Z3. What it asked for does not lie about for ever."""
    ref = pushed(hostile, b"a" * size_bytes)
    request = f"GET {path.format(ref=ref)} HTTP/1.1\r\nHost: 127.0.0.1:{hostile.port}\r\n\r\n"
    with Raw(hostile.port, LATE_S_MAX) as raw:
        raw.socket.settimeout(0.2)
        with suppress(TimeoutError):  # The server does not read on while nobody reads its answers.
            for _ in range(2_000):
                raw.say(request.encode() * 10)

        until(lambda: connections(hostile) == 1, "that the one who does not read is cut off")


def pushed(served: Served, body: bytes) -> str:
    head = PUSH + b"Content-Length: %d\r\n" % len(body)
    return asked(served.port, head + CLOSE + body).raw.partition(b'"id":"')[2][:36].decode()


# WebSockets


@contextmanager
def upgraded(served: Served, channel: bytes = b"a") -> Generator[Raw]:
    with Raw(served.port, LATE_S_MAX) as raw:
        request = (WS + WS_KEY + WS_VERSION + b"\r\n").replace(b"/ws/a", b"/ws/" + channel)
        raw.say(request.replace(b"HOST", b"127.0.0.1:%d" % served.port))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw.socket.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        yield raw


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_frame_that_is_none_ends_the_connection(hostile: Served, name: str) -> None:
    """Promise Z3."""
    frames, code = BAD_FRAMES[name]
    with upgraded(hostile) as raw:
        raw.say(frames)
        heard = raw.hear()

    assert heard.is_closed
    assert heard.took_s < LATE_S_MAX
    assert heard.raw[:1] == b"\x88"
    assert int.from_bytes(heard.raw[2:4]) == code


def test_frames_that_nobody_asked_for_are_dropped(hostile: Served) -> None:
    """Promise Z3. Texts that are none as well; a ping behind them is answered."""
    with upgraded(hostile) as raw:
        raw.say(frame(TEXT, b"\xff\xfe"), frame(BINARY, b"a") * 10_000, frame(TEXT, b"a", False))
        raw.say(frame(PING, b"there?"))

        assert raw.socket.recv(100) == b"\x8a\x06there?"


def test_pings_of_one_who_does_not_read_are_not_kept(hostile: Served) -> None:
    """Promise Z3."""
    with upgraded(hostile) as raw:
        for _ in range(300):
            raw.say(frame(PING, b"a" * 125) * 800)

        held = [
            each.transport.get_write_buffer_size()
            for each in hostile.server.server_state.connections
        ]
        assert max(held) < 1 << 20


# Too many


def test_one_connection_too_many_is_refused_until_another_ends(tmp_path: Path) -> None:
    """Promise Z3. It is told to come back later."""
    with serving(tmp_path / "store", bounds=ServerBounds(connections=3)) as served:
        with ExitStack() as stack:
            for _ in range(3):
                first = stack.enter_context(Raw(served.port))
                first.say(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % served.port)
                assert first.answer()[0] == 200
            plain = asked(served.port, GET + CLOSE)
            handshake = asked(served.port, WS + WS_KEY + WS_VERSION + b"\r\n")

        assert plain.statuses == handshake.statuses == [503]
        assert b"retry-after: 1\r\n" in plain.raw
        until(lambda: connections(served) == 0, "that they are gone")
        assert asked(served.port, GET + CLOSE).statuses == [200]


def test_bodies_that_are_too_much_together_are_refused_until_others_are_done(
    tmp_path: Path,
) -> None:
    """Promise Z3. Each of them is allowed, and one after the other they are taken."""
    body = b"{" + b" " * 700_000 + b"}"
    request = json(b"/v1/threads", body)
    begin, rest = request[:-100_000], request[-100_000:]
    with serving(tmp_path / "store", bounds=ServerBounds(held_bytes=1_000_000)) as served:
        host = b"127.0.0.1:%d" % served.port
        with Raw(served.port) as first:
            first.say(begin.replace(b"HOST", host))
            until(lambda: held(served) > 500_000, "most of it")
            second = asked(served.port, request)
            first.say(rest)
            status = first.answer()[0]
        again = asked(served.port, request)

        assert second.statuses == [503]
        assert status == 201
        assert again.statuses == [201]
        assert held(served) == 0


def held(served: Served) -> int:
    """How much of bodies on their way in a server holds."""
    app = served.server.config.loaded_app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(App, app).incoming.held_bytes


@pytest.mark.parametrize("url", ["https://relay.example.com:443", "https://relay.example.com"])
def test_the_port_that_goes_without_saying_may_be_said_or_not(tmp_path: Path, url: str) -> None:
    """Promise Z2."""
    name = b"relay.example.com"
    request = b"GET /health HTTP/1.1\r\nHost: %s\r\nOrigin: https://%s\r\n" + CLOSE
    with serving(tmp_path / "store", public_url=url) as served:
        reply = [
            asked(served.port, request % (host, origin)).statuses
            for host, origin in [
                (name, name),
                (name + b":443", name),
                (name, name + b":443"),
                (name + b":80", name),
                (name, name + b":80"),
            ]
        ]

    assert reply == [[200], [200], [200], [421], [403]]
