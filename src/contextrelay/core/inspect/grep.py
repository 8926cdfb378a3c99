"""Greps: a pattern looked for in one artifact, in those of a thread, or in all, the newest first.

Rule: a grep ends. Time and the number of artifacts have limits, and the answer says whether it got
to the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from msgspec import convert

from contextrelay.bounded.bodies import records_within_bounds
from contextrelay.content.grep.gathered import Wanted
from contextrelay.content.grep.records import Records
from contextrelay.content.grep.records import Wanted as RecordsWanted
from contextrelay.content.grep.results import find
from contextrelay.content.slicing.source import Source
from contextrelay.core.artifacts.catalog import entries
from contextrelay.core.artifacts.holds import listed
from contextrelay.core.artifacts.records import find_readable, is_over
from contextrelay.core.inspect.slice import source_at, source_of
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.core.threads.head import find_record
from contextrelay.errors import Invalid
from contextrelay.limits import GREP_ARTIFACTS_MAX, GREP_ONE_S_MAX, GREP_S_MAX
from contextrelay.model.artifact import Artifact, is_exchange
from contextrelay.model.inspect import Found, Skipped
from contextrelay.verbs import Body, Grep


@answers(Grep)
def grep(stores: Stores, verb: Grep, body: Body) -> Found:
    if verb.ref is not None and verb.thread is not None:
        raise Invalid("a grep is in a ref or in a thread, not in both", "leave out one")
    if verb.after_line and verb.ref is None:
        raise Invalid("after_line needs the one ref that it is in", "give ref")
    wanted = convert(verb, Wanted, from_attributes=True)
    deadline_s = time.monotonic() + (GREP_S_MAX if verb.ref is None else GREP_ONE_S_MAX)
    sources = _sources(stores, verb)
    by_records_s = 0.0

    def by_records(asked: RecordsWanted, body: bytes) -> Records:
        """Lines of the one ref have all their time where its records took too long."""
        nonlocal by_records_s
        began_s = time.monotonic()
        found = records_within_bounds(asked, body)
        by_records_s = time.monotonic() - began_s if verb.ref is not None else 0.0
        return found

    return find(
        sources,
        wanted,
        lambda: time.monotonic() > deadline_s + by_records_s,
        is_one=verb.ref is not None,
        by_records=by_records,
    )


def _sources(stores: Stores, verb: Grep) -> Iterator[Source | Skipped]:
    if verb.ref is not None:
        yield source_at(stores, verb.ref)
        return
    now_ms = stores.now_ms()
    for artifact in islice(newest(stores, verb.thread), GREP_ARTIFACTS_MAX):
        if is_over(artifact, now_ms):
            continue
        if artifact.sealed is not None:
            yield Skipped(ref=artifact.ref, why=f"{artifact.ref[:8]} is sealed")
            continue
        yield source_of(stores, artifact)


def newest(stores: Stores, thread: str | None) -> Iterator[Artifact]:
    """The artifacts of a thread, or all of them, newest first."""
    if thread is None:
        found = (find_readable(stores.ledger, entry.ref) for entry in entries(stores.ledger))
        yield from (each for each in found if each is not None and not is_exchange(each))
        return
    find_record(stores.ledger, thread)
    there = [find_readable(stores.ledger, ref) for ref in listed(stores.ledger, thread)]
    known = [each for each in there if each is not None]
    yield from sorted(known, key=lambda each: each.created_at, reverse=True)
