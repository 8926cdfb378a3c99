"""Pulls: return a body or a range of it, and renew its lease if needed."""

from __future__ import annotations

from contextrelay.core.artifacts.bodies import opener
from contextrelay.core.artifacts.lifetime import extend
from contextrelay.core.artifacts.records import live
from contextrelay.core.registry import answers
from contextrelay.core.stores import Stores
from contextrelay.errors import Full, Unavailable
from contextrelay.model.artifact import Artifact, to_ms
from contextrelay.verbs import Body, Extend, Pull, Stream


@answers(Pull)
def pull(stores: Stores, verb: Pull, body: Body) -> Stream[Artifact]:
    artifact = live(stores, verb.ref)
    stop = artifact.size_bytes if verb.stop is None else min(verb.stop, artifact.size_bytes)
    start = min(verb.start, stop)
    if stores.settings.extend_on_read:
        artifact = _renewed(stores, artifact)
    return Stream(artifact, opener(stores, artifact.sha256, artifact.size_bytes, start, stop))


def _renewed(stores: Stores, artifact: Artifact) -> Artifact:
    """Renew the lease of an artifact that is read, once a tenth of the lease is used up.

    Not every read is worth a write.
    """
    if artifact.ttl_s is None or artifact.expires_at is None:
        return artifact
    if stores.now_ms() + artifact.ttl_s * 900 < to_ms(artifact.expires_at):
        return artifact
    try:
        return extend(stores, Extend(artifact.ref, artifact.ttl_s), b"")
    except (Full, Unavailable):
        return artifact  # The artifact can still be read until it expires.
