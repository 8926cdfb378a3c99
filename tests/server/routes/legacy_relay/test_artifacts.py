"""Artifacts of a thread over HTTP: put as JSON or in a form, listed, described, read."""

from __future__ import annotations

import hashlib
import socket
from base64 import b64encode
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay.model.settings import Settings
from tests.server.serving import Served, serving

BYTES = {"Accept": "application/octet-stream"}


def form(web: httpx2.Client, thread: str, body: bytes, boundary: str = "b") -> httpx2.Response:
    """Send a form that was written by hand."""
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return web.post(f"/threads/{thread}/artifacts", content=body, headers=headers)


def part(name: str, value: bytes, more: str = "", boundary: str = "b") -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


# JSON


def test_content_in_json_becomes_an_artifact(web: httpx2.Client, thread: str) -> None:
    """Promise A1. Promise A4."""
    sent = {
        "name": "Größe – 漢字.md",
        "type": "markdown",
        "mime": "text/markdown",
        "content": "# é",
    }
    reply = web.post(
        f"/threads/{thread}/artifacts", json={**sent, "created_by": "ann", "capability": "c.write"}
    )

    made = reply.json()
    assert reply.status_code == 201
    assert reply.headers["location"] == f"/threads/{thread}/artifacts/{made['ref']}"
    assert made["artifact_ref"] == made["ref"]
    assert (made["name"], made["type"], made["mime"]) == (sent["name"], "markdown", "text/markdown")
    assert made["hash"] == made["sha256"] == hashlib.sha256("# é".encode()).hexdigest()
    assert made["preview"]["text"] == "# é"
    assert (made["provenance"]["created_by"], made["provenance"]["capability"]) == (
        "ann",
        "c.write",
    )
    assert (made["size"], made["thread_id"], made["expires_at"]) == (4, thread, None)


def test_bytes_travel_in_json_as_base64(web: httpx2.Client, thread: str) -> None:
    """Promise A4."""
    body = {"encoding": "base64", "content": b64encode(b"\0\xff\n").decode(), "name": "a.bin"}

    ref = web.post(f"/threads/{thread}/artifacts", json=body).json()["ref"]

    assert web.get(f"/artifacts/{ref}?raw=1").content == b"\0\xff\n"


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"content": 7},
        {"content": {"a": 1}},
        {"content": "a", "type": "novel"},
        {"content": "a", "name": 7},
        {"content": "a", "name": "../a"},
        {"content": "a", "name": "n" * 256},
        {"content": "a", "mime": "no media type"},
        {"content": "a", "mime": "text/html\r\nset-cookie: a=b"},
        {"content": "a", "size": 1},
        {"content": "a b", "encoding": "base64"},
        {"content": "a", "encoding": "rot13"},
        {"content": "a", "source_refs": ["nope"]},
    ],
)
def test_json_that_is_no_artifact_is_refused(web: httpx2.Client, thread: str, body: Any) -> None:
    """Promise A4."""
    reply = web.post(f"/threads/{thread}/artifacts", json=body)

    assert reply.status_code == 400, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert web.get(f"/threads/{thread}/artifacts").json() == {"artifacts": [], "left_out": 0}


def test_an_artifact_is_put_once_a_key(web: httpx2.Client, thread: str) -> None:
    """Promise A4."""
    key = {"Idempotency-Key": "k"}
    where = f"/threads/{thread}/artifacts"
    one = [web.post(where, json={"content": "a"}, headers=key).json()["ref"] for _ in "ab"]
    other = web.post(where, json={"content": "b"}, headers=key)

    assert one[0] == one[1]
    assert other.status_code == 422
    assert len(web.get(where).json()["artifacts"]) == 1


def test_what_json_does_not_say_is_plain_text_by_the_api(web: httpx2.Client, thread: str) -> None:
    """Promise A4: type, mime and created_by as the seed has them, whatever the name suggests."""
    for sent in ({}, {"type": "", "mime": "", "name": ""}):
        made = web.post(f"/threads/{thread}/artifacts", json={"content": "{}", **sent}).json()

        assert (made["type"], made["mime"], made["name"]) == ("text", "text/plain", "")
        assert made["provenance"]["created_by"] == "api"
        assert set(made["preview"]) >= {"text", "line_count", "truncated", "size"}
        assert made["created_at"].endswith("Z")


@pytest.mark.parametrize("body", [b"", b"nope", b"[]", b'{"content": "a"', b'{"content": "\xff"}'])
def test_what_is_no_json_is_an_invalid_request_body(
    web: httpx2.Client, thread: str, body: bytes
) -> None:
    """Promise A4."""
    reply = web.post(f"/threads/{thread}/artifacts", content=body)

    assert reply.status_code == 400
    assert reply.json()["error"] == "invalid request body"


# Forms


def test_a_file_that_says_nothing_is_binary(web: httpx2.Client, thread: str) -> None:
    """Promise A2. Promise A4: whatever its bytes look like."""
    made = form(web, thread, part("file", b"# text", '; filename="a.md"') + b"--b--\r\n").json()
    typed = web.post(
        f"/threads/{thread}/artifacts",
        files={"file": ("b.md", b"# text", "text/markdown")},
        data={"type": "markdown"},
    ).json()

    assert (made["name"], made["type"], made["mime"]) == ("a.md", "binary", BYTES["Accept"])
    assert made["preview"]["text"] == "[binary, 6 bytes]"
    assert (typed["name"], typed["type"], typed["mime"]) == ("b.md", "markdown", "text/markdown")
    assert typed["preview"]["text"] == "# text"


def test_a_form_without_a_file_is_refused(web: httpx2.Client, thread: str) -> None:
    """Promise A4."""
    reply = form(web, thread, part("type", b"text") + b"--b--\r\n")

    assert (reply.status_code, reply.json()["error"]) == (400, "file field required")


def test_a_file_in_a_form_becomes_an_artifact(web: httpx2.Client, thread: str) -> None:
    """Promise A4."""
    body = bytes(range(256)) * 4096  # Every byte, and more than is kept in memory.

    reply = web.post(
        f"/threads/{thread}/artifacts",
        files={"file": ("Bild ü.png", body, "image/png")},
        data={"type": "image"},
    )

    made = reply.json()
    assert reply.status_code == 201, reply.text
    assert (made["name"], made["type"], made["mime"]) == ("Bild ü.png", "image", "image/png")
    assert web.get(f"/artifacts/{made['ref']}/content", headers=BYTES).content == body


def test_fields_may_come_after_the_content_and_go_before_what_it_says(
    web: httpx2.Client, thread: str
) -> None:
    """Promise A4."""
    body = (
        part("content", b"a,b\r\n--c\r\n", '; filename="x.txt"')
        + part("name", "Ω.csv".encode())
        + part("mime", b"text/csv")
        + part("created_by", b"ann")
        + b"--b--\r\n"
    )

    made = form(web, thread, body).json()

    assert (made["name"], made["mime"]) == ("Ω.csv", "text/csv")
    assert made["provenance"]["created_by"] == "ann"
    assert web.get(f"/artifacts/{made['ref']}?raw=1").content == b"a,b\r\n--c\r\n"


@pytest.mark.parametrize("boundary", ["b", "-" * 70, "a'()+_,-./:=?z", "0"])
@pytest.mark.parametrize("step", [1, 7, 4096])
def test_a_form_is_read_alike_however_it_is_cut(
    web: httpx2.Client, thread: str, boundary: str, step: int
) -> None:
    """Promise A4."""
    content = f"\r\n--{boundary[:-1]}\r\n--\r\n-\r\n\r\n--".encode()
    body = part("file", content, boundary=boundary) + f"--{boundary}--\r\nepilogue".encode()

    reply = web.post(
        f"/threads/{thread}/artifacts",
        content=(body[start : start + step] for start in range(0, len(body), step)),
        headers={"Content-Type": f'multipart/form-data; boundary="{boundary}"'},
    )

    assert reply.status_code == 201, reply.text
    assert web.get(f"/artifacts/{reply.json()['ref']}?raw=1").content == content


WRONG_FORMS = {
    "nothing": b"",
    "no end": part("file", b"a"),
    "cut in the middle": part("file", b"a")[:-4],
    "another boundary": part("file", b"a", boundary="c") + b"--c--\r\n",
    "no content": part("name", b"a") + b"--b--\r\n",
    "no parts": b"--b--\r\n",
    "content twice": part("file", b"a") + part("content", b"b") + b"--b--\r\n",
    "a field twice": part("file", b"a") + part("name", b"b") * 2 + b"--b--\r\n",
    "an unknown field": part("file", b"a") + part("colour", b"b") + b"--b--\r\n",
    "a part without a name": b"--b\r\nContent-Type: text/plain\r\n\r\na\r\n--b--\r\n",
    "a name that is no UTF-8": part("file", b"a") + part("name", b"\xff") + b"--b--\r\n",
    "a file name that is no UTF-8": b'--b\r\nContent-Disposition: form-data; name="file"; '
    b'filename="\xff"\r\n\r\na\r\n--b--\r\n',
    "a huge header": part("file", b"a", "; filename=" + "x" * 5000) + b"--b--\r\n",
    "many headers": b"--b\r\n" + b"X-A: b\r\n" * 9 + part("file", b"a")[3:] + b"--b--\r\n",
    "a header without an end": b"--b\r\nContent-Disposition" * 1000,
    "a type that is none": part("file", b"a") + part("type", b"novel") + b"--b--\r\n",
}


@pytest.mark.parametrize("body", WRONG_FORMS.values(), ids=WRONG_FORMS)
def test_a_form_that_is_none_is_refused(web: httpx2.Client, thread: str, body: bytes) -> None:
    """Promise A4."""
    reply = form(web, thread, body)

    assert reply.status_code == 400, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert web.get(f"/threads/{thread}/artifacts").json()["artifacts"] == []


@pytest.mark.parametrize("parameter", ["", "; boundary=", "; boundary=" + "b" * 71, "; border=b"])
def test_a_form_without_a_usable_boundary_is_refused(
    web: httpx2.Client, thread: str, parameter: str
) -> None:
    """Promise A4."""
    reply = web.post(
        f"/threads/{thread}/artifacts",
        content=part("file", b"a") + b"--b--\r\n",
        headers={"Content-Type": f"multipart/form-data{parameter}"},
    )

    assert reply.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"".join(part(f"f{index}", b"") for index in range(21)),
        part("name", b"n" * (64 * 1024 + 1)),
    ],
    ids=["parts", "a field"],
)
def test_what_a_form_may_have_is_bounded(web: httpx2.Client, thread: str, body: bytes) -> None:
    """Promise A4."""
    assert form(web, thread, body + b"--b--\r\n").status_code == 413


# Over the limit


@pytest.fixture
def narrow(tmp_path: Path) -> Generator[Served]:
    """A server that takes bodies of at most 1,000 bytes."""
    with serving(tmp_path / "narrow", settings=Settings(body_bytes_max=1000)) as served:
        yield served


def test_content_over_the_limit_is_a_413_however_it_comes(narrow: Served) -> None:
    """Promise A4."""
    with httpx2.Client(base_url=narrow.url) as web:
        where = f"/threads/{web.post('/threads').json()['thread_id']}/artifacts"
        fits = [
            web.post(where, json={"content": "a" * 1000}),
            web.post(where, json={"content": "\x01" * 1000}),  # Six times as long in JSON.
            web.post(where, files={"file": b"a" * 1000}),
        ]
        over = [
            web.post(where, json={"content": "a" * 1001}),
            web.post(
                where, json={"content": b64encode(b"a" * 1001).decode(), "encoding": "base64"}
            ),
            web.post(where, files={"file": b"a" * 1001}),
        ]
        listed = web.get(where).json()["artifacts"]

    assert [each.status_code for each in fits] == [201] * 3
    assert [each.status_code for each in over] == [413] * 3
    assert {each.json()["error"] for each in over} == {"artifact exceeds 1000 bytes limit"}
    assert len(listed) == 3


@pytest.mark.parametrize("media_type", ["application/json", "multipart/form-data; boundary=b"])
@pytest.mark.parametrize("is_announced", [True, False])
def test_most_of_what_is_over_the_limit_is_not_read(
    narrow: Served, media_type: str, is_announced: bool
) -> None:
    """Promise A4."""
    with httpx2.Client(base_url=narrow.url) as web:
        thread = web.post("/threads").json()["thread_id"]
    length = "Content-Length: 99000000000" if is_announced else "Transfer-Encoding: chunked"
    head = (
        f"POST /threads/{thread}/artifacts HTTP/1.1\r\nHost: 127.0.0.1:{narrow.port}\r\n"
        f"Content-Type: {media_type}\r\n{length}\r\n\r\n"
    )
    sent = (
        part("file", b"a" * 3_000_000) if "form" in media_type else b'{"content":"' + b"a" * 90000
    )
    if not is_announced:
        sent = b"%x\r\n%s\r\n" % (len(sent), sent)

    with socket.create_connection(("127.0.0.1", narrow.port), timeout=20) as connection:
        connection.sendall(head.encode())
        if not is_announced:
            # The answer may be there, and the connection closed, before all is sent.
            with suppress(OSError):
                connection.sendall(sent)
        answer = connection.recv(100)

    assert answer.startswith(b"HTTP/1.1 413 ")


# Reading


def test_artifacts_are_listed_newest_first_and_the_rest_is_counted(
    web: httpx2.Client, thread: str
) -> None:
    """Promise T11."""
    where = f"/threads/{thread}/artifacts"
    refs = [web.post(where, json={"content": f"a{index}"}).json()["ref"] for index in range(3)]

    every = web.get(where).json()
    some = web.get(f"{where}?limit=2").json()

    assert sorted(each["artifact_ref"] for each in every["artifacts"]) == sorted(refs)
    assert (every["left_out"], some["left_out"], len(some["artifacts"])) == (0, 1, 2)


def test_an_artifact_is_described_or_read_under_both_paths(web: httpx2.Client, thread: str) -> None:
    """Promise A4. Promise T11."""
    body = {"name": "a.md", "mime": "text/markdown", "content": "# a"}
    ref = web.post(f"/threads/{thread}/artifacts", json=body).json()["ref"]

    for path in (f"/artifacts/{ref}", f"/threads/{thread}/artifacts/{ref}"):
        assert web.get(path).json()["artifact_ref"] == ref
        raw = web.get(f"{path}?raw=1")
        assert (raw.content, raw.headers["content-type"]) == (
            b"# a",
            "text/markdown; charset=utf-8",
        )
        assert "sandbox" in raw.headers["content-security-policy"]
        assert web.get(f"{path}/content", headers=BYTES).content == b"# a"


@pytest.mark.parametrize("accept", [None, "*/*", "text/html", "application/json"])
def test_content_is_for_those_who_ask_for_bytes(
    web: httpx2.Client, thread: str, accept: str | None
) -> None:
    """Promise A4."""
    ref = web.post(f"/threads/{thread}/artifacts", json={"content": "a"}).json()["ref"]
    request = web.build_request("GET", f"/artifacts/{ref}/content")
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept

    reply = web.send(request)

    assert reply.status_code == 406
    assert reply.json()["error"] == "raw content requires Accept: application/octet-stream"


def test_a_part_of_the_content_can_be_had(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    ref = web.post(f"/threads/{thread}/artifacts", json={"content": "0123456789"}).json()["ref"]

    reply = web.get(f"/artifacts/{ref}/content", headers={**BYTES, "Range": "bytes=2-4"})

    assert (reply.status_code, reply.content) == (206, b"234")


@pytest.mark.parametrize(
    "ref", ["nope", "a" * 36, "%2e%2e", "00000000-0000-4000-8000-000000000000"]
)
def test_an_unknown_artifact_is_not_found(web: httpx2.Client, thread: str, ref: str) -> None:
    """Promise T11."""
    for path in (
        f"/artifacts/{ref}",
        f"/artifacts/{ref}/content",
        f"/threads/{thread}/artifacts/{ref}",
    ):
        reply = web.get(path, headers=BYTES)
        assert (reply.status_code, reply.json()["error"]) == (404, "artifact not found")


def test_an_artifact_is_found_only_in_threads_that_have_it(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    ref = web.post(f"/threads/{thread}/artifacts", json={"content": "a"}).json()["ref"]
    other = web.post("/threads").json()["thread_id"]
    fork = web.post(f"/v1/threads/{thread}/fork", json={}).json()["thread_id"]

    assert web.get(f"/threads/{other}/artifacts/{ref}").status_code == 404
    assert web.get(f"/threads/{fork}/artifacts/{ref}").status_code == 200


def test_an_artifact_that_was_removed_is_gone(web: httpx2.Client, thread: str) -> None:
    """Promise T11."""
    ref = web.post(f"/threads/{thread}/artifacts", json={"content": "a"}).json()["ref"]
    web.delete(f"/v1/artifacts/{ref}")

    assert web.get(f"/artifacts/{ref}").status_code == 410
    assert web.get(f"/artifacts/{ref}?raw=1").status_code == 410
