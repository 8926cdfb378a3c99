"""Operations: one method on one path in OpenAPI, and the parts that operations share."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from contextrelay.limits import (
    HEADER_BYTES_IN_MAX,
    HEADERS_IN_MAX,
    KEY_CHARS_MAX,
    LABEL_CHARS_MAX,
    WAIT_S_MAX,
)
from contextrelay.model.names import OPTIONAL_LABEL_PATTERN
from contextrelay.server.auth import OPEN
from contextrelay.verbs.problems import MEDIA_TYPE, MEMBERS
from contextrelay.verbs.routes import FROM_HEADER, KEY_HEADER

Json = dict[str, Any]

TEXT = "text/plain"

STATUSES = {
    400: "Invalid request.",
    401: "Missing, invalid, expired or revoked token.",
    402: "The quota of the key is used up; reads still work.",
    403: "The key does not allow this, or the request comes from a page of another origin.",
    404: "Not found.",
    405: "Method not allowed on this path.",
    406: "No representation matches the Accept header.",
    408: "The client stopped sending its request.",
    409: "Conflict with a concurrent change, or a failed condition.",
    410: "Gone; `gone_at` and `reason` say when and why.",
    412: "If-Match does not match the current version.",
    413: "The request exceeds a limit, which the hint names.",
    415: "Unsupported media type of the body.",
    416: "The range is not within the content.",
    421: "The request is for another host.",
    422: "The target is not allowed, or the idempotency key was used for another request.",
    423: "The content is encrypted and the key is not here; read it with a client.",
    426: "This path is for WebSockets only.",
    429: "A rate or count limit is used up; `retry-after` may say for how long.",
    500: "The store is damaged, or an internal error occurred.",
    502: "A capability, or a server that it called, returned an invalid response.",
    503: "The store is unavailable; a retry may succeed later.",
    507: "No space left; reads and deletions still work.",
}
_SUCCESSES = {
    "200": "Done.",
    "201": "Made.",
    "202": "Accepted, without a response.",
    "206": "A range of the content.",
    "304": "The client already has the content.",
    "307": "Redirect of browsers to the page.",
    "308": "Redirect to /ui/.",
}

ASKED_ALWAYS = (401, 429)
"""Error statuses that every path can return because of the caller's key."""
SECURITY_SCHEMES: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token, as printed by relay keys new.",
    },
    "basic": {"type": "http", "scheme": "basic", "description": "The token as the password."},
    "token": {"type": "apiKey", "in": "query", "name": "token"},
}
SECURITY: list[Json] = [{"bearer": []}, {"basic": []}, {}]
"""The ways to authenticate. The last, empty one is there because a server on loopback may not
require a token.
"""
STREAM_SECURITY: list[Json] = [{"bearer": []}, {"token": []}, {"basic": []}, {}]

PROBLEM: Json = {
    "description": "The error (RFC 9457), with a hint on the next step.",
    "type": "object",
    "properties": {name: {"type": "integer" if name == "status" else "string"} for name in MEMBERS},
    "required": list(MEMBERS),
}


def _problem(status: int, is_text: bool) -> Json:
    content: Json = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    if is_text:
        content = {TEXT: {"schema": {"type": "string"}}, **content}
    return {"description": STATUSES[status], "content": content}


PROBLEMS: Json = {
    f"{'Text' if is_text else 'Problem'}{status}": _problem(status, is_text)
    for is_text in (False, True)
    for status in STATUSES
}
PROBLEMS["HeadTooLong"] = {
    "description": (
        f"The URL and the headers exceed {HEADER_BYTES_IN_MAX:,} bytes, or there are more than "
        f"{HEADERS_IN_MAX} headers."
    )
}
"""Every error response. On the routes of seed 000 errors are text, unless the request was refused
before routing.
"""


class ApiOperation(Struct, frozen=True, kw_only=True):
    """An OpenAPI operation: one method on one path."""

    method: str
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: list[Json] = []
    body: Json | None = None
    replies: dict[str, Json]
    """For each status, the content of the response: media types with their schemas."""
    errors: tuple[int, ...] = ()
    has_text_errors: bool = False
    is_stream: bool = False
    """True if the token may be in the query, for clients that cannot send headers."""

    def described(self) -> Json:
        """Return the operation as OpenAPI JSON."""
        replies = {
            status: {
                "description": _SUCCESSES.get(status) or STATUSES[int(status)],
                **({"content": content} if content else {}),
            }
            for status, content in self.replies.items()
        }
        kind = "Text" if self.has_text_errors else "Problem"
        asked_always = () if self.path in OPEN else ASKED_ALWAYS
        for status in (*self.errors, *asked_always):
            if str(status) not in replies:
                replies[str(status)] = {"$ref": f"#/components/responses/{kind}{status}"}
        replies["431"] = {"$ref": "#/components/responses/HeadTooLong"}
        return {
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            **({"description": self.description} if self.description else {}),
            **({"parameters": self.parameters} if self.parameters else {}),
            **({"requestBody": self.body} if self.body is not None else {}),
            **({"security": []} if self.path in OPEN else {}),
            **({"security": STREAM_SECURITY} if self.is_stream else {}),
            "responses": dict(sorted(replies.items())),
        }


# Parts


def in_path(name: str, schema: Json) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def query(name: str, schema: Json, text: str = "", is_required: bool = False) -> Json:
    about = {"description": text} if text else {}
    return {"name": name, "in": "query", "required": is_required, **about, "schema": schema}


def header(name: str, schema: Json, text: str) -> Json:
    return {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def as_json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


KEY = header(
    KEY_HEADER,
    {"type": "string", "pattern": r"^[!-~](?:[ -~]*[!-~])?$", "maxLength": KEY_CHARS_MAX},
    "Idempotency key: requests with the same key are done once.",
)
WAIT = query(
    "wait",
    {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX},
    "Seconds to wait for new data.",
)


STRING: Json = {"type": "string"}
TAGS_HELD = header("if-none-match", STRING, "Entity tags of the client's copies.")
RANGE = header("range", STRING, "A single byte range, for example bytes=0-99.")
FROM = header(
    FROM_HEADER,
    {"type": "string", "pattern": OPTIONAL_LABEL_PATTERN, "maxLength": LABEL_CHARS_MAX},
    "The name of the caller.",
)
LAST_EVENT = header(
    "last-event-id", {"type": "string", "pattern": "^[0-9]{1,18}$"}, "Continue after this event."
)

READS = (400, 403, 421, 500, 503)
FINDS = (*READS, 404, 410)
WRITES = (*READS, 408, 413, 422, 507)
BYTES: Json = {"type": "string", "format": "binary"}
OCTETS = "application/octet-stream"
ANY_BYTES: Json = {OCTETS: {"schema": BYTES}, "*/*": {"schema": BYTES}}
"""Bytes of any media type. Client generators support the first name."""
