"""Operations: one method on one path, as OpenAPI describes it, and the pieces that they share."""

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
    400: "The request is wrong in itself.",
    401: "The caller is not known: the token is missing, wrong, expired or revoked.",
    402: "The quota of the key is used up; what is stored can still be read.",
    403: "The key is not for this, or a page of another origin asks.",
    404: "There is no such thing.",
    405: "The path is there, but not for this method.",
    406: "The client does not accept what there is.",
    408: "The client stopped in the middle of its request.",
    409: "Others changed it meanwhile, or a condition does not hold.",
    410: "It is gone: `gone_at` and `reason` say when and why.",
    412: "If-Match does not name the version of now.",
    413: "The request passes a limit, which the hint names.",
    415: "The body is said to be something else than what is taken.",
    416: "The range lies behind the end.",
    421: "The request is for another host.",
    422: "What it leads to is not allowed, or its key was used for another request.",
    423: "It is sealed, and its key is not here: look into it in a client.",
    426: "Only a WebSocket can be opened here.",
    429: "What was asked is counted, and the count is used up; `retry-after` may say until when.",
    500: "The store is damaged, or the server is at fault.",
    502: "A capability, or a server that it asks, did not answer as it should.",
    503: "The store does not answer now; the same request may succeed later.",
    507: "No room is left; reads and removals still work.",
}
_SUCCESSES = {
    "200": "Done.",
    "201": "Made.",
    "202": "Taken; there is nothing to answer.",
    "206": "A range of it.",
    "304": "The client has it already.",
    "307": "A browser is sent to the page.",
    "308": "It is at /ui/.",
}

ASKED_ALWAYS = (401, 429)
"""What may come of the caller's key, on every path."""
SECURITY_SCHEMES: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token, as relay keys new says it.",
    },
    "basic": {"type": "http", "scheme": "basic", "description": "The token as the password."},
    "token": {"type": "apiKey", "in": "query", "name": "token"},
}
SECURITY: list[Json] = [{"bearer": []}, {"basic": []}, {}]
"""The last one: a server on loopback may do without."""
STREAM_SECURITY: list[Json] = [{"bearer": []}, {"token": []}, {"basic": []}, {}]

PROBLEM: Json = {
    "description": "What went wrong (RFC 9457), and what to do now.",
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
    "description": f"The URL and the headers pass {HEADER_BYTES_IN_MAX:,} bytes, or there are more "
    f"than {HEADERS_IN_MAX} headers."
}
"""Every error; those of seed 000's routes are text, unless the request got nowhere near them."""


class ApiOperation(Struct, frozen=True, kw_only=True):
    """One method on one path."""

    method: str
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: list[Json] = []
    body: Json | None = None
    replies: dict[str, Json]
    """From a status to what comes with it: media types, each with a schema."""
    errors: tuple[int, ...] = ()
    has_text_errors: bool = False
    is_stream: bool = False
    """Whether the token may be in the query, for who cannot send it otherwise."""

    def described(self) -> Json:
        """As OpenAPI has it."""
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


# Pieces


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
    "By this the request is done once, however often it is sent.",
)
WAIT = query(
    "wait",
    {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX},
    "Seconds to wait until there is something new.",
)


STRING: Json = {"type": "string"}
TAGS_HELD = header("if-none-match", STRING, "Tags of what the client has.")
RANGE = header("range", STRING, "One range of bytes, like bytes=0-99.")
FROM = header(
    FROM_HEADER,
    {"type": "string", "pattern": OPTIONAL_LABEL_PATTERN, "maxLength": LABEL_CHARS_MAX},
    "The name of the caller.",
)
LAST_EVENT = header(
    "last-event-id", {"type": "string", "pattern": "^[0-9]{1,18}$"}, "Goes on there."
)

READS = (400, 403, 421, 500, 503)
FINDS = (*READS, 404, 410)
WRITES = (*READS, 408, 413, 422, 507)
BYTES: Json = {"type": "string", "format": "binary"}
OCTETS = "application/octet-stream"
ANY_BYTES: Json = {OCTETS: {"schema": BYTES}, "*/*": {"schema": BYTES}}
"""Bytes of any type; generators of clients know the first name."""
