"""Peek: the description of an artifact, with its tokens and its outline if that is asked for."""

from __future__ import annotations

from contextrelay.core.artifacts.records import live
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.model.artifact import Artifact
from contextrelay.verbs import Body, Peek


@answers(Peek)
def peek(stores: Stores, verb: Peek, body: Body) -> Artifact:
    artifact = live(stores, verb.ref)
    if not verb.is_full:
        return artifact
    from contextrelay.core.inspect.outline import described_fully

    return described_fully(stores, artifact)
