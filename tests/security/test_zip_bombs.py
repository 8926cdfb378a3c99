"""Zips that say less of themselves than comes out: refused before they are unpacked, at each door.

What the one who reads them needs of memory and time is measured in a process of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import httpx2
import pytest

from contextrelay import Relay, RelayError
from contextrelay.bounded.zips import ARCHIVE_RATIO_MAX
from contextrelay.client.handoff_file import take_handoff, write_handoff
from contextrelay.limits import MIB
from tests.cli.shell import Shell
from tests.security.zips import Parts, check_refused, lied_about, put_together, refs_in
from tests.server.serving import serving

BODY = bytes(MIB)
BODIES = 40


def with_bodies(parts: Parts, body: bytes, count: int) -> Parts:
    """The archive with many more artifacts, all of the same content."""
    manifest = json.loads(parts["manifest.json"])
    described = json.loads(parts[f"artifacts/{refs_in(parts)[0]}.json"])
    described.update(size=len(body), sha256=hashlib.sha256(body).hexdigest())
    described["provenance"]["source_refs"] = []
    more = dict(parts)
    for number in range(count):
        ref = str(uuid.UUID(int=number, version=4))
        manifest["artifacts"].append(ref)
        more[f"artifacts/{ref}.json"] = json.dumps({**described, "ref": ref}).encode()
        more[f"artifacts/{ref}.body"] = body
    more["manifest.json"] = json.dumps(manifest).encode()
    return more


def overlapping(content: bytes) -> bytes:
    """Each body says that it is packed in all that is behind it in the file."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        bodies = [info for info in file.infolist() if info.file_size == len(BODY)]
        directory = file.start_dir
    for info in bodies:
        packed_bytes = directory - info.header_offset - 200
        content = lied_about(content, info.filename, compress_size=packed_bytes)
    return content


@pytest.fixture
def bomb(parts: Parts) -> bytes:
    """About 100 KB that unpack to 40 MB, with no entry that tells a ratio over the limit."""
    # Filled up, so that even the last body has enough behind it.
    filled = {**with_bodies(parts, BODY, BODIES), "state.json": bytes(20 * MIB // 100)}
    ordered = dict(sorted(filled.items(), key=lambda part: part[0] == "state.json"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in ordered.items():
            method = zipfile.ZIP_STORED if name == "state.json" else None
            file.writestr(name, text, method)
    content = overlapping(out.getvalue())
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for info in file.infolist():
            assert info.file_size <= ARCHIVE_RATIO_MAX * max(info.compress_size, 1_024)
    return content


def test_entries_that_share_bytes_are_refused(bomb: bytes, store: Relay, tmp_path: Path) -> None:
    """Promise Z3."""
    error = check_refused(store, tmp_path, bomb)

    assert "overlaps" in error.message


def test_a_packed_size_that_reaches_beyond_the_entry_is_refused(
    exported: bytes, parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3. Into the next entry, over the directory, and behind the end of the file."""
    name = f"artifacts/{refs_in(parts)[0]}.body"
    with zipfile.ZipFile(io.BytesIO(exported)) as file:
        packed_bytes = file.getinfo(name).compress_size
    # The first 16 bytes behind it still are the entry's: its checksum and sizes.
    for more in (17, 200, len(exported), 2**31):
        size = packed_bytes + more
        check_refused(store, tmp_path, lied_about(exported, name, compress_size=size))


def test_many_small_entries_are_a_bomb_too(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise Z3. Each is so small that its own ratio does not count."""
    bodies = {f"artifacts/{uuid.uuid4()}.body": bytes(200 * 1_024) for _ in range(300)}
    content = put_together({**parts, **bodies})
    assert len(content) * ARCHIVE_RATIO_MAX < 300 * 200 * 1_024

    error = check_refused(store, tmp_path, content)

    assert error.code == "too_large"


def test_what_packs_very_well_is_exported_so_that_it_can_be_imported(tmp_path: Path) -> None:
    with Relay("memory:") as relay:
        thread = relay.new_thread("zeros")
        for number in range(100):
            thread.put(bytes(150_000) + b"%d" % number, name=f"{number}")
        thread.export(tmp_path / "t.zip")

        assert len(relay.import_thread(tmp_path / "t.zip").artifacts()) == 100


# The doors

CHILD = """
import resource, sys
from contextrelay import Relay, RelayError
from tests.fuzz.measured import peak_bytes
with Relay(sys.argv[1]) as relay:
    relay.push(b"warm")
    before, peak = resource.getrusage(resource.RUSAGE_SELF), peak_bytes()
    try:
        relay.import_thread(sys.argv[2])
    except RelayError as error:
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(error.code, cpu_s, (peak_bytes() - peak) // 2**20)
"""


def test_it_takes_little_time_and_memory_to_refuse_it(bomb: bytes, tmp_path: Path) -> None:
    """Promise Z3."""
    (tmp_path / "bomb.zip").write_bytes(bomb)
    child = [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(tmp_path / "bomb.zip")]

    root = Path(__file__).parents[2]
    done = subprocess.run(child, cwd=root, capture_output=True, check=True, timeout=60)
    answer = done.stdout.split()

    assert answer[0] == b"invalid"
    assert float(answer[1]) < 1
    assert int(answer[2]) < 32


def test_http_and_the_command_line_refuse_it(bomb: bytes, tmp_path: Path) -> None:
    """Promise Z3."""
    (tmp_path / "bomb.zip").write_bytes(bomb)
    with serving(tmp_path / "served") as served, Relay(served.url) as relay:
        with pytest.raises(RelayError, match="overlaps"):
            relay.import_thread(tmp_path / "bomb.zip")
        assert httpx2.get(f"{served.url}/readyz").status_code == 200

    code, answer = Shell(tmp_path).fails("import", "bomb.zip")

    assert code == 2
    assert "overlaps" in answer


# Handoff files


@pytest.fixture
def handed(tmp_path: Path) -> Path:
    with Relay("memory:") as relay:
        thread = relay.new_thread("work")
        refs = tuple(thread.put(bytes(MIB) + b"%d" % number).ref for number in range(3))
        given = thread.hand_off("coder", "go", refs=refs)
        write_handoff(relay, given.ref, tmp_path / "handoff.zip")
    return tmp_path / "handoff.zip"


def test_what_packs_very_well_is_handed_over(handed: Path) -> None:
    with Relay("memory:") as relay:
        assert len(take_handoff(relay, handed).refs) == 3


def repacked(path: Path, method: int) -> bytes:
    with zipfile.ZipFile(path) as file:
        return put_together({info.filename: file.read(info) for info in file.infolist()}, method)


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with Relay("memory:") as relay:
        with pytest.raises(RelayError) as answer:
            take_handoff(relay, path)
        assert relay.threads().threads == []
    return answer.value.message


def test_a_handoff_file_is_read_by_the_same_rules(handed: Path) -> None:
    """Promise Z3. A packed size that is a lie, a name twice, a name that has no place in it."""
    bomb = repacked(handed, zipfile.ZIP_DEFLATED)
    content = repacked(handed, zipfile.ZIP_STORED)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        first = file.infolist()[0]
    lie = lied_about(content, first.filename, compress_size=first.compress_size + 1)

    assert "unpacks to too much" in refused(handed, bomb)
    assert "overlaps" in refused(handed, lie)
    with zipfile.ZipFile(handed, "w") as file:
        file.writestr("handoff.json", b"{}")
        file.writestr("../handoff.json", b"{}")
    assert "unexpected name" in refused(handed, handed.read_bytes())
