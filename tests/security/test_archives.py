"""Hostile archives: whatever is in the zip, a clear error, and the store is as it was before."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contextrelay import Relay, RelayError, Settings
from contextrelay.core.transfer import ARCHIVE_ENTRIES_MAX
from contextrelay.limits import MIB
from tests.security.zips import (
    ELSEWHERE,
    LARGE,
    Document,
    Parts,
    all_in,
    changed,
    check_refused,
    events_in,
    home_of,
    lied_about,
    peak_bytes,
    put_together,
    refs_in,
    set_to,
    with_directory_of,
    with_events,
    zipped,
)


def test_what_is_changed_below_is_otherwise_fine(parts: Parts, store: Relay) -> None:
    """Promise T10. Taken apart, rewritten and put together, it is an archive still."""
    again = with_events(parts, events_in(parts))
    again = changed(again, f"artifacts/{refs_in(parts)[0]}.json", lambda answer: None)
    file = home_of(store).parent / "fine.zip"
    file.write_bytes(put_together(again))
    with Relay("memory:") as relay:
        thread = relay.import_thread(file)

        assert thread.show().version == 4
        assert relay.verify().problems == []
    file.unlink()


# Cut and changed


def places(size_bytes: int) -> Iterator[int]:
    chance = Random(3)
    yield from (0, 1, 3, 4, 30, size_bytes - 23, size_bytes - 22, size_bytes - 2, size_bytes - 1)
    yield from (chance.randrange(size_bytes) for _ in range(60))


def test_an_archive_cut_anywhere_is_refused(exported: bytes, store: Relay, tmp_path: Path) -> None:
    """Promise Z3."""
    for place in places(len(exported)):
        check_refused(store, tmp_path, exported[:place])


def test_an_archive_without_its_beginning_is_refused(
    exported: bytes, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3."""
    for place in (1, 30, 500, len(exported) // 2):
        check_refused(store, tmp_path, exported[place:])


def test_flipped_bytes_are_refused_or_change_nothing(exported: bytes, tmp_path: Path) -> None:
    """Promise T10. What is taken in spite of it is what was exported, to the byte."""
    refused: list[RelayError] = []
    file = tmp_path / "flipped.zip"
    for seed in range(250):
        chance = Random(seed)
        content = bytearray(exported)
        # Most of it is the one large body; look at the rest of it more often.
        start = 0 if seed % 5 == 0 else len(LARGE)
        content[chance.randrange(start, len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
        with Relay("memory:") as relay:
            before = all_in(relay)
            try:
                thread = relay.import_thread(file)
            except RelayError as error:
                refused.append(error)
                thread = None
            if thread is None:
                assert all_in(relay) == before
                continue
            assert thread.state()["facts"][0]["value"] == {"deep": [1, 2.5, None]}
            bodies = {relay.pull(each.ref) for each in thread.artifacts()}
            assert bodies == {LARGE, b"# Sum"}
    assert len(refused) > 150
    assert all(error.hint for error in refused)


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", bytes(10_000), b"PK\x03\x04" * 500, b"PK\x05\x06" + bytes(18), b"\xff" * 5_000],
    ids=["empty", "short", "zeros", "headers", "an empty zip", "ones"],
)
def test_junk_is_refused(store: Relay, tmp_path: Path, content: bytes) -> None:
    """Promise Z3."""
    check_refused(store, tmp_path, content)


@pytest.mark.parametrize("name", ["absent.zip", ".", "a\0b"])
def test_an_archive_that_cannot_be_read_is_refused(store: Relay, tmp_path: Path, name: str) -> None:
    with pytest.raises(RelayError) as refused:
        store.import_thread(f"{tmp_path}/{name}")

    assert refused.value.hint


# Names and kinds of entries


@pytest.mark.parametrize(
    "name",
    [
        "../manifest.json",
        "../../etc/passwd",
        "/etc/passwd",
        "//manifest.json",
        "./manifest.json",
        "artifacts/../../x.json",
        f"artifacts/../{ELSEWHERE}.body",
        f"artifacts\\{ELSEWHERE}.body",
        f"artifacts/{ELSEWHERE}.body/",
        f"artifacts/{ELSEWHERE.upper()[:-1]}A.body",
        f"artifacts/{ELSEWHERE}.body.exe",
        "C:\\manifest.json",
        "C:manifest.json",
        "artifacts/",
        "artifacts/con.json",
        "manifest.json ",
        "manifest.json\n",
        "MANIFEST.JSON",
        "m\u0430nifest.json",
        "a" * 60_000,
    ],
)
def test_an_entry_whose_name_leads_elsewhere_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, name: str
) -> None:
    """Promises Z3, Z4."""
    check_refused(store, tmp_path, put_together({**parts, name: b"{}"}))


def test_a_name_that_ends_early_is_refused(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise Z4. Readers of C strings see another name than others do."""
    content = put_together({**parts, "state.jsonX/../../x": b"{}"})

    check_refused(store, tmp_path, content.replace(b"state.jsonX/", b"state.json\0/"))


@pytest.mark.parametrize("kind", [0o12, 0o4, 0o6, 0o2, 0o1, 0o14])
def test_an_entry_that_is_no_plain_file_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, kind: int
) -> None:
    """Promise Z4: links, folders, devices, pipes and sockets."""
    for name in ("state.json", f"artifacts/{refs_in(parts)[0]}.body"):
        info = zipfile.ZipInfo(name)
        info.external_attr = kind << 28 | 0o777 << 16
        others = [(each, text) for each, text in parts.items() if each != name]
        check_refused(store, tmp_path, zipped([*others, (info, b"/etc/passwd")]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_there_twice_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3. Two readers could read two archives out of it."""
    for name in ("manifest.json", "events.jsonl", f"artifacts/{refs_in(parts)[1]}.body"):
        check_refused(store, tmp_path, zipped([*parts.items(), (name, parts[name])]))


def test_too_many_entries_are_refused(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise Z3. With a limit in the hint."""
    many = {f"artifacts/{number:08x}{ELSEWHERE[8:]}.body": b"" for number in range(20_001)}

    error = check_refused(store, tmp_path, put_together({**parts, **many}, zipfile.ZIP_STORED))

    assert str(ARCHIVE_ENTRIES_MAX) in error.hint


@pytest.mark.parametrize("size_bytes", [0, 45, 10 * MIB, 2**31, 2**32 - 1])
def test_a_directory_of_another_size_is_refused(
    exported: bytes, store: Relay, tmp_path: Path, size_bytes: int
) -> None:
    """Promise Z3. It is not read first, to be counted then."""
    check_refused(store, tmp_path, with_directory_of(exported, size_bytes))


def test_a_directory_in_zip64_is_refused(exported: bytes, store: Relay, tmp_path: Path) -> None:
    """Promise Z3. A second directory, of any size, that the first one says nothing of."""
    locator = b"PK\x06\x07" + bytes(16)
    check_refused(store, tmp_path, exported[:-22] + locator + exported[-22:])


# Sizes


def with_body(parts: Parts, body: bytes) -> Parts:
    """The parts with another body for the last artifact, and a description that fits."""
    name = f"artifacts/{refs_in(parts)[-1]}"
    answer = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return {
        **changed(parts, f"{name}.json", lambda each: each.update(answer)),
        f"{name}.body": body,
    }


def test_a_body_that_unpacks_to_far_more_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3: a bomb, though all it says of itself is true."""
    content = put_together(with_body(parts, bytes(20 * MIB)))

    used_bytes = peak_bytes(lambda: check_refused(store, tmp_path, content))

    assert used_bytes < 8 * MIB


@pytest.mark.parametrize("name", ["manifest.json", "thread.json", "state.json", "events.jsonl"])
def test_json_that_unpacks_to_far_more_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, name: str
) -> None:
    """Promise Z3."""
    content = put_together({**parts, name: parts[name] + b" " * 20 * MIB})

    used_bytes = peak_bytes(lambda: check_refused(store, tmp_path, content))

    assert used_bytes < 8 * MIB


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [("manifest.json", 17 * MIB), ("thread.json", MIB), ("events.jsonl", 65 * MIB)],
)
def test_json_over_its_own_limit_is_not_even_unpacked(
    parts: Parts, store: Relay, tmp_path: Path, name: str, size_bytes: int
) -> None:
    """Promise Z3. Not packed at all, so no ratio gives it away."""
    padded = {**parts, name: parts[name].rstrip() + b" " * size_bytes}
    content = put_together(padded, zipfile.ZIP_STORED)

    used_bytes = peak_bytes(lambda: check_refused(store, tmp_path, content))

    assert used_bytes < 12 * MIB


def test_a_zip_in_a_zip_is_bytes_like_any_others(parts: Parts, tmp_path: Path) -> None:
    """Promise Z3. Nobody unpacks what was pushed."""
    bomb = put_together({"bomb": bytes(50 * MIB)})
    (tmp_path / "t.zip").write_bytes(put_together(with_body(parts, bomb)))
    with Relay("memory:") as relay:
        thread = relay.import_thread(tmp_path / "t.zip")

        assert bomb in {relay.pull(each.ref) for each in thread.artifacts()}


@pytest.mark.parametrize("file_size", [0, 1, 59_999, 60_001, 100_000])
def test_a_body_of_another_size_than_announced_is_refused(
    exported: bytes, parts: Parts, store: Relay, tmp_path: Path, file_size: int
) -> None:
    """Promise Z3. Smaller and larger, and whether or not its description plays along."""
    name = f"artifacts/{refs_in(parts)[0]}"
    fitting = changed(parts, f"{name}.json", lambda answer: answer.update(size=file_size))
    for content in (exported, put_together(fitting), put_together(fitting, zipfile.ZIP_STORED)):
        check_refused(store, tmp_path, lied_about(content, f"{name}.body", file_size=file_size))


@pytest.mark.parametrize("name", ["manifest.json", "thread.json", "events.jsonl"])
def test_json_of_another_size_than_announced_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, name: str
) -> None:
    """Promise Z3."""
    content = put_together(parts)
    for file_size in (0, len(parts[name]) - 1, len(parts[name]) + 1):
        check_refused(store, tmp_path, lied_about(content, name, file_size=file_size))


@pytest.mark.parametrize("size_bytes", [2**30, 2**31, 2**32 - 2])
def test_a_huge_announced_size_is_refused_without_taking_room(
    exported: bytes, parts: Parts, store: Relay, tmp_path: Path, size_bytes: int
) -> None:
    """Promise Z3. Also where the packed size is a lie too, so that the ratio looks fine."""
    for name in ("events.jsonl", f"artifacts/{refs_in(parts)[0]}.body"):
        for fields in ({}, {"compress_size": size_bytes // 2}):
            content = lied_about(exported, name, file_size=size_bytes, **fields)
            used_bytes = peak_bytes(lambda each=content: check_refused(store, tmp_path, each))
            assert used_bytes < 8 * MIB


def test_a_body_over_the_limit_of_the_store_is_refused(parts: Parts, tmp_path: Path) -> None:
    """Promise Z3. The limit of the store that takes it, not of the one that gave it."""
    small = Settings(body_bytes_max=50_000)
    with Relay(tmp_path / "store", settings=small) as relay:
        (tmp_path / "in").mkdir()
        error = check_refused(relay, tmp_path / "in", put_together(parts))

    assert error.code == "too_large"
    assert "50000" in error.message


@pytest.mark.parametrize("fields", [{"flags": 1}, {"method": 12}, {"method": 14}, {"method": 99}])
def test_an_entry_packed_in_another_way_is_refused(
    exported: bytes, parts: Parts, store: Relay, tmp_path: Path, fields: dict[str, int]
) -> None:
    """Promise Z3: encrypted, bzip2, lzma, unknown."""
    for name in ("manifest.json", f"artifacts/{refs_in(parts)[0]}.body"):
        check_refused(store, tmp_path, lied_about(exported, name, **fields))


# What has to be there


def test_an_archive_that_lacks_a_part_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise T10. Only state.json, which is for people, may be missing."""
    for name in parts.keys() - {"state.json"}:
        rest = {each: text for each, text in parts.items() if each != name}
        check_refused(store, tmp_path, put_together(rest))


def test_an_artifact_that_the_manifest_does_not_list_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3."""
    more = {f"artifacts/{ELSEWHERE}.json": b"{}", f"artifacts/{ELSEWHERE}.body": b""}
    check_refused(store, tmp_path, put_together({**parts, **more}))


BAD_MANIFESTS: dict[str, tuple[str, object]] = {
    "another format": ("format", "contextrelay.thread.v2"),
    "no text as a format": ("format", 7),
    "no thread": ("thread_id", "x"),
    "another thread": ("thread_id", ELSEWHERE),
    "version 0": ("version", 0),
    "a version too many": ("version", 5),
    "a version too few": ("version", 3),
    "half a version": ("version", 4.5),
    "an event too many": ("events", 999),
    "negative events": ("events", -1),
    "no artifacts": ("artifacts", []),
    "artifacts that are not there": ("artifacts", [ELSEWHERE]),
    "a path as an artifact": ("artifacts", ["../../x"]),
    "a number as an artifact": ("artifacts", [7]),
    "nothing as artifacts": ("artifacts", None),
    "a path as one that is gone": ("gone", ["../../x"]),
}


@pytest.mark.parametrize(("field", "value"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_a_manifest_that_does_not_fit_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, field: str, value: object
) -> None:
    """Promise T10."""
    answer = changed(parts, "manifest.json", set_to(field, value))
    check_refused(store, tmp_path, put_together(answer))


def test_an_artifact_that_is_listed_twice_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise T10."""
    answer = changed(
        parts, "manifest.json", lambda each: each["artifacts"].append(refs_in(parts)[0])
    )
    check_refused(store, tmp_path, put_together(answer))


@pytest.mark.parametrize("name", ["x" * 500, "a\nb", "\x1b[2J", 7])
def test_a_thread_whose_name_is_none_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, name: object
) -> None:
    """Promise Z3."""
    answer = changed(parts, "thread.json", set_to("name", name))
    check_refused(store, tmp_path, put_together(answer))


BAD_ARTIFACTS: dict[str, tuple[str, Any]] = {
    "another ref": ("ref", ELSEWHERE),
    "no ref": ("ref", "../../x"),
    "a negative size": ("size", -1),
    "another size": ("size", 59_999),
    "another hash": ("sha256", "0" * 64),
    "a path as a hash": ("sha256", "../../x"),
    "an unknown type": ("type", "program"),
    "a number as a type": ("type", 7),
    "a path as a name": ("name", "../../x"),
    "a long name": ("name", "x" * 256),
    "no media type": ("media_type", "text"),
    "a list as metadata": ("metadata", []),
    "much metadata": ("metadata", {"a": "x" * 70_000}),
    "a time that is none": ("created_at", "yesterday"),
    "an author that is none": (
        "provenance",
        {"created_by": "\x1b[2J", "created_at": "2026-01-01T00:00:00Z"},
    ),
}


@pytest.mark.parametrize(("field", "value"), BAD_ARTIFACTS.values(), ids=BAD_ARTIFACTS)
def test_an_artifact_described_wrongly_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, field: str, value: object
) -> None:
    """Promise T10."""
    name = f"artifacts/{refs_in(parts)[0]}.json"
    answer = changed(parts, name, set_to(field, value))
    check_refused(store, tmp_path, put_together(answer))


def test_a_body_that_does_not_fit_its_hash_is_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise T10."""
    for ref in refs_in(parts):
        name = f"artifacts/{ref}.body"
        other = bytes([parts[name][0] ^ 1]) + parts[name][1:]
        error = check_refused(store, tmp_path, put_together({**parts, name: other}))
        assert ref in error.message


def test_artifacts_made_from_each_other_are_refused(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise T10."""
    first, second = refs_in(parts)

    def made_from_it(answer: Document) -> None:
        answer["provenance"]["source_refs"] = [second]

    answer = changed(parts, f"artifacts/{first}.json", made_from_it)
    check_refused(store, tmp_path, put_together(answer))


# Strict JSON

BAD_TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "junk": b"{",
    "no object": b"[]",
    "no utf-8": b'{"format": "\xc3\x28"}',
    "utf-16": '{"format": "x"}'.encode("utf-16"),
    "not a number": b'{"format": NaN}',
    "infinity": b'{"format": -Infinity}',
    "half a character": b'{"format": "\\ud800"}',
    "deep": b'{"format": ' + b"[" * 100_000,
    "long digits": b'{"version": ' + b"9" * 5_000 + b"}",
    "twice": b'{"format": "contextrelay.thread.v1", "format": "x"}',
}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
@pytest.mark.parametrize("where", ["manifest.json", "thread.json", "events.jsonl", "artifact"])
def test_bad_json_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, text: bytes, where: str
) -> None:
    """Promise Z3."""
    name = f"artifacts/{refs_in(parts)[0]}.json" if where == "artifact" else where
    line = text + b"\n" if where == "events.jsonl" else text
    check_refused(store, tmp_path, put_together({**parts, name: line}))


@pytest.mark.parametrize("where", ["manifest.json", "thread.json", "artifact"])
def test_a_member_that_is_there_twice_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, where: str
) -> None:
    """Promise Z3. Where it is there once it would be fine: two readers, two threads."""
    name = f"artifacts/{refs_in(parts)[0]}.json" if where == "artifact" else where
    field = json.loads(parts[name]).popitem()
    text = parts[name][:-1] + f', "{field[0]}": {json.dumps(field[1])}}}'.encode()
    check_refused(store, tmp_path, put_together({**parts, name: text}))


def test_a_refused_archive_does_not_stand_in_the_way_of_a_good_one(
    exported: bytes, parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """The same bytes, once changed and once as they are."""
    name = f"artifacts/{refs_in(parts)[0]}.body"
    check_refused(store, tmp_path, put_together({**parts, name: b"other"}))
    (tmp_path / "good.zip").write_bytes(exported)

    thread = store.import_thread(tmp_path / "good.zip")

    assert store.pull(thread.state()["artifacts"][0]["ref"]) == LARGE
    thread.remove()
