"""Operations that are neither a verb's nor an endpoint's: seed 000, streams, MCP, the server.

Rule: a test compares it with what is registered, and another asks everything in it.
"""

from __future__ import annotations

from contextrelay.doors.http.openapi.operations import (
    ALWAYS,
    ANY_OBJECT,
    BYTES,
    CHANNEL,
    COUNT,
    FINDS,
    FROM,
    KEY,
    LAST_EVENT,
    LIMIT,
    PROBLEM,
    RANGE,
    READS,
    REF,
    REF_IN_PATH,
    STRING,
    TAGS_HELD,
    TEXT,
    WRITES,
    Json,
    Operation,
    as_json,
    in_path,
    nullable,
    query,
    record,
    schema,
)
from contextrelay.limits import TTL_S_MAX
from contextrelay.wire.problems import MEDIA_TYPE

TAGS = {
    "relay": "Push once, pass a URL. Errors are plain text.",
    "artifacts": "Content and what describes it, by ref.",
    "threads": "Execution contexts and their state.",
    "channels": "Signals: who listens learns of pushes and messages.",
    "capabilities": "What can be invoked by name, its results cached.",
    "keys": "Who may ask, for what, and what they did.",
    "store": "Looking after the store.",
    "threads, plain": "Threads under the paths of relay's own clients.",
    "server": "Health, version, documents, metrics.",
}


SCHEMAS: dict[str, Json] = {"ProblemDetails": PROBLEM}

_RELAY = [
    Operation(
        method="POST",
        path="/push",
        id="push",
        tag="relay",
        summary="Store content and get a URL for it",
        description="As JSON, with what is said of it; or bare, whatever it is.",
        parameters=[KEY, FROM],
        body={
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "data": {"type": "string", "minLength": 1},
                            "channel": {"description": "A string; anything else is ignored."},
                            "metadata": {"description": "An object; anything else is ignored."},
                            "ttl": nullable(
                                {"type": "integer", "minimum": 1, "maximum": TTL_S_MAX}
                            ),
                            "thread": nullable(REF),
                        },
                        "required": ["data"],
                    }
                },
                "*/*": {"schema": BYTES},
            },
        },
        replies={
            "200": as_json(schema("Pushed")),
        },
        errors=(*WRITES, 402, 404, 409, 410),
        has_text_errors=True,
    ),
    Operation(
        method="GET",
        path="/pull/{ref}",
        id="pull",
        tag="relay",
        summary="Get content back",
        description="Text comes as `{data, metadata}`, anything else bare, as all does with raw=1.",
        parameters=[
            REF_IN_PATH,
            query("raw", STRING, "1: the bare bytes."),
            query("full", STRING, "1: if it is gone, say when and why."),
            RANGE,
            TAGS_HELD,
        ],
        replies={
            "200": {TEXT: {"schema": STRING}, "*/*": {}},
            "206": {"*/*": {}},
            "304": {},
        },
        errors=(*FINDS, 416),
        has_text_errors=True,
    ),
    Operation(
        method="GET",
        path="/peek/{ref}",
        id="peek",
        tag="relay",
        summary="See what content is before you load it",
        description="Its metadata alone; with full=1 everything but the content.",
        parameters=[REF_IN_PATH, query("full", STRING, "1: everything that describes it.")],
        replies={"200": as_json({"anyOf": [schema("Described"), ANY_OBJECT]})},
        errors=FINDS,
        has_text_errors=True,
    ),
    Operation(
        method="GET",
        path="/ws",
        id="noChannel",
        tag="relay",
        summary="Answers that a channel is missing",
        replies={},
        errors=ALWAYS,
        has_text_errors=True,
    ),
    Operation(
        method="GET",
        path="/ws/{channel}",
        id="subscribe",
        tag="relay",
        summary="Hear of every push to a channel, over a WebSocket",
        description=(
            "Each signal is a text frame: `{url, ts, seq, from}` of a push, `{message, ts, seq, "
            "from}` of a message, `{gap: [from, to]}` where some are no longer kept. The channel "
            "is all the rest of the path."
        ),
        parameters=[
            in_path("channel", STRING),
            query("after", STRING, "The seq of the last signal that was heard."),
        ],
        replies={},
        errors=(*ALWAYS, 426, 503),
        has_text_errors=True,
        is_stream=True,
    ),
]

_EVENT_STREAM: Json = {"text/event-stream": {}}
_AFTER = query("after", COUNT, "The seq of the last one that was heard.")

_STREAMS = [
    Operation(
        method="GET",
        path="/v1/channels/{channel}/events",
        id="streamSignals",
        tag="channels",
        summary="The signals of a channel as they come, as server-sent events",
        parameters=[in_path("channel", CHANNEL), _AFTER, LAST_EVENT],
        replies={"200": _EVENT_STREAM},
        errors=(*READS, 413),
        is_stream=True,
    ),
    Operation(
        method="GET",
        path="/v1/threads/{thread}/events/stream",
        id="streamEvents",
        tag="threads",
        summary="The events of a thread as they come, as server-sent events",
        parameters=[in_path("thread", REF), _AFTER, query("limit", LIMIT), LAST_EVENT],
        replies={"200": _EVENT_STREAM},
        errors=FINDS,
        is_stream=True,
    ),
]

_RPC: Json = as_json(ANY_OBJECT)
_RPC_ERROR: Json = {**_RPC, MEDIA_TYPE: {"schema": schema("ProblemDetails")}, TEXT: {}}
_MCP = [
    Operation(
        method="POST",
        path="/mcp",
        id="mcp",
        tag="server",
        summary="The Model Context Protocol, for models",
        description="One JSON-RPC message in, its answer out, or a stream of events with it.",
        body={
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"jsonrpc": {"const": "2.0"}, "method": STRING},
                        "required": ["jsonrpc", "method"],
                    }
                }
            },
        },
        replies={
            "200": {**_RPC, **_EVENT_STREAM},
            "202": {},
            **{str(status): _RPC_ERROR for status in (400, 404, 406, 415)},
        },
        errors=(*READS, 408, 413),
    ),
]


def _server(path: str, name: str, summary: str, replies: dict[str, Json], *more: int) -> Operation:
    return Operation(
        method="GET",
        path=path,
        id=name,
        tag="server",
        summary=summary,
        replies=replies,
        errors=(*ALWAYS, *more),
    )


_STATUS = as_json(record({"status": STRING}, "status"))
_PAGE: Json = {"text/html": {}}
_SERVER = [
    _server("/", "root", "Say that this is a relay", {"200": {TEXT: {}}, "307": {TEXT: {}}}),
    _server("/health", "health", "Whether the server runs", {"200": _STATUS}),
    _server("/healthz", "healthz", "Whether the server runs", {"200": _STATUS}),
    _server("/readyz", "readyz", "Whether the store answers", {"200": _STATUS}, 500, 503),
    _server(
        *("/version", "version", "Which version this is"),
        {
            "200": as_json(
                record(
                    {"version": STRING, "commit": STRING, "built": STRING},
                    *("version", "commit", "built"),
                )
            )
        },
    ),
    _server("/ui", "toPage", "Leads to the page", {"308": {TEXT: {}}}),
    _server("/ui/", "page", "The page, for a browser", {"200": _PAGE}),
    _server("/docs", "docs", "This document, for people", {"200": _PAGE, "304": {}}),
    _server("/openapi.json", "openapi", "This document", {"200": as_json(ANY_OBJECT), "304": {}}),
    _server(
        *("/metrics", "metrics", "What the server did, for Prometheus"),
        {"200": {TEXT: {}, "application/openmetrics-text": {}}},
        500,
        503,
    ),
]

OPERATIONS = [*_RELAY, *_STREAMS, *_MCP, *_SERVER]
