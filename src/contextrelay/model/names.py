"""Names: the characters allowed in labels, file names and channels, and the logs that listeners can
subscribe to.

Rule: a pattern means the same in Python and in JSON Schema, because the OpenAPI document quotes it.
"""

from __future__ import annotations

CONTROL_CHARS = r"\x00-\x1f\x7f-\x9f"
HIDDEN_CHARS = CONTROL_CHARS + r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff"
"""Control characters, line separators, and bidi controls, which can make one name look like
another.
"""

_LABEL = rf"[^{HIDDEN_CHARS}]*[^{HIDDEN_CHARS}\s][^{HIDDEN_CHARS}]*"
LABEL_PATTERN = f"^{_LABEL}$"
OPTIONAL_LABEL_PATTERN = f"^({_LABEL})?$"
FILE_NAME_PATTERN = rf"^(?!\.\.?$)[^{HIDDEN_CHARS}/\\]*[^{HIDDEN_CHARS}\s/\\][^{HIDDEN_CHARS}/\\]*$"
CHANNEL_PATTERN = f"^[^{CONTROL_CHARS}]+$"

PATTERN_ERRORS = {
    LABEL_PATTERN: "must not be blank or contain control characters",
    OPTIONAL_LABEL_PATTERN: "must not be blank or contain control characters",
    FILE_NAME_PATTERN: "must not be blank or contain slashes or control characters",
    CHANNEL_PATTERN: "must not contain control characters",
}
"""Error messages for texts that do not match a pattern."""


# Logs that can have listeners. The names of all other logs are in core/schema.py.

CHANNELS, KEYS, TENANTS, THREADS = "c/", "key/", "x/", "t/"


def channel_log(channel: str) -> str:
    return f"{CHANNELS}{channel}"


def key_log(key_id: str) -> str:
    return f"{KEYS}{key_id}"


def thread_log(thread: str) -> str:
    return f"{THREADS}{thread}"


def tenant_prefix(tenant: str) -> str:
    """Return the prefix of the names of a tenant's logs and counters in the store."""
    return f"{TENANTS}{tenant}/"


def tenant_log(tenant: str | None, log: str) -> str:
    """Return the full name of a tenant's log in the store; if the tenant is None, the
    name of one of the store's own logs.
    """
    return log if tenant is None else tenant_prefix(tenant) + log
