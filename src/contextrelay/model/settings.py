"""Settings: the options that the owner of a store can change."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextrelay.limits import (
    BODY_BYTES_MAX,
    DAY_S,
    HOPS_DEFAULT,
    HOPS_MAX,
    LABEL_CHARS_MAX,
    MIB,
    RUN_ROUNDS_DEFAULT,
    RUN_ROUNDS_MAX,
    SIGNAL_KEPT_S_DEFAULT,
    SIGNALS_KEPT_DEFAULT,
    SIGNALS_KEPT_MAX,
    TOMBSTONE_S,
    TTL_S_DEFAULT,
    TTL_S_MAX,
)

ENDED_KEPT_S_DEFAULT = 30 * DAY_S
PROMPT_CALLS_DEFAULT = 10


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a store, with their defaults."""

    body_bytes_max: Annotated[int, Meta(ge=1, le=512 * MIB)] = BODY_BYTES_MAX
    """Maximum size of a body in bytes."""
    ttl_s: Annotated[int, Meta(ge=1, le=TTL_S_MAX)] = TTL_S_DEFAULT
    """Default time to live of an artifact in seconds."""
    extend_on_read: bool = False
    """Whether a pull extends the life of the artifact."""
    hops_max: Annotated[int, Meta(ge=1, le=HOPS_MAX)] = HOPS_DEFAULT
    """Maximum number of capability calls in one thread."""
    fetch_private: bool = False
    """Whether http.fetch may access loopback and private networks."""
    signal_kept_s: Annotated[int, Meta(ge=60, le=TOMBSTONE_S)] = SIGNAL_KEPT_S_DEFAULT
    """How many seconds a channel keeps a signal for subscribers that reconnect."""
    signals_kept_max: Annotated[int, Meta(ge=1, le=SIGNALS_KEPT_MAX)] = SIGNALS_KEPT_DEFAULT
    """How many signals a channel keeps; up to a tenth more may be kept temporarily."""
    ended_kept_s: Annotated[int, Meta(ge=60, le=TTL_S_MAX)] = ENDED_KEPT_S_DEFAULT
    """How many seconds the thread of a pipeline run is kept after the end of the run."""
    model: Annotated[str, Meta(max_length=LABEL_CHARS_MAX)] = ""
    """The default model: PROVIDER or PROVIDER:MODEL."""
    rounds_max: Annotated[int, Meta(ge=1, le=RUN_ROUNDS_MAX)] = RUN_ROUNDS_DEFAULT
    """Maximum number of model calls in one run, counting those that return tool results."""
    prompt_calls: Annotated[int, Meta(ge=1, le=10_000)] = PROMPT_CALLS_DEFAULT
    """Assumed number of calls that send a prompt again; used to price savings."""
    price_cache_read: Annotated[float, Meta(ge=0, le=100)] = 0.1
    """Price of a token read from a cached prompt, relative to an input token."""
    price_cache_write: Annotated[float, Meta(ge=0, le=100)] = 1.25
    """Price of a token written to a cached prompt, relative to an input token."""
    price_output: Annotated[float, Meta(ge=0, le=1_000)] = 5.0
    """Price of an output token, relative to an input token."""
