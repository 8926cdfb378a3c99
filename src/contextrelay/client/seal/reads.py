"""Inspection of sealed bodies in the client, with the key from the URL.

A verb that inspects a body is normally sent to the server. If its ref is a URL with a key, the body
is pulled and decrypted here, and the same code inspects it.

Rule: the server learns nothing about a sealed body: no key, no query, no answer.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec import convert

from contextrelay.client.flow import Flow, InThread, collected
from contextrelay.client.seal.pull import open_sealed
from contextrelay.limits import GREP_ONE_S_MAX
from contextrelay.model.artifact import Artifact
from contextrelay.seal.keys import SealKey
from contextrelay.verbs import DiffRefs, Digest, Grep, Outline, Peek, Pull, Slice, Verb

Bodies = dict[str, tuple[Artifact, bytes, bool]]
"""For each field of a verb that contains a ref: the artifact, the body, and whether it was sealed.
"""

_REFS = ("ref", "old", "new")


def look_inside(verb: Verb[Any], keys: dict[str, SealKey]) -> Flow[Any]:
    """Pull the bodies of a verb, decrypt them with their keys, and answer the verb here."""
    bodies: Bodies = {}
    for name in _REFS:
        if (ref := getattr(verb, name, None)) is None:
            continue
        artifact: Artifact = yield Peek(ref, shown_chars=0)
        if name in keys:
            body = b"".join((yield from collected(open_sealed(Pull(ref), keys[name], artifact))))
        else:
            body = yield (yield Pull(ref))
        bodies[name] = artifact, body, name in keys
    return (yield InThread(lambda: _looked(verb, bodies)))


def _looked(verb: Verb[Any], bodies: Bodies) -> Any:
    """Return the answer to a verb, computed from pulled bodies (bounded/bodies.py)."""
    if isinstance(verb, Slice):
        from contextrelay.bounded.bodies import slice_within_bounds
        from contextrelay.content.slicing.slice import selector_of, slice_request
        from contextrelay.content.slicing.source import memory_reader

        _, body, _ = bodies["ref"]
        source = _source(*bodies["ref"])
        asked = slice_request(source, selector_of(verb, verb.columns), verb.tokens_max)
        return slice_within_bounds(asked, memory_reader(body))
    if isinstance(verb, Grep):
        from contextrelay.bounded.bodies import records_within_bounds
        from contextrelay.content.grep.results import GrepQuery, grep_bodies

        wanted = convert(verb, GrepQuery, from_attributes=True)
        until_s = time.monotonic() + GREP_ONE_S_MAX
        return grep_bodies(
            [_source(*bodies["ref"])],
            wanted,
            lambda: time.monotonic() > until_s,
            is_one=True,
            by_records=records_within_bounds,
        )
    if isinstance(verb, DiffRefs):
        from contextrelay.bounded.bodies import diff_within_bounds
        from contextrelay.content.diff import diff_bodies

        old, new = _source(*bodies["old"]), _source(*bodies["new"])
        return diff_bodies(old, new, verb.context, verb.tokens_max, diff_within_bounds)
    assert isinstance(verb, Outline | Digest)
    return _outlined(verb, bodies["ref"][0], bodies["ref"][1])


def _outlined(verb: Outline | Digest, artifact: Artifact, body: bytes) -> Any:
    from contextrelay.bounded.bodies import overview_within_bounds
    from contextrelay.content.overview import OutlineRequest, digested, outlined
    from contextrelay.content.slicing.source import memory_reader

    asked = OutlineRequest(
        type=artifact.type,
        media_type=artifact.media_type,
        name=artifact.name or "",
        size_bytes=len(body),
        outline_tokens=verb.tokens_max if isinstance(verb, Outline) else None,
        digest_tokens=verb.tokens_max if isinstance(verb, Digest) else None,
    )
    seen, _ = overview_within_bounds(asked, memory_reader(body))
    assert seen.cached is not None
    if seen.outline is not None:
        return outlined(artifact, seen.cached, seen.outline, seen.note)
    assert seen.digest is not None
    return digested(artifact, seen.cached, seen.digest, seen.note)


def _source(artifact: Artifact, body: bytes, was_sealed: bool) -> Any:
    """Return a pulled body as a source, with the description that a store would give it."""
    from contextrelay.content.description import Description
    from contextrelay.content.slicing.source import SliceSource, find_marks, memory_reader

    description = Description()
    description.feed(body)
    read = memory_reader(body)
    return SliceSource(
        ref=artifact.ref,
        type=artifact.type,
        media_type=artifact.media_type,
        name=artifact.name,
        is_text=description.is_text,
        size_bytes=len(body),
        read=read,
        marks=lambda: find_marks(read(0, len(body)), len(body)),
        line_count=description.line_count if description.is_text else None,
        sha256=description.sha256,
        notes=("it was sealed: decrypted and inspected in the client",) if was_sealed else (),
    )
