"""Refs: short names that are passed on instead of content.

A ref is a dashed lower-case UUIDv4 with 122 random bits. Whoever knows a ref may read its content.
A URL is a ref plus its location (`relay:///pull/<ref>` for the embedded store).
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from contextrelay.errors import Invalid

REF_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
Ref = Annotated[str, Meta(pattern=REF_PATTERN)]

LOCAL_ORIGIN = "relay://"

_REF = re.compile(REF_PATTERN[:-1] + r"\Z")
_FRAGMENT = re.compile(r"#|%(?:25)*23")


def new_ref(random_bytes: bytes) -> str:
    """Make a ref from 16 random bytes."""
    number = int.from_bytes(random_bytes, "big")
    number = number & ~(0xF << 76) | 4 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_ref(text: str) -> bool:
    return _REF.match(text) is not None


def parse_ref(text: str) -> str:
    """Return the ref in a text that is a ref, or a URL that ends in `/pull/<ref>`.

    Raises:
        Invalid: the text is neither.
    """
    ref = text.partition("#")[0].partition("?")[0].rpartition("/pull/")[2]
    if not is_ref(ref):
        raise Invalid(
            # The part after # may be a secret key, even if # is percent-encoded. It must not appear
            # in the error message.
            f"{_FRAGMENT.split(text, maxsplit=1)[0][:80]!r} is not a ref",
            "a ref is a dashed lower-case UUIDv4, or a URL that ends in /pull/<ref>",
        )
    return ref


def local_url(ref: str) -> str:
    """Return the URL of a ref in the embedded store."""
    return f"{LOCAL_ORIGIN}/pull/{ref}"
