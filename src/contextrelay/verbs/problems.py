"""Problems: errors as RFC 9457 documents, and their conversion back to error classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextrelay import errors
from contextrelay.errors import RelayError

MEDIA_TYPE = "application/problem+json"

MEMBERS = ("type", "title", "status", "detail", "error", "code", "hint")


def problem(error: RelayError) -> dict[str, Any]:
    """Convert an error to an RFC 9457 problem document. Its `error` repeats the message for simple
    clients.
    """
    return {
        **error.details,
        "type": "about:blank",
        "title": type(error).__name__,
        "status": error.status,
        "detail": error.message,
        "error": error.message,
        "code": error.code,
        "hint": error.hint,
    }


def from_problem(document: Mapping[str, Any], status: int) -> RelayError:
    """Convert a problem document to an error. The class is chosen by code, or by status if the code
    is unknown.
    """
    kind = _KEY_STATUSES.get(status) or _BY_CODE.get(str(document.get("code")))
    kind = kind or _by_status(status)
    message = str(
        document.get("error") or document.get("detail") or f"the server answered {status}"
    )
    details = {name: value for name, value in document.items() if name not in MEMBERS}
    known = status if status in _KEY_STATUSES else None
    hint = str(document.get("hint") or "")
    if not document and status >= 500:
        hint = "check that the relay is running, then try again: a proxy may have answered"
    return kind(message, hint, details, known)


_KEY_STATUSES = {401: errors.Forbidden, 402: errors.Full, 403: errors.Forbidden}
"""HTTP statuses about the caller's key, with the classes of their errors. The `status` of such a
class mostly differs.
"""


_CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RelayError)
]
_BY_CODE = {kind.code: kind for kind in _CLASSES}


def _by_status(status: int) -> type[RelayError]:
    for kind in reversed(_CLASSES):
        # A 502 without a code comes from a gateway that cannot reach the relay.
        if kind.status == status and kind not in (RelayError, errors.Failed):
            return kind
    return errors.Invalid if 400 <= status < 500 else errors.Unavailable
