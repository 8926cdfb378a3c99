"""Security headers of responses.

Rule: the server adds `SAFE` to every response, including those of uvicorn. A page also has the
headers of `page`, which allow only the given style and script.
"""

from __future__ import annotations

import base64
import hashlib

Headers = list[tuple[bytes, bytes]]

SAFE = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
]
SAFE_BYTES: Headers = [(name.encode(), value.encode()) for name, value in SAFE]
SAFE_LINES = "".join(f"{name}: {value}\r\n" for name, value in SAFE).encode()
NO_MORE_LINES = b"connection: close\r\ncontent-length: 0\r\n\r\n"
"""The end of the last response on a connection, which has no body."""


def page(style: str = "", script: str = "") -> Headers:
    """Return the headers of a page with only this inline style and script."""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        f"; img-src data:{_only('style', style)}{_only('script', script)}"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"cache-control", b"no-cache"),
    ]


def _only(kind: str, text: str) -> str:
    if not text:
        return ""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"; {kind}-src 'sha256-{digest}'"
