"""Hostile histories: events that no thread can have are refused, and nothing of them is stored."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from contextrelay import Relay
from contextrelay.limits import ARCHIVE_HISTORY_BYTES_MAX, MIB
from tests.security.zips import (
    ELSEWHERE,
    LARGE,
    Document,
    Parts,
    changed,
    check_refused,
    events_in,
    peak_bytes,
    put_together,
    refs_in,
    set_to,
    with_events,
)


def test_a_million_empty_lines_are_refused_at_the_first(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z3."""
    lines = parts["events.jsonl"] + b"\n" * 1_000_000
    for answer in (lines, b"\n" * 1_000_000):
        content = put_together({**parts, "events.jsonl": answer}, zipfile.ZIP_STORED)
        used_bytes = peak_bytes(lambda each=content: check_refused(store, tmp_path, each))
        assert used_bytes < 40 * MIB


def test_an_event_that_was_edited_is_refused(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise T8. The chain tells, although everything else fits."""
    text = parts["events.jsonl"]
    first, second = (ref.encode() for ref in refs_in(parts))
    swapped = text.replace(first, b"@").replace(second, first).replace(b"@", second)
    for other in (
        swapped,
        text.replace(b'"there"', b'"elsewhere"'),
        text.replace(b"2.5", b"2.6"),
        b"".join(reversed(text.splitlines(keepends=True))),
    ):
        error = check_refused(store, tmp_path, put_together({**parts, "events.jsonl": other}))
        assert "does not match its hash" in error.message


def test_a_history_cut_short_is_refused(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise T8."""
    events = events_in(parts)
    for count in range(len(events)):
        answer = with_events(parts, events[:count], is_honest=True)
        check_refused(store, tmp_path, put_together(answer))
    cut = {**parts, "events.jsonl": parts["events.jsonl"][:-1]}
    check_refused(store, tmp_path, put_together(cut))


def of_type(events: list[Document], kind: str) -> Document:
    return next(each for each in events if each["type"] == kind)


def patched(operations: object, **detail: object) -> Callable[[list[Document]], object]:
    """One more patch, which is as it should be but for what is said here."""

    def more(events: list[Document]) -> None:
        last = [each for each in events if each["type"] == "state.patch.applied"][-1]
        version = last["detail"]["version"] + 1
        answer = {**last["detail"], "version": version, "operations": operations, **detail}
        events.append({**last, "detail": answer})

    return more


def first_state(**fields: object) -> Callable[[list[Document]], object]:
    return lambda events: of_type(events, "state.created")["detail"]["state"].update(fields)


def event_field(field: str, value: object) -> Callable[[list[Document]], object]:
    return lambda events: events[0].update({field: value})


def without_first_state(events: list[Document]) -> None:
    events.remove(of_type(events, "state.created"))


def with_two_first_states(events: list[Document]) -> None:
    events.insert(2, of_type(events, "state.created"))


def with_the_first_state_last(events: list[Document]) -> None:
    created = of_type(events, "state.created")
    events.remove(created)
    events.append(created)


def with_a_late_first_state(events: list[Document]) -> None:
    events.append(of_type(events, "state.created"))


def without_state(events: list[Document]) -> None:
    of_type(events, "state.created")["detail"] = {}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def add(path: str, value: object) -> Document:
    return {"op": "add", "path": path, "value": value}


COPY_ALL = {"op": "copy", "from": "/all", "path": "/copy"}
BAD_HISTORIES: dict[str, Callable[[list[Document]], object]] = {
    "no first state": without_first_state,
    "two first states": with_two_first_states,
    "the first state last": with_the_first_state_last,
    "a first state again": with_a_late_first_state,
    "a first state without one": without_state,
    "a first state of another thread": first_state(thread_id=ELSEWHERE),
    "a first state at version 7": first_state(version=7),
    "a first state without a version": first_state(version="1"),
    "a first state of no time": first_state(updated_at="yesterday"),
    "a first state of another schema": first_state(**{"$schema": "x"}),
    "a first state with facts that are none": first_state(facts="none"),
    "a first state with bad facts": first_state(facts=[{"id": 7}]),
    "a first state without metrics": first_state(metrics={}),
    "a first state with an unknown artifact": first_state(
        artifacts=[{"ref": ELSEWHERE, "type": "text"}]
    ),
    "a first state too deep": first_state(deep=nested(65)),
    "a first state too large": first_state(large=["x" * 1_000] * 17_000),
    "an id of no text": event_field("id", 7),
    "a long id": event_field("id", "x" * 1_000),
    "an id that moves the cursor": event_field("id", "\x1b[2J"),
    "an author that moves the cursor": event_field("by", "\x1b[2J"),
    "a time without a zone": event_field("at", "2026-01-01T00:00:00"),
    "a time of no calendar": event_field("at", "2026-13-01T00:00:00Z"),
    "no detail": event_field("detail", None),
    "another thread": patched([{"op": "replace", "path": "/thread_id", "value": ELSEWHERE}]),
    "another version": patched([{"op": "replace", "path": "/version", "value": 9}]),
    "another schema": patched([{"op": "remove", "path": "/$schema"}]),
    "other metrics": patched([add("/metrics/tokens_avoided", 10**9)]),
    "another time": patched([add("/updated_at", "x")]),
    "another everything": patched([{"op": "replace", "path": "", "value": None}]),
    "metrics that are none": patched([], metrics={"tokens_avoided": "many"}),
    "no metrics": patched([], metrics=None),
    "a version left out": patched([], version=7),
    "a version again": patched([], version=4),
    "half a version": patched([], version=5.0),
    "a version of text": patched([], version="5"),
    "no operations": patched(None),
    "operations that are none": patched([7]),
    "an unknown operation": patched([{"op": "increment", "path": "/a"}]),
    "a path that is none": patched([{"op": "remove", "path": "a"}]),
    "a value that is not there": patched([{"op": "add", "path": "/a"}]),
    "a place that is not there": patched([{"op": "remove", "path": "/nowhere"}]),
    "a test that fails": patched([{"op": "test", "path": "/version", "value": 99}]),
    "facts that break the schema": patched([add("/facts/-", {"id": "x"})]),
    "facts that are none": patched([add("/facts", 7)]),
    "an unknown artifact": patched([add("/artifacts/-", {"ref": ELSEWHERE, "type": "text"})]),
    "an unknown result": patched(
        [add("/last_actions/-", {"at": "x", "description": "x", "result_ref": ELSEWHERE})]
    ),
    "a value too deep": patched([add("/deep", nested(65))]),
    "a number too large": patched([add("/large", 10**30)]),
    "copies that grow": patched(
        [add("/all", {}), *[{"op": "copy", "from": "", "path": f"/all/{n}"} for n in range(40)]]
    ),
    "copies into themselves": patched(
        [add("/all", ["x" * 1_000]), *[{"op": "copy", "from": "/all", "path": "/all/0"}] * 40]
    ),
}


@pytest.mark.parametrize("change", BAD_HISTORIES.values(), ids=BAD_HISTORIES)
def test_a_history_that_no_thread_can_have_is_refused(
    parts: Parts, store: Relay, tmp_path: Path, change: Callable[[list[Document]], object]
) -> None:
    """Promises T3, Z3. Its chain fits: whoever made it knows how."""
    events = events_in(parts)
    change(events)
    check_refused(store, tmp_path, put_together(with_events(parts, events), zipfile.ZIP_STORED))


def test_a_broken_state_in_between_is_refused(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise T5. Every version is readable, so every version has to be sound."""
    events = events_in(parts)
    patched([add("/facts", 7)])(events)
    patched([add("/facts", [])])(events)

    check_refused(store, tmp_path, put_together(with_events(parts, events)))


def test_a_history_of_copies_ends_in_time(parts: Parts, store: Relay, tmp_path: Path) -> None:
    """Promise Z3. Each patch is allowed, and cheap to tell; all of them copy gigabytes."""
    events = events_in(parts)
    patched([add("/all", ["x" * 1_000] * 7_000)])(events)
    again = [COPY_ALL, {"op": "remove", "path": "/copy"}]
    for _ in range(600):
        patched(again)(events)

    error = check_refused(store, tmp_path, put_together(with_events(parts, events)))

    assert error.code == "too_large"
    assert str(ARCHIVE_HISTORY_BYTES_MAX) in error.hint


def test_a_ref_spelled_in_another_way_is_not_taken_for_the_same(
    parts: Parts, store: Relay, tmp_path: Path
) -> None:
    """Promise Z4. As an escape it is the same text, and is renamed like any other."""
    ref = refs_in(parts)[0]
    escaped = "".join(f"\\u{ord(character):04x}" for character in ref)
    text = parts["events.jsonl"].replace(ref.encode(), escaped.encode())
    (tmp_path / "t.zip").write_bytes(put_together({**parts, "events.jsonl": text}))
    with Relay("memory:") as relay:
        thread = relay.import_thread(tmp_path / "t.zip")

        assert ref not in json.dumps(thread.state())
        assert relay.pull(thread.state()["artifacts"][0]["ref"]) == LARGE


def test_a_ref_of_this_store_that_an_archive_names_is_not_touched(
    parts: Parts, tmp_path: Path
) -> None:
    """Promise Z4. An archive may say of any ref that it is gone; that is nobody's business."""
    with Relay("memory:") as relay:
        mine = relay.push("mine", ttl_s=60)
        events = events_in(parts)
        patched([add("/artifacts/-", {"ref": mine.ref, "type": "text"})])(events)
        answer = with_events(parts, events)
        answer = changed(answer, "manifest.json", set_to("gone", [mine.ref]))
        (tmp_path / "t.zip").write_bytes(put_together(answer))

        relay.import_thread(tmp_path / "t.zip").remove()

        assert relay.peek(mine.ref) == mine
        assert relay.verify().problems == []
