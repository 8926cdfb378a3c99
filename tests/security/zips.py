"""Zips made to order: a real export taken apart, changed, and put together again, or lied about."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import ValidationError, convert
from msgspec.structs import replace

from contextrelay import Relay, RelayError
from contextrelay.model.thread import Event
from contextrelay.state import event_chain

Parts = dict[str, bytes]
Document = dict[str, Any]

LARGE = Random(7).randbytes(60_000)
ELSEWHERE = "00000000-0000-4000-8000-000000000000"


def taken_apart(content: bytes) -> Parts:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def put_together(parts: Parts, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped(parts.items(), method)


def zipped(
    pairs: Iterable[tuple[str | zipfile.ZipInfo, bytes]], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """A zip of these entries, also if a name is there twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, text in pairs:
            file.writestr(name, text)
    return out.getvalue()


def changed(parts: Parts, name: str, change: Callable[[Document], object]) -> Parts:
    """The parts with a JSON entry changed in place."""
    document = json.loads(parts[name])
    change(document)
    return {**parts, name: json.dumps(document).encode()}


def events_in(parts: Parts) -> list[Document]:
    return [json.loads(line) for line in parts["events.jsonl"].splitlines()]


def with_events(parts: Parts, events: list[Document], is_honest: bool = False) -> Parts:
    """The parts with another history, its chain and counts made to fit, so that only it is odd.

    `is_honest`: the manifest goes on to tell of the old one.
    """
    answer: list[bytes] = []
    last = b""
    for each in events:
        with suppress(ValidationError):  # What is no event has no hash that could fit.
            last = event_chain.encode(replace(convert(each, Event), hash=""), last)
        digest = last[: event_chain.HASH_BYTES].hex()
        answer.append(json.dumps({**each, "hash": digest}).encode() + b"\n")
    version = sum(each["type"].startswith("state.") for each in events)

    def count(manifest: Document) -> None:
        manifest.update({} if is_honest else {"events": len(events), "version": version})

    return {**changed(parts, "manifest.json", count), "events.jsonl": b"".join(answer)}


# Where fields are: in the directory's header of an entry, and in the local one.
_FIELDS = {
    "flags": ("<H", 8, 6),
    "method": ("<H", 10, 8),
    "compress_size": ("<L", 20, 18),
    "file_size": ("<L", 24, 22),
}
_END_BYTES = 22


def lied_about(content: bytes, name: str, **fields: int) -> bytes:
    """The zip with other fields in both headers of an entry."""
    out = bytearray(content)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        local = file.getinfo(name).header_offset
        start = file.start_dir
    while content[start + 46 : start + 46 + len(name)] != name.encode():
        name_bytes, extra_bytes, comment_bytes = struct.unpack_from("<HHH", out, start + 28)
        start += 46 + name_bytes + extra_bytes + comment_bytes
    for field, value in fields.items():
        kind, in_directory, in_local = _FIELDS[field]
        struct.pack_into(kind, out, start + in_directory, value)
        struct.pack_into(kind, out, local + in_local, value)
    return bytes(out)


def with_directory_of(content: bytes, size_bytes: int) -> bytes:
    """The zip with another announced size of its directory."""
    out = bytearray(content)
    struct.pack_into("<L", out, len(out) - _END_BYTES + 12, size_bytes)
    return bytes(out)


def all_in(relay: Relay) -> dict[str, object]:
    """Everything that a store holds: facts, rows and blobs."""
    stores = relay.transport.stores
    ledger = stores.ledger
    held: dict[str, object] = {
        log: (
            [fact.body for fact in ledger.read(log, 0, 1_000)],
            [ledger.rows(log, kind, "", 1_000) for kind in ledger.kinds(log)],
        )
        for log in ledger.logs("", "", 1_000)
    }
    held["blobs"] = sorted(blob.name for blob in stores.blobs.walk())
    return held


def check_refused(relay: Relay, folder: Path, content: bytes) -> RelayError:
    """Importing this fails with an error of ours, and nothing is stored, here or elsewhere."""
    file = folder / "hostile.zip"
    file.write_bytes(content)
    before = all_in(relay)

    with pytest.raises(RelayError) as refused:
        relay.import_thread(file)

    assert refused.value.hint
    assert all_in(relay) == before
    assert list(home_of(relay).glob("**/*.draft")) == []
    assert files_in(folder) == {"hostile.zip"}
    return refused.value


def home_of(relay: Relay) -> Path:
    home = relay.transport.stores.engine.home
    assert home is not None
    return home


def refs_in(parts: Parts) -> list[str]:
    return json.loads(parts["manifest.json"])["artifacts"]


def set_to(field: str, value: object) -> Callable[[Document], object]:
    """What sets a field of a document."""
    return lambda document: document.update({field: value})


def peak_bytes(act: Callable[[], object]) -> int:
    """The most that Python had in use while it did something."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
