"""Names: the characters of labels, file names and channels, and the logs that listeners wait for.

Rule: a pattern means the same in Python and in JSON Schema: the OpenAPI document quotes it.
"""

from __future__ import annotations

CONTROL_CHARS = r"\x00-\x1f\x7f-\x9f"
HIDDEN_CHARS = CONTROL_CHARS + r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff"
"""Control characters, line separators, and the bidi controls that make a name read as another."""

_LABEL = rf"[^{HIDDEN_CHARS}]*[^{HIDDEN_CHARS}\s][^{HIDDEN_CHARS}]*"
LABEL_PATTERN = f"^{_LABEL}$"
OPTIONAL_LABEL_PATTERN = f"^({_LABEL})?$"
FILE_NAME_PATTERN = rf"^(?!\.\.?$)[^{HIDDEN_CHARS}/\\]*[^{HIDDEN_CHARS}\s/\\][^{HIDDEN_CHARS}/\\]*$"
CHANNEL_PATTERN = f"^[^{CONTROL_CHARS}]+$"

PATTERN_ERRORS = {
    LABEL_PATTERN: "it is blank or holds a control character",
    OPTIONAL_LABEL_PATTERN: "it is blank or holds a control character",
    FILE_NAME_PATTERN: "it is blank, or holds a slash or a control character",
    CHANNEL_PATTERN: "it holds a control character",
}
"""What is wrong with a text that does not match."""


# Logs that are listened to. All other names of logs are in core/schema.py.

CHANNELS, KEYS, TENANTS, THREADS = "c/", "key/", "x/", "t/"


def channel_log(channel: str) -> str:
    return f"{CHANNELS}{channel}"


def key_log(key_id: str) -> str:
    return f"{KEYS}{key_id}"


def thread_log(thread: str) -> str:
    return f"{THREADS}{thread}"


def tenant_prefix(tenant: str) -> str:
    """Return what the names of a tenant's logs and counters begin with, in the store."""
    return f"{TENANTS}{tenant}/"


def full_log(tenant: str | None, log: str) -> str:
    """Return the name in the store of a tenant's log; None for the store's own."""
    return log if tenant is None else tenant_prefix(tenant) + log
