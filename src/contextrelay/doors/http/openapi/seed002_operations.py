"""Threads under the paths of relay's own clients, described: the other part of described.py."""

from __future__ import annotations

from typing import get_args

from contextrelay.doors.http.openapi.operations import (
    ANY_OBJECT,
    BY,
    BYTES,
    COUNT,
    FINDS,
    FROM,
    KEY,
    LABEL,
    LIMIT,
    NAME,
    RANGE,
    READS,
    REF,
    REF_IN_PATH,
    STRING,
    TAGS_HELD,
    THREAD_IN_PATH,
    VERSION,
    WRITES,
    Json,
    Operation,
    as_json,
    header,
    json_body,
    nullable,
    query,
    record,
    schema,
)
from contextrelay.limits import MEDIA_TYPE_CHARS_MAX, SOURCE_REFS_MAX
from contextrelay.model.artifact import ArtifactType


def _plain(method: str, path: str, name: str, summary: str, **more: object) -> Operation:
    """An operation under the paths of relay's own clients."""
    return Operation(
        method=method,
        path=path,
        id=name,
        tag="threads, plain",
        summary=summary,
        **more,  # pyright: ignore[reportArgumentType]
    )


_NEW_ARTIFACT: Json = {
    "name": nullable(NAME),
    "type": nullable({"enum": list(get_args(ArtifactType))}),
    "mime": nullable({"type": "string", "maxLength": MEDIA_TYPE_CHARS_MAX}),
    "created_by": BY,
    "capability": BY,
}
_RAW = query("raw", {"enum": ["0", "1"]}, "1: the bare bytes.")
_CONTENT: dict[str, Json] = {"206": {"*/*": {}}, "304": {}}

THREADS = [
    _plain(
        *("POST", "/threads", "newThread", "Make a thread"),
        parameters=[KEY, FROM],
        body=json_body(record({"name": BY, "by": BY}), is_required=False),
        replies={"201": as_json(schema("Thread"))},
        errors=WRITES,
    ),
    _plain(
        *("GET", "/threads", "listThreads", "List threads, newest first"),
        parameters=[
            query("limit", LIMIT),
            query("after", {"type": "string", "maxLength": 100, "pattern": "^[ -~]*$"}),
        ],
        replies={
            "200": as_json(
                record(
                    {"threads": {"type": "array", "items": schema("Thread")}, "next": STRING},
                    *("threads", "next"),
                )
            )
        },
        errors=READS,
    ),
    _plain(
        *("GET", "/threads/{thread}", "showThread", "A thread as it stands"),
        parameters=[THREAD_IN_PATH],
        replies={"200": as_json(schema("Thread"))},
        errors=FINDS,
    ),
    _plain(
        *("GET", "/threads/{thread}/events", "listEvents", "Events after a seq, in order"),
        parameters=[THREAD_IN_PATH, query("after", COUNT), query("limit", LIMIT)],
        replies={
            "200": as_json(
                record({"events": {"type": "array", "items": schema("ThreadEvent")}}, "events")
            )
        },
        errors=FINDS,
    ),
    _plain(
        *("GET", "/threads/{thread}/state", "readState", "The whole state, of now or a version"),
        parameters=[THREAD_IN_PATH, query("version", VERSION), TAGS_HELD],
        replies={"200": as_json(ANY_OBJECT), "304": {}},
        errors=FINDS,
    ),
    _plain(
        *("GET", "/threads/{thread}/state/header", "readHeader", "What of a state a prompt shows"),
        description="At most 2,048 bytes; `X-Relay-Truncated: true` tells that some was left out.",
        parameters=[THREAD_IN_PATH, query("version", VERSION), TAGS_HELD],
        replies={"200": as_json(ANY_OBJECT), "304": {}},
        errors=FINDS,
    ),
    _plain(
        *("POST", "/threads/{thread}/state/patch", "patchState", "Change a state by JSON Patch"),
        description='With `If-Match: "v7"` only version 7 is patched: else 412.',
        parameters=[THREAD_IN_PATH, KEY, FROM, header("if-match", STRING, 'Like "v7".')],
        body=json_body(
            {
                "anyOf": [
                    {"type": "array"},
                    record(
                        {
                            "operations": {"type": "array"},
                            "expected": {
                                "anyOf": [
                                    {"type": "integer", "minimum": 1, "maximum": 10**12 - 1},
                                    VERSION,
                                    {"type": "null"},
                                ]
                            },
                            "merge": {"type": "boolean"},
                            "by": BY,
                        },
                        "operations",
                    ),
                ]
            }
        ),
        replies={
            "200": as_json(
                record(
                    {
                        "thread_id": STRING,
                        "version": COUNT,
                        "state_ref": STRING,
                        "operations": {"type": "array", "items": ANY_OBJECT},
                    },
                    *("thread_id", "version", "state_ref", "operations"),
                )
            )
        },
        errors=(*WRITES, 404, 409, 410, 412),
    ),
    _plain(
        *("POST", "/threads/{thread}/artifacts", "putArtifact", "Put content into a thread"),
        description="As JSON, or as a form with the content in the part `file` or `content`.",
        parameters=[THREAD_IN_PATH, KEY, FROM],
        body={
            "required": True,
            "content": {
                "application/json": {
                    "schema": record(
                        {
                            **_NEW_ARTIFACT,
                            "content": STRING,
                            "encoding": {"enum": ["utf-8", "base64"]},
                            "metadata": ANY_OBJECT,
                            "source_refs": {
                                "type": "array",
                                "items": REF,
                                "maxItems": SOURCE_REFS_MAX,
                            },
                        },
                        "content",
                    )
                },
                "multipart/form-data": {
                    "schema": record(
                        {
                            **dict.fromkeys(_NEW_ARTIFACT, STRING),
                            "file": BYTES,
                        },
                        "file",
                    )
                },
            },
        },
        replies={"201": as_json(schema("ThreadArtifact"))},
        errors=(*WRITES, 402, 404, 409, 410),
    ),
    _plain(
        *("GET", "/threads/{thread}/artifacts", "listArtifacts", "What was put into a thread"),
        parameters=[THREAD_IN_PATH, query("limit", LIMIT)],
        replies={
            "200": as_json(
                record(
                    {
                        "artifacts": {"type": "array", "items": schema("ThreadArtifact")},
                        "left_out": COUNT,
                    },
                    *("artifacts", "left_out"),
                )
            )
        },
        errors=FINDS,
    ),
    *(
        operation
        for before, name, parameters in (
            ("", "", [REF_IN_PATH]),
            ("/threads/{thread}", "InThread", [THREAD_IN_PATH, REF_IN_PATH]),
        )
        for operation in (
            _plain(
                *("GET", f"{before}/artifacts/{{ref}}", f"getArtifact{name}"),
                "What describes an artifact, or its bytes",
                parameters=[*parameters, _RAW, RANGE, TAGS_HELD],
                replies={
                    "200": {**as_json(schema("ThreadArtifact")), "*/*": {}},
                    **_CONTENT,
                },
                errors=(*FINDS, 416),
            ),
            _plain(
                *("GET", f"{before}/artifacts/{{ref}}/content", f"getContent{name}"),
                "The bytes of an artifact",
                description="Only for those who accept `application/octet-stream`.",
                parameters=[*parameters, RANGE, TAGS_HELD],
                replies={"200": {"*/*": {}}, **_CONTENT},
                errors=(*FINDS, 406, 416),
            ),
        )
    ),
    _plain(
        *("POST", "/cap/invoke", "invoke", "Run a capability, or take its cached result"),
        parameters=[KEY, FROM],
        body=json_body(
            record(
                {
                    "capability": LABEL,
                    "name": BY,
                    "args": ANY_OBJECT,
                    "thread_id": nullable(STRING),
                    "by": BY,
                    "is_cached": {"type": "boolean"},
                },
                "capability",
            )
        ),
        replies={"200": as_json(schema("Invoked"))},
        errors=(*WRITES, 402, 404, 409, 410, 429, 502),
    ),
    _plain(
        *("GET", "/cap/list", "listCapabilities", "What can be invoked"),
        replies={"200": as_json(schema("CapabilityListing"))},
        errors=READS,
    ),
    _plain(
        *("POST", "/reports/{thread}", "report", "Write a thread down to read"),
        parameters=[THREAD_IN_PATH, KEY, FROM],
        body=json_body(record({"format": {"enum": ["md", "json", "html"]}, "by": BY}), False),
        replies={"200": {"text/markdown": {}, "application/json": {}, "text/html": {}}},
        errors=(*WRITES, 404, 409, 410),
    ),
    _plain(
        *("POST", "/render/{thread}", "render", "A thread as messages for a model"),
        parameters=[THREAD_IN_PATH, query("format", {"enum": ["openai"]})],
        body=json_body(record({"user": nullable(STRING)}), False),
        replies={
            "200": as_json(record({"messages": {"type": "array", "items": ANY_OBJECT}}, "messages"))
        },
        errors=(*FINDS, 408, 413),
    ),
]
