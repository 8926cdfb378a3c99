"""Paths of the server: none of them is in anything that leaves over HTTP, whatever goes wrong."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay import Relay, capability
from contextrelay.core.capabilities import without_paths
from contextrelay.errors import Broken, RelayError
from contextrelay.store import file_errors
from contextrelay.store.blobs import files
from tests.server.serving import Served, serving

PLACE = "/srv/relay/relay.db"
LARGE = b"line\n" * 200_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def served(store: Path) -> Generator[Served]:
    with serving(store) as running:
        yield running


@pytest.fixture
def web(served: Served) -> Generator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=20) as client:
        yield client


def call_tool(client: httpx2.Client, name: str, **arguments: Any) -> httpx2.Response:
    """Call a tool of /mcp."""
    asked = {"name": name, "arguments": arguments}
    return client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked},
        headers={"accept": "application/json, text/event-stream"},
    )


def check(tmp_path: Path, *answers: httpx2.Response) -> None:
    for each in answers:
        answer = f"{each.headers!r} {each.text}"
        assert str(tmp_path) not in answer, each.url
        assert "/tmp" not in answer, each.url


@pytest.mark.parametrize(
    "trouble",
    [file_errors.no_room, file_errors.read_only, file_errors.cannot_open, file_errors.damaged],
)
def test_the_troubles_of_a_file_name_it_here_and_nowhere_else(trouble: Any) -> None:
    """Promise Z3."""
    error: RelayError = trouble(PLACE, "why")

    assert PLACE not in error.message + error.hint + str(error.details)
    assert str(error).startswith(f"{PLACE}: the store ")


def test_a_disk_that_is_full_is_reported_without_its_path(
    web: httpx2.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise Z3."""
    thread = web.post("/threads", json={}).json()["thread_id"]

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "store"))

    monkeypatch.setattr(files.os, "write", full)
    monkeypatch.setattr(files.os, "fsync", full)
    pushed = web.post("/push", content=LARGE)
    put = web.post(f"/threads/{thread}/artifacts", files={"file": LARGE})
    answer = call_tool(web, "push_context", content=LARGE[:300_000].decode())
    monkeypatch.undo()

    assert pushed.status_code == put.status_code == 507
    assert "the store is full" in pushed.text
    check(tmp_path, pushed, put, answer)


def test_a_body_that_is_gone_is_reported_without_its_path(
    web: httpx2.Client, store: Path, tmp_path: Path
) -> None:
    """Promise Z3."""
    ref = web.post("/push", content=LARGE).json()["id"]
    shutil.rmtree(store / "blobs")
    (store / "blobs").mkdir()

    answers = [
        web.get(path)
        for path in (
            f"/v1/artifacts/{ref}/outline",
            f"/v1/artifacts/{ref}/slice?lines=1:2",
            f"/v1/grep?pattern=line&ref={ref}",
            "/v1/search?query=line",
            f"/peek/{ref}?full=1",
        )
    ]

    assert {each.status_code for each in answers} >= {500}
    check(
        tmp_path, *answers, web.post("/v1/verify", json={}), call_tool(web, "pull_context", url=ref)
    )


def test_what_a_server_shows_of_itself_names_no_path(
    web: httpx2.Client, store: Path, tmp_path: Path
) -> None:
    """Promise Z3."""
    web.post("/push", content=b"there")
    paths = (
        "/openapi.json",
        "/docs",
        "/version",
        "/metrics",
        "/readyz",
        "/v1/survey",
        "/v1/backup",
    )
    framed = {"accept": "application/vnd.contextrelay.framed"}

    answers = [web.get(path, headers=framed) for path in paths]
    backup = web.get("/v1/backup").content
    assert str(tmp_path).encode() not in backup
    full = web.post("/v1/restore", content=backup)

    assert full.status_code == 409
    assert web.get("/v1/survey").json()["address"] == "the server's own"
    check(tmp_path, *answers, full, web.post("/v1/sweep", json={}), web.get("/v1/capabilities"))
    with Relay(store) as relay:
        assert relay.survey().address == str(store)


def test_what_a_capability_stumbles_over_is_reported_without_its_path(
    web: httpx2.Client, tmp_path: Path
) -> None:
    """Promise Z3. Also in the events of its thread."""

    @capability("test.stumbles", cacheable=False)
    def stumbles(args: dict[str, Any]) -> str:
        return (tmp_path / "not there.txt").read_text()

    thread = web.post("/threads", json={}).json()["thread_id"]
    failed = web.post("/cap/invoke", json={"capability": "test.stumbles", "thread_id": thread})

    assert failed.status_code == 502
    assert "FileNotFoundError" in failed.text
    check(tmp_path, failed, web.get(f"/threads/{thread}/events"))
    assert stumbles


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no file '/srv/my store/a b.txt' there", "no file …/a b.txt there"),
        ("cannot import x (/usr/lib/python3/y.py)", "cannot import x (…/y.py)"),
        (r"no C:\Users\me\x.txt", "no …/x.txt"),
        ("see https://example.com/a/b or /facts", "see https://example.com/a/b or /facts"),
    ],
)
def test_folders_are_left_out_of_what_others_say(said: str, shown: str) -> None:
    """Promise Z3."""
    assert without_paths(said) == shown


def test_an_error_keeps_its_place_where_it_is_copied() -> None:
    """Promise Z3."""
    import pickle

    error = Broken("it is damaged", "mend it", place=PLACE)

    assert str(pickle.loads(pickle.dumps(error))) == f"{PLACE}: it is damaged (mend it)"
