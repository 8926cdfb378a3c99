"""What the conformance suite asks of a server of 2025-11-25: requests to its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types

from contextrelay.mcp.server import Asking

Call = types.CallToolRequestParams
OPTIONS = ["option1", "option2", "option3"]
VALUES = [
    {"const": "value1", "title": "First"},
    {"const": "value2", "title": "Second"},
    {"const": "value3", "title": "Third"},
]
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {
        "username": {"type": "string"},
        "email": {"type": "string"},
    },
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": VALUES},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": VALUES}},
    },
}


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def _log(asking: Asking, call: Call) -> types.CallToolResult:
    for step in ("started", "processing data", "completed"):
        await asking.session.send_log_message(  # pyright: ignore[reportDeprecated]
            "info", f"Tool {step}", related_request_id=asking.request_id
        )
        await anyio.sleep(0.05)
    return _text("logged")


async def _sample(asking: Asking, call: Call) -> types.CallToolResult:
    prompt = str((call.arguments or {})["prompt"])
    said = await asking.session.create_message(  # pyright: ignore[reportDeprecated]
        [types.SamplingMessage(role="user", content=types.TextContent(text=prompt))],
        max_tokens=100,
        related_request_id=asking.request_id,
    )
    return _text(f"LLM response: {said.content}")


async def _elicit(asking: Asking, call: Call) -> types.CallToolResult:
    message = str((call.arguments or {}).get("message", "Please fill this in"))
    schema: dict[str, Any] = {"type": "object", "properties": FORMS[call.name]}
    given = await asking.session.elicit_form(message, schema, asking.request_id)
    return _text(f"Elicitation completed: action={given.action}, content={given.content}")


TOOLS: dict[str, Callable[[Asking, Call], Awaitable[types.CallToolResult]]] = {
    "test_tool_with_logging": _log,
    "test_sampling": _sample,
    **dict.fromkeys(FORMS, _elicit),
}
