"""Settings: what the owner of a store may choose."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from contextrelay.limits import BODY_BYTES_MAX, MIB, TTL_S_DEFAULT, TTL_S_MAX


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The choices of one store, with their defaults."""

    body_bytes_max: Annotated[int, Meta(ge=1, le=512 * MIB)] = BODY_BYTES_MAX
    """The largest body that is taken."""
    ttl_s: Annotated[int, Meta(ge=1, le=TTL_S_MAX)] = TTL_S_DEFAULT
    """How long a push lives if it does not say."""
    extend_on_read: bool = False
    """Whether a pull renews the lease of what it reads."""
