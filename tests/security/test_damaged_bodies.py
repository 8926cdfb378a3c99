"""Bodies that were damaged outside of the store: `verify` reports them, no 200 is sent for one."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay
from contextrelay.verbs import Push
from tests.server.serving import Served, serving

SIZES_BYTES = (84_000, 3_000_000)
"""Sent in one piece, and streamed."""
FORMS = {
    "bare": ("pull", {"accept": "application/octet-stream"}),
    "envelope": ("pull", {"accept": "application/json"}),
    "framed": ("v1", {"accept": "application/vnd.contextrelay.framed"}),
    "packed": ("pull", {"accept": "application/octet-stream", "accept-encoding": "gzip"}),
    "range": ("pull", {"accept": "application/octet-stream", "range": "bytes=10-83000"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "store"


@pytest.fixture(scope="module")
def served(folder: Path) -> Generator[Served]:
    with serving(folder) as running:
        yield running


def pushed(relay: Relay, folder: Path, size_bytes: int) -> tuple[str, Path]:
    """Push a new text; return its ref, and the file in which its bytes are."""
    body = os.urandom(15).hex().encode() + b" a line of text\n" * (size_bytes // 16)
    artifact = relay.push(body, name="notes.txt")
    (blob,) = (folder / "blobs").glob(f"{artifact.sha256}-*")
    return artifact.ref, blob


def ask(served: Served, ref: str, form: str) -> httpx2.Response:
    door, headers = FORMS[form]
    path = f"/pull/{ref}" if door == "pull" else f"/v1/artifacts/{ref}/content"
    return httpx2.get(served.url + path, headers=headers)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
def test_a_pull_of_a_missing_or_short_body_is_an_error_and_not_a_broken_200(
    served: Served, folder: Path, size_bytes: int, form: str
) -> None:
    with Relay(folder) as relay:
        missing, gone = pushed(relay, folder, size_bytes)
        short, cut = pushed(relay, folder, size_bytes)
    gone.unlink()
    os.truncate(cut, 50_000)

    answers = [ask(served, ref, form) for ref in (missing, short)]

    assert [answer.status_code for answer in answers] == [500, 500]
    assert all("a body cannot be read" in answer.text for answer in answers)


def test_a_pull_of_parts_of_which_one_is_missing_is_an_error(served: Served, folder: Path) -> None:
    with Relay(folder) as relay:
        first, _ = pushed(relay, folder, 3_000_000)
        second, gone = pushed(relay, folder, 84_000)
        joined = relay.transport.ask(Push(parts=(first, second), name="joined.txt"), b"the end")
    gone.unlink()

    answer = ask(served, joined.ref, "bare")

    assert answer.status_code == 500
    assert "is missing" in answer.text or "cannot be read" in answer.text


@pytest.mark.parametrize("size_bytes", [84_000, 9_000_000])
def test_verify_reports_bytes_that_were_appended_to_a_body(tmp_path: Path, size_bytes: int) -> None:
    with Relay(tmp_path / "store") as relay:
        ref, blob = pushed(relay, tmp_path / "store", size_bytes)
        assert relay.verify().problem_count == 0
        with blob.open("ab") as file:
            file.write(b"more")

        report = relay.verify()

    assert [problem.ref for problem in report.problems] == [ref]
    assert f"{blob.stat().st_size} bytes" in report.problems[0].what
