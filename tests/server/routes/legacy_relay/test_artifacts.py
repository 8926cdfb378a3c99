"""Artifacts of a thread over HTTP: put as JSON or in a form, listed, described, read."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Generator
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


@pytest.mark.parametrize("parameter", ["", "; boundary=" + "b" * 71])
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


@pytest.mark.parametrize("accept", [None, "text/html"])
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
