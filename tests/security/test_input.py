"""Bad input: a clear error with the next step, and a store in which nothing has changed."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Invalid, NotFound, Relay, RelayError, Settings, TooLarge
from contextrelay.core.schema import walk_logs
from contextrelay.limits import (
    BODY_BYTES_MAX,
    METADATA_BYTES_MAX,
    PUSH_MANY_ITEMS_MAX,
    SOURCE_REFS_MAX,
)
from contextrelay.verbs import Push, PushMany

ABSENT = "00000000-0000-4000-8000-000000000000"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One store for all: nothing here may change it."""
    with Relay(tmp_path_factory.mktemp("input") / "store") as relay:
        relay.push(b"what was there before", name="before.txt", ttl_s=None)
        relay.push(bytes(100_000), ttl_s=None)
        yield relay


def all_there_is(relay: Relay) -> object:
    """Everything in the ledger and every blob, to compare."""
    relay.savings()  # Writes the counts of earlier reads, which a timer would write in between.
    stores = relay.transport.stores
    ledger = stores.ledger
    logs = {
        log: (
            ledger.read(log, 0, 1_000),
            [ledger.rows(log, kind, "", 1_000) for kind in ledger.kinds(log)],
        )
        for log in walk_logs(ledger, "")
    }
    assert stores.engine.home is not None
    files = sorted(path.name for path in (stores.engine.home / "blobs").iterdir())
    return relay.survey(), logs, files


@contextmanager
def refused(relay: Relay, *kinds: type[RelayError]) -> Generator[None]:
    """The block has to end with such an error, a next step, and nothing changed."""
    before = all_there_is(relay)
    with pytest.raises(kinds or (Invalid,)) as caught:
        yield
    assert caught.value.message
    assert caught.value.hint
    assert len(str(caught.value)) < 1_000, "an error must not repeat a large input"
    assert str(caught.value).encode(), "an error has to be printable"
    assert all_there_is(relay) == before


# Bodies


def test_a_body_over_the_limit_is_refused(relay: Relay) -> None:
    """Promise R8."""
    with refused(relay, TooLarge):
        relay.push(bytes(BODY_BYTES_MAX + 1))


def test_a_stream_over_the_limit_is_refused_without_reading_on(relay: Relay) -> None:
    """Promise R8. A hundred times the limit is offered; one chunk more than the limit is taken."""
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(100 * BODY_BYTES_MAX // MIB):
            taken += 1
            yield bytes(MIB)

    with refused(relay, TooLarge):
        relay.push(chunks())

    assert taken == BODY_BYTES_MAX // MIB + 1


def test_an_endless_first_chunk_is_refused(relay: Relay) -> None:
    """Promise R8. The first chunk goes another way than the others."""
    with refused(relay, TooLarge):
        relay.push(iter([bytes(BODY_BYTES_MAX + 1)]))


def test_a_body_at_the_limit_is_taken(tmp_path: Path) -> None:
    """Promise R8."""
    with Relay(tmp_path, settings=Settings(body_bytes_max=100_000)) as relay:
        assert relay.peek(relay.push(bytes(100_000)).ref).size_bytes == 100_000
        with refused(relay, TooLarge):
            relay.push(bytes(100_001))
        with refused(relay, TooLarge):
            relay.push(iter([bytes(60_000), bytes(40_001)]))


def test_a_stream_that_fails_leaves_nothing(relay: Relay) -> None:
    def chunks() -> Iterator[bytes]:
        yield bytes(100_000)
        raise ConnectionResetError("the sender went away")

    before = all_there_is(relay)
    with pytest.raises(ConnectionResetError):
        relay.push(chunks())

    assert all_there_is(relay) == before


def test_text_that_is_no_unicode_is_refused(relay: Relay) -> None:
    with refused(relay):
        relay.push("a lone \ud800 surrogate")


# What describes a body

BAD_NAMES = {
    "empty": "",
    "blank": "  ",
    "nul": "a\0b",
    "newline": "a\nb",
    "escape": "a\x1b[2Jb",
    "c1 control": "a\x9bb",
    "right-to-left": "a\u202etxt.exe",
    "surrogate": "a\udc80b",
    "parent": "..",
    "here": ".",
    "slash": "a/b",
    "escapes": "../../etc/passwd",
    "backslash": "..\\a",
    "long": "a" * 256,
    "very long": "a" * 1_000_000,
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_name_is_refused(relay: Relay, name: str) -> None:
    """Promises Z3 and Z4."""
    with refused(relay):
        relay.push(b"x", name=name)


@pytest.mark.parametrize("label", [" ", "a\0b", "a\nb", "a\ud800", "a" * 129])
@pytest.mark.parametrize("field", ["created_by", "capability"])
def test_a_bad_label_is_refused(relay: Relay, field: str, label: str) -> None:
    """Promise Z3."""
    options: dict[str, Any] = {field: label}
    with refused(relay):
        relay.push(b"x", **options)


@pytest.mark.parametrize(
    "media_type",
    ["", "a/b/c", "a/" + "b" * 200],
)
def test_a_bad_media_type_is_refused(relay: Relay, media_type: str) -> None:
    """Promise Z3. It goes into an HTTP header one day."""
    with refused(relay):
        relay.push(b"x", media_type=media_type)


@pytest.mark.parametrize(
    "ttl_s",
    [0, 2**63, False, float("inf")],
)
def test_a_bad_ttl_is_refused(relay: Relay, ttl_s: Any) -> None:
    """Promises R6 and Z3."""
    ref = relay.list().artifacts[0].ref
    with refused(relay):
        relay.push(b"x", ttl_s=ttl_s)
    with refused(relay):
        relay.extend(ref, ttl_s)


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def bomb() -> dict[str, Any]:
    """A small value that is 10^24 values when it is written out."""
    value: Any = "x"
    for _ in range(24):
        value = [value] * 10
    return {"bomb": value}


BAD_METADATA: dict[str, Any] = {
    "list": [],
    "text": "a",
    "pairs": [("a", 1)],
    "too many": {str(number): number for number in range(METADATA_BYTES_MAX)},
    "much too deep": nested(100_000),
    "bomb": bomb(),
    "infinity": {"a": [float("-inf")]},
    "none as key": {None: "a"},
    "surrogate in a key": {"\ud800": "a"},
    "object": {"a": object()},
    "huge integer": {"a": 2**200},
}


@pytest.mark.parametrize("metadata", BAD_METADATA.values(), ids=BAD_METADATA)
def test_bad_metadata_is_refused(relay: Relay, metadata: Any) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.push(b"x", metadata=metadata)


def test_metadata_at_the_limits_comes_back_as_it_was(tmp_path: Path) -> None:
    """Promise Z3."""
    with Relay(tmp_path) as relay:
        for metadata in (nested(63), {"a": "x" * (METADATA_BYTES_MAX - 8)}, {"": "\0\x1b"}):
            assert relay.peek(relay.push(b"x", metadata=metadata).ref).metadata == metadata


# Refs

BAD_REFS = {
    "empty": "",
    "upper case": "0000000A-0000-4000-8000-00000000000A",
    "version 1": str(uuid.UUID(int=1, version=1)),
    "variant": "00000000-0000-4000-c000-000000000000",
    "no dashes": ABSENT.replace("-", ""),
    "spaces": f" {ABSENT[1:]}",
    "spaces around": f" {ABSENT} ",
    "newline": f"{ABSENT}\n",
    "nul": f"{ABSENT[:-1]}\0",
    "nul behind": f"{ABSENT}\0",
    "path": "../" + ABSENT[3:],
    "escape": "../../../../etc/passwd",
    "braces": "{" + ABSENT + "}",
    "full width digits": ABSENT.replace("0", "０"),
    "surrogate": "\ud800" * 36,
    "very long": "0" * 10_000_000,
    "url": "https://example.com/pull/",
    "like": "%" * 36,
}


@pytest.mark.parametrize("ref", BAD_REFS.values(), ids=BAD_REFS)
def test_a_ref_of_the_wrong_form_is_refused(relay: Relay, ref: str) -> None:
    """Promises Z3 and Z4."""
    for act in (relay.peek, relay.pull, relay.pin, relay.remove, relay.lineage):
        with refused(relay):
            act(ref)
    with refused(relay):
        relay.extend(ref, 60)
    with refused(relay, Invalid, NotFound):
        relay.push(b"x", source_refs=(ref,))


@pytest.mark.parametrize("ref", [None, 7, b"bytes", [ABSENT], {"ref": ABSENT}])
def test_a_ref_that_is_no_text_is_refused(relay: Relay, ref: Any) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.peek(ref)


def test_sources_that_are_too_many_or_unknown_are_refused(relay: Relay) -> None:
    """Promise Z3."""
    ref = relay.list().artifacts[0].ref
    with refused(relay):
        relay.push(b"x", source_refs=(ref,) * (SOURCE_REFS_MAX + 1))
    with refused(relay, NotFound):
        relay.push(b"x", source_refs=(ref, ABSENT))
    with refused(relay, NotFound):
        relay.push(bytes(100_001), source_refs=(ABSENT,))


# Ranges, lists, many


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (0, -1), (True, None), (0.5, None)])
def test_a_bad_range_is_refused(relay: Relay, start: Any, stop: Any) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.pull(relay.list().artifacts[0].ref, start, stop)


@pytest.mark.parametrize("limit", [0, 2**70, "20"])
def test_a_bad_limit_of_a_list_is_refused(relay: Relay, limit: Any) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.list(limit=limit)


@pytest.mark.parametrize(
    "after",
    [
        "x" * 101,
        "junk",
        "|",
        "i/a/|",
        "i/a/99999|x",
        "b/0|hold",
        "\0",
        "a\0|b\0",
        "\ud800",
        "i/a/\ud800|",
        "../..|..",
    ],
)
def test_a_bad_place_in_a_list_is_refused_or_leads_nowhere(relay: Relay, after: str) -> None:
    """Promises Z3 and Z4. A place is opaque: nobody has to understand it, only survive it."""
    before = all_there_is(relay)
    known = {artifact.ref for artifact in relay.list().artifacts}
    with suppress(Invalid):
        assert {artifact.ref for artifact in relay.list(after=after).artifacts} <= known
    assert all_there_is(relay) == before


def test_too_many_items_are_refused(relay: Relay) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.push_many(b"x" for _ in range(PUSH_MANY_ITEMS_MAX + 1))


@pytest.mark.parametrize(
    ("count", "sizes", "bodies"),
    [
        (2, [1], [b"a"]),
        (1, [1, 1], [b"ab"]),
        (2, [1, 2], [b"ab"]),
        (1, [5], []),
        (2, [1, 1], [b"abc"]),
        (2, [1, 1], [b"ab", b"c"]),
        (0, [], [b"a"]),
        (1, [2**80], [b"a"]),
    ],
    ids=[
        "a size too few",
        "a size too many",
        "bodies too short",
        "no bodies",
        "bodies too long",
        "a chunk too many",
        "a body for nothing",
        "a size beyond all bounds",
    ],
)
def test_sizes_that_do_not_match_are_refused(
    relay: Relay, count: int, sizes: list[int], bodies: list[bytes]
) -> None:
    """Promise Z3."""
    with refused(relay):
        relay.transport.ask(PushMany([Push()] * count, sizes), iter(bodies))


def test_one_of_many_that_is_too_large_is_refused_before_it_is_read(relay: Relay) -> None:
    """Promise R8. The sizes are told first: there is no need to gather 50 MiB to know."""
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(MIB)

    with refused(relay, TooLarge):
        relay.transport.ask(PushMany([Push()], [BODY_BYTES_MAX + 1]), chunks())

    assert taken <= 1


def test_one_bad_item_of_many_stores_none(relay: Relay) -> None:
    with refused(relay):
        relay.push_many([b"one", (b"two", {"name": "../two"}), b"three"])
    with refused(relay):
        relay.push_many([b"one", (b"two", {"ttl_s": 0})])
    with refused(relay):
        relay.push_many(_streams())


def _streams() -> Iterable[Any]:
    return [iter([b"a stream"])]
