"""Seed 000's routes: push, pull and peek, to the letter, and what we add to them."""

from __future__ import annotations

import gzip
import re
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay import Settings
from tests.server.serving import Served, serving

MIB = 1024 * 1024
NOBODY = "00000000-0000-4000-8000-000000000000"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def push(web: httpx2.Client, data: Any, **fields: Any) -> dict[str, Any]:
    reply = web.post("/push", json={"data": data, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def push_bytes(web: httpx2.Client, body: bytes, media_type: str = "text/plain") -> str:
    reply = web.post("/push", content=body, headers={"content-type": media_type})
    assert reply.status_code == 200, reply.text
    return reply.json()["id"]


# Push


def test_a_push_is_answered_with_url_id_and_channel(shared: Served, web: httpx2.Client) -> None:
    """Promise R1."""
    answer = push(web, "hello", channel="project_x", metadata={"summary": "x"})

    assert UUID4.fullmatch(answer["id"])
    assert answer == {
        "url": f"{shared.url}/pull/{answer['id']}",
        "id": answer["id"],
        "channel": "project_x",
    }
    assert push(web, "hello")["channel"] is None


def test_the_url_has_the_public_name_where_there_is_one(tmp_path: Path) -> None:
    """Promise R1."""
    with (
        serving(tmp_path, public_url="https://relay.example.com/") as served,
        httpx2.Client(base_url=served.url) as web,
    ):
        assert push(web, "x")["url"].startswith("https://relay.example.com/pull/")


@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown; charset=utf-8", ""])
def test_any_other_body_is_the_data(web: httpx2.Client, media_type: str) -> None:
    """Promise R2."""
    ref = push_bytes(web, "# héllo ✓".encode(), media_type)

    assert web.get(f"/pull/{ref}").json() == {"data": "# héllo ✓", "metadata": {}}


def test_bytes_that_are_no_text_come_back_bare(web: httpx2.Client) -> None:
    """Promise R2."""
    body = bytes(range(256)) * 10

    reply = web.get(f"/pull/{push_bytes(web, body, 'image/png')}")

    assert (reply.content, reply.headers["content-type"]) == (body, "image/png")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "Invalid JSON body"),
        (b'{"data": "x", "ttl": NaN}', "Invalid JSON body"),
        (b"{}", 'JSON body must include "data" as a string'),
        (b'{"data": 7}', 'JSON body must include "data" as a string'),
    ],
)
def test_what_is_no_push_is_refused_in_the_seeds_words(
    web: httpx2.Client, body: bytes, text: str
) -> None:
    """Promise R5."""
    reply = web.post("/push", content=body, headers={"content-type": "application/json"})

    assert (reply.status_code, reply.text) == (400, text)
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_bare_push_of_nothing_is_refused(web: httpx2.Client) -> None:
    """Promise R5."""
    reply = web.post("/push", headers={"content-type": "text/plain"})

    assert (reply.status_code, reply.text) == (400, "Missing body")


def test_odd_metadata_and_channels_are_ignored(web: httpx2.Client) -> None:
    """Promise R5."""
    odd: list[tuple[Any, Any]] = [("", []), (7, "text"), ([], 7), (None, None)]
    for channel, metadata in odd:
        answer = push(web, "x", channel=channel, metadata=metadata)

        assert answer["channel"] is None
        assert web.get(f"/peek/{answer['id']}").json() == {}


def test_a_push_lives_a_day_or_as_long_as_it_says(web: httpx2.Client) -> None:
    """Promise R6."""

    def ttl_s(**fields: Any) -> Any:
        return web.get(f"/v1/artifacts/{push(web, 'x', **fields)['id']}").json()["ttl_s"]

    assert (ttl_s(), ttl_s(ttl=60), ttl_s(ttl=None)) == (86_400, 60, None)
    odd: list[Any] = [0, -1, 31_536_001, 1.5, "60", True, []]
    for ttl in odd:
        assert web.post("/push", json={"data": "x", "ttl": ttl}).status_code == 400


def test_a_push_into_a_thread_is_an_event_of_it(web: httpx2.Client, thread: str) -> None:
    """Promise R1."""
    ref = push(web, "for the thread", thread=thread)["id"]

    answer = web.get(f"/threads/{thread}/state").json()["artifacts"]
    assert [each["ref"] for each in answer] == [ref]
    assert web.post("/push", json={"data": "x", "thread": NOBODY}).status_code == 404
    assert web.post("/push", json={"data": "x", "thread": "a"}).status_code == 400


# Pull


def test_a_pull_of_text_is_the_envelope_as_text(web: httpx2.Client) -> None:
    """Promise R3."""
    ref = push(web, 'a "b" \\ \n ü 🙂', metadata={"n": 1})["id"]

    reply = web.get(f"/pull/{ref}")

    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.json() == {"data": 'a "b" \\ \n ü 🙂', "metadata": {"n": 1}}


@pytest.mark.parametrize("size", [2_000, 200_000, 3 * MIB])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_the_envelope_is_the_same_whatever_its_size_and_packing(
    web: httpx2.Client, size: int, encoding: str
) -> None:
    """Promise R3."""
    text = 'aé✓🙂"\n' * (size // 12)
    ref = push_bytes(web, text.encode())

    reply = web.get(f"/pull/{ref}", headers={"accept-encoding": encoding})

    assert reply.json() == {"data": text, "metadata": {}}
    assert reply.headers.get("content-encoding") == ("gzip" if encoding == "gzip" else None)


@pytest.mark.parametrize("size", [1_000, 3 * MIB])
def test_bare_bytes_have_their_media_type_and_their_hash_as_tag(
    web: httpx2.Client, size: int
) -> None:
    """Promise R3."""
    body = b"# title\n" * (size // 8)
    ref = push_bytes(web, body, "text/markdown")

    plain = {"accept-encoding": "identity"}
    by_query = web.get(f"/pull/{ref}?raw=1", headers=plain)
    by_accept = web.get(f"/pull/{ref}", headers={**plain, "accept": "application/octet-stream"})

    assert by_query.content == by_accept.content == body
    assert by_query.headers["content-type"] == "text/markdown; charset=utf-8"
    tag = by_query.headers["etag"]
    assert web.get(f"/v1/artifacts/{ref}").json()["sha256"] == tag.strip('"')
    again = web.get(f"/pull/{ref}?raw=1", headers={**plain, "if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_a_quick_answer_has_the_headers_of_an_ordinary_one(web: httpx2.Client) -> None:
    """Promise R3. Whoever sends a header that is not everyday is answered the ordinary way."""
    ref = push(web, "some text", metadata={"n": 1})["id"]

    for path in (f"/pull/{ref}", f"/pull/{ref}?raw=1", f"/peek/{ref}"):
        quick = web.get(path, headers={"accept-encoding": "identity"})
        ordinary = web.get(path, headers={"accept-encoding": "identity", "if-none-match": '"x"'})
        assert dict(quick.headers) == dict(ordinary.headers)
        assert quick.content == ordinary.content


def test_each_form_of_one_url_has_a_tag_of_its_own(web: httpx2.Client) -> None:
    """Promise R3."""
    ref = push_bytes(web, b"line of text\n" * 1_000)
    forms = [
        {"accept": accept, "accept-encoding": encoding}
        for accept in ("*/*", "application/octet-stream")
        for encoding in ("identity", "gzip")
    ]

    replies = [web.get(f"/pull/{ref}", headers=form) for form in forms]
    tags = [reply.headers["etag"] for reply in replies]

    assert len(set(tags)) == len(forms)
    for reply in replies:
        assert reply.headers["vary"] == "accept, accept-encoding"
        assert reply.headers["cache-control"] == "private, no-cache"
    for form, own in zip(forms, tags, strict=True):
        for tag in tags:
            again = web.get(f"/pull/{ref}", headers={**form, "if-none-match": tag})
            assert again.status_code == (304 if tag == own else 200)
            assert again.headers["etag"] == own


@pytest.mark.parametrize(
    ("accept", "is_raw"),
    [
        ("application/octet-stream", True),
        ("text/html, application/octet-stream;q=0.5", True),
        ("*/*", False),
    ],
)
def test_who_accepts_bytes_gets_them_quick_or_not(
    web: httpx2.Client, accept: str, is_raw: bool
) -> None:
    """Promise R3."""
    ref = push_bytes(web, b"some text")
    asked = {"accept": accept, "accept-encoding": "identity"}

    quick = web.get(f"/pull/{ref}", headers=asked)
    ordinary = web.get(f"/pull/{ref}", headers={**asked, "if-none-match": '"x"'})

    assert (quick.content == b"some text") == is_raw
    assert quick.content == ordinary.content


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("bytes=0-9", 0, 10), ("bytes=10-", 10, 3_000), ("bytes=-7", 2_993, 3_000)],
)
def test_a_range_is_answered_with_just_that(
    web: httpx2.Client, asked: str, start: int, stop: int
) -> None:
    """Promise R3."""
    body = bytes(number % 251 for number in range(3_000))
    ref = push_bytes(web, body)

    reply = web.get(f"/pull/{ref}?raw=1", headers={"range": asked})

    assert (reply.status_code, reply.content) == (206, body[start:stop])
    assert reply.headers["content-range"] == f"bytes {start}-{stop - 1}/3000"


def test_a_range_beyond_the_end_is_refused_and_an_odd_one_ignored(web: httpx2.Client) -> None:
    """Promise R3."""
    ref = push_bytes(web, b"0123456789")

    beyond = web.get(f"/pull/{ref}?raw=1", headers={"range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")
    for odd in ("bytes=1-2,4-5", "lines=1-2", "bytes=x-y", "bytes=-", "bytes=5-2", "bytes=12-11"):
        reply = web.get(f"/pull/{ref}?raw=1", headers={"range": odd})
        assert (reply.status_code, reply.content) == (200, b"0123456789")
    stale = web.get(f"/pull/{ref}?raw=1", headers={"range": "bytes=0-1", "if-range": '"other"'})
    assert stale.status_code == 200


def test_head_shows_all_but_the_body(web: httpx2.Client) -> None:
    """Promise R3."""
    ref = push_bytes(web, b"x" * 3_000)

    reply = web.head(f"/pull/{ref}?raw=1", headers={"accept-encoding": "identity"})

    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-length"] == "3000"


def test_a_packed_reply_unpacks_to_the_same(web: httpx2.Client) -> None:
    """Promise R3."""
    body = b"line of text\n" * 10_000
    ref = push_bytes(web, body)

    with web.stream("GET", f"/pull/{ref}?raw=1", headers={"accept-encoding": "gzip"}) as reply:
        packed = b"".join(reply.iter_raw())

    assert reply.headers["content-encoding"] == "gzip"
    assert len(packed) < len(body) // 10
    assert gzip.decompress(packed) == body


def test_pushed_html_can_do_nothing_in_a_browser(web: httpx2.Client) -> None:
    """Promise Z2."""
    ref = push_bytes(web, b"<script>alert(1)</script>", "text/html")

    reply = web.get(f"/pull/{ref}?raw=1")

    assert reply.headers["content-security-policy"].startswith("sandbox")
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("place", ["pull", "peek"])
@pytest.mark.parametrize("ref", [NOBODY, "abc", NOBODY.upper(), f"{NOBODY}0", "%00", "..%2f.."])
def test_what_is_not_there_is_refused_in_the_seeds_words(
    web: httpx2.Client, place: str, ref: str
) -> None:
    """Promise R4."""
    reply = web.get(f"/{place}/{ref}")

    assert (reply.status_code, reply.text) == (404, "Context not found or expired")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_gone_ref_says_so_to_a_pull_of_all(web: httpx2.Client) -> None:
    """Promise R4."""
    ref = push(web, "x", metadata={"summary": "was here"})["id"]
    web.delete(f"/v1/artifacts/{ref}")

    assert web.get(f"/pull/{ref}").text == "Context not found or expired"
    for place in ("pull", "peek"):
        reply = web.get(f"/{place}/{ref}?full=1")
        assert reply.status_code == 410
        answer = reply.json()
        assert (answer["reason"], answer["metadata"]) == ("removed", {"summary": "was here"})
        assert answer["gone_at"]


# Peek


def test_a_peek_is_the_metadata_alone(web: httpx2.Client) -> None:
    """Promise R7."""
    ref = push(web, "x", metadata={"summary": "ü", "size_kb": 80, "tags": [1, {"a": None}]})["id"]

    assert web.get(f"/peek/{ref}").json() == {
        "summary": "ü",
        "size_kb": 80,
        "tags": [1, {"a": None}],
    }
    assert web.get(f"/peek/{push(web, 'x')['id']}").json() == {}


def test_a_full_peek_shows_what_there_is(web: httpx2.Client) -> None:
    """Promise R7."""
    ref = push(web, "# Title\n\ntext", metadata={"n": 1}, ttl=None)["id"]

    answer = web.get(f"/peek/{ref}?full=1").json()

    assert set(answer) == {
        *("metadata", "size", "tokens", "token_basis", "media_type", "sha256"),
        *("created_at", "expires_at", "preview", "outline"),
    }
    assert (answer["metadata"], answer["size"], answer["expires_at"]) == ({"n": 1}, 13, None)
    assert answer["preview"]["text"] == "# Title\n\ntext"
    assert (answer["tokens"], answer["token_basis"]) == (4, "measured")
    # What is shorter than its outline is shown itself.
    assert answer["outline"] == "# Title\n\ntext"


# Limits


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """A server that takes bodies of a thousand bytes."""
    folder = tmp_path_factory.mktemp("small") / "store"
    with serving(folder, settings=Settings(body_bytes_max=1_000)) as running:
        yield running


def test_a_body_over_the_limit_is_refused(small: Served) -> None:
    """Promise R8."""
    with httpx2.Client(base_url=small.url) as web:
        assert push_bytes(web, b"x" * 1_000)
        over = web.post("/push", content=b"x" * 1_001, headers={"content-type": "text/plain"})
        assert over.status_code == 413
        # What counts is the content, not how JSON spells it.
        assert push(web, "\x01" * 1_000)
        assert web.post("/push", json={"data": "x" * 1_001}).status_code == 413


def test_a_body_that_announces_too_much_is_refused_before_it_comes(small: Served) -> None:
    """Promise R8."""
    with socket.create_connection(("127.0.0.1", small.port), timeout=5) as client:
        client.sendall(
            b"POST /push HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000000000\r\n\r\n"
            % small.port
        )

        reply = client.recv(10_000)

    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in reply


def test_a_body_that_turns_out_too_long_is_cut_off(small: Served) -> None:
    """Promise R8."""

    def chunks() -> Generator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    with httpx2.Client(base_url=small.url) as web:
        reply = web.post("/push", content=chunks(), headers={"content-type": "text/plain"})

    assert reply.status_code == 413


# Names


def test_a_retried_push_with_its_key_happens_once(web: httpx2.Client) -> None:
    """Promise R1. Promise C3."""
    key = {"idempotency-key": "one push"}

    first = web.post("/push", json={"data": "only once", "channel": "once"}, headers=key).json()
    again = web.post("/push", json={"data": "only once", "channel": "once"}, headers=key).json()

    assert first == again
    assert web.get("/v1/channels/once", params={"after": 0}).json()["head"] == 1
    other = web.post("/push", json={"data": "another"}, headers=key)
    assert other.status_code == 422
