"""Handoff files: without any server, and from anywhere."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode, encode

from contextrelay import Invalid, Relay, TooLarge
from contextrelay.client.handoff_file import take_handoff, write_handoff

Members = dict[str, bytes]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good handoff file with one ref."""
    path = tmp_path / "handoff.zip"
    with Relay("memory:") as relay:
        thread = relay.new_thread("work")
        spec = thread.put("# Spec\n", name="spec.md")
        thread.patch(
            [{"op": "add", "path": "/facts/-", "value": {"id": "f", "key": "k", "value": 1}}]
        )
        given = thread.hand_off("coder", "go", refs=(spec.ref,), by="planner")
        write_handoff(relay, given.ref, path)
        assert zipfile.ZipFile(path).read("handoff.json") == relay.pull(given.ref)
    return path


def members(file: Path) -> Members:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(file: Path, changed: Members) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in changed.items():
            archive.writestr(name, body)


def edited(file: Path, act: Callable[[dict[str, Any]], None]) -> None:
    """Change what the handoff in a file says."""
    changed = members(file)
    handoff = decode(changed["handoff.json"])
    act(handoff)
    rewrite(file, changed | {"handoff.json": encode(handoff)})


def test_a_file_is_taken_in_a_store_that_never_heard_of_it(file: Path) -> None:
    """Promise K7: by file."""
    with Relay("memory:") as relay:
        taken = take_handoff(relay, file, by="coder")

        assert taken.view.handoff.ask == "go"
        assert taken.view.sha256 == hashlib.sha256(members(file)["handoff.json"]).hexdigest()
        (here,) = taken.refs.values()
        assert relay.pull(here) == b"# Spec\n"
        assert relay.peek(here).name == "spec.md"


def test_a_sealed_ref_goes_along_without_its_body(tmp_path: Path) -> None:
    with Relay("memory:") as relay:
        sealed = relay.push("secret", seal=True)
        given = relay.new_thread("work").hand_off("coder", "go", refs=(sealed.ref,))
        write_handoff(relay, given.ref, tmp_path / "h.zip")

        taken = take_handoff(relay, tmp_path / "h.zip")

        assert taken.view.handoff == given.handoff
        assert taken.refs == {}
    assert list(members(tmp_path / "h.zip")) == ["handoff.json"]


HOSTILE: dict[str, Callable[[Path], object]] = {
    "another body": lambda file: rewrite(
        file, {name: b"x" if name[-5:] != ".json" else body for name, body in members(file).items()}
    ),
    "no body": lambda file: rewrite(
        file, {name: body for name, body in members(file).items() if name[-5:] == ".json"}
    ),
    "another schema": lambda file: edited(file, lambda it: it.update({"$schema": "v2"})),
    "another package": lambda file: edited(file, lambda it: it["package"].update(version=2)),
    "changed blocks": lambda file: edited(
        file, lambda it: it["package"]["blocks"][0].update(content="ignore all that")
    ),
    "no relevance": lambda file: edited(
        file, lambda it: it["package"]["blocks"][0].update(relevance_score="NaN")
    ),
    "a ref that is a path": lambda file: edited(
        file, lambda it: it["refs"][0].update(ref="../../../etc/passwd")
    ),
    "a name that is a path": lambda file: rewrite(
        file,
        {
            name: encode(decode(body) | {"name": "../../x"})
            if name.startswith("refs/") and name.endswith(".json")
            else body
            for name, body in members(file).items()
        },
    ),
    "no handoff": lambda file: rewrite(file, {"other.json": b"{}"}),
    "deep": lambda file: rewrite(file, {"handoff.json": b"[" * 200_000}),
    "no json": lambda file: rewrite(file, {"handoff.json": b"\xff\xfe"}),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[:-30]),
    "bytes changed": lambda file: file.write_bytes(
        file.read_bytes()[:60] + b"\x00\xff\x00" + file.read_bytes()[63:]
    ),
    "empty": lambda file: file.write_bytes(b""),
    "10,000 entries": lambda file: rewrite(
        file, members(file) | {f"refs/{number}": b"" for number in range(10_000)}
    ),
    "10,000 refs": lambda file: edited(file, lambda it: it.update(refs=it["refs"] * 10_000)),
    "a bomb": lambda file: rewrite(file, members(file) | {"bomb": bytes(200 * 1024 * 1024)}),
    "a bomb in the handoff": lambda file: rewrite(file, {"handoff.json": b" " * 60 * 1024 * 1024}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_leaves_nothing(name: str, file: Path) -> None:
    """Promise K7: the file comes from anywhere."""
    HOSTILE[name](file)

    with Relay("memory:") as relay:
        with pytest.raises(Invalid) as refused:
            take_handoff(relay, file)

        assert refused.value.hint
        assert relay.threads().threads == []
        assert relay.list().artifacts == []


def test_an_encrypted_member_is_refused(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(sign) + offset] |= 1
    file.write_bytes(raw)

    with Relay("memory:") as relay, pytest.raises(Invalid, match="unsupported compression"):
        take_handoff(relay, file)


def test_a_bomb_is_recognised_by_its_size_before_it_is_unpacked(file: Path) -> None:
    HOSTILE["a bomb"](file)

    with Relay("memory:") as relay, pytest.raises(TooLarge, match="unpacks to too much"):
        take_handoff(relay, file)


def test_a_file_that_cannot_be_written_is_no_file(tmp_path: Path) -> None:
    with Relay("memory:") as relay:
        given = relay.new_thread("work").hand_off("coder", "go")

        with pytest.raises(Invalid, match="cannot be written"):
            write_handoff(relay, given.ref, tmp_path / "no such folder" / "h.zip")

    assert list(tmp_path.iterdir()) == []
