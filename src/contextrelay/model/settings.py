"""Settings: what the owner of a store may choose."""

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
    """The choices of one store, with their defaults."""

    body_bytes_max: Annotated[int, Meta(ge=1, le=512 * MIB)] = BODY_BYTES_MAX
    """The largest body that is taken."""
    ttl_s: Annotated[int, Meta(ge=1, le=TTL_S_MAX)] = TTL_S_DEFAULT
    """How long a push lives if it does not say."""
    extend_on_read: bool = False
    """Whether a pull renews the lease of what it reads."""
    hops_max: Annotated[int, Meta(ge=1, le=HOPS_MAX)] = HOPS_DEFAULT
    """How many capabilities may be invoked in one thread."""
    fetch_private: bool = False
    """Whether http.fetch may reach loopback and private networks."""
    signal_kept_s: Annotated[int, Meta(ge=60, le=TOMBSTONE_S)] = SIGNAL_KEPT_S_DEFAULT
    """How long a channel keeps a signal for those who come back."""
    signals_kept_max: Annotated[int, Meta(ge=1, le=SIGNALS_KEPT_MAX)] = SIGNALS_KEPT_DEFAULT
    """How many signals a channel keeps; a tenth more may be kept now and then."""
    ended_kept_s: Annotated[int, Meta(ge=60, le=TTL_S_MAX)] = ENDED_KEPT_S_DEFAULT
    """How long the thread of a pipeline's run stays after its end."""
    model: Annotated[str, Meta(max_length=LABEL_CHARS_MAX)] = ""
    """The model that is asked where none is named: PROVIDER or PROVIDER:MODEL."""
    rounds_max: Annotated[int, Meta(ge=1, le=RUN_ROUNDS_MAX)] = RUN_ROUNDS_DEFAULT
    """How often a model is asked in one run, with what its tools brought."""
    prompt_calls: Annotated[int, Meta(ge=1, le=10_000)] = PROMPT_CALLS_DEFAULT
    """With how many calls a prompt is sent on: what savings are priced by."""
    price_cache_read: Annotated[float, Meta(ge=0, le=100)] = 0.1
    """Of a token in a cached prompt, where an input token costs 1."""
    price_cache_write: Annotated[float, Meta(ge=0, le=100)] = 1.25
    """Of a token that is new in a cached prompt."""
    price_output: Annotated[float, Meta(ge=0, le=1_000)] = 5.0
    """Of a token that a model writes."""
