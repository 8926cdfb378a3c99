"""What the conformance suite asks for by name: tools, prompts and resources, next to our own.

They are served by the product's own server: its transport, access and Host checks are what the
suite sees. The names and texts are the suite's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from contextrelay.mcp.server import Asking
from tests.mcp.conformance import fixtures_2025

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
    "AABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STATE_KEY = b"a key of the tests, of 32 bytes or more"

Call = types.CallToolRequestParams
Outcome = types.CallToolResult | types.InputRequiredResult
bus = InMemorySubscriptionBus()


def _text(text: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def _embedded(uri: str, media_type: str, text: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=media_type, text=text)
    return types.EmbeddedResource(resource=contents)


_IMAGE = types.ImageContent(data=PNG, mime_type="image/png")


def _answers(*content: types.ContentBlock) -> Callable[[Asking, Call], Awaitable[Outcome]]:
    async def answer(asking: Asking, call: Call) -> Outcome:
        return types.CallToolResult(content=list(content))

    return answer


async def _fail(asking: Asking, call: Call) -> Outcome:
    return _text("This tool intentionally returns an error for testing", is_error=True)


async def _progress(asking: Asking, call: Call) -> Outcome:
    for done in (0, 50, 100):
        await asking.session.report_progress(done, 100, f"Completed step {done} of 100")
    return _text("done")


async def _missing_capability(asking: Asking, call: Call) -> Outcome:
    has = asking.session.client_capabilities
    if has is None or has.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this needs the client to sample",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return _text("the client can sample")


async def _log(asking: Asking, call: Call) -> Outcome:
    # Sent where the request names a level, and dropped elsewhere.
    await asking.session.send_log_message("info", "a line of the log")  # pyright: ignore[reportDeprecated]
    return _text("logged")


async def _stream(asking: Asking, call: Call) -> Outcome:
    await asking.session.report_progress(1, 2, "half of it")
    return await _elicit(asking, call)


async def _tools_changed(asking: Asking, call: Call) -> Outcome:
    await bus.publish(ToolsListChanged())
    return _text("the list of tools changed")


async def _prompts_changed(asking: Asking, call: Call) -> Outcome:
    await bus.publish(PromptsListChanged())
    return _text("the list of prompts changed")


# What needs an answer of the client first


def _form(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def _sample(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    return types.CreateMessageRequest(params=params)


def _asks(state: str | None = None, /, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _typed(call: Any, name: str, field: str) -> str | None:
    """What a person typed into a field of a form."""
    responses: dict[str, Any] = call.input_responses or {}
    answer = responses.get(name)
    content = answer.content if isinstance(answer, types.ElicitResult) else None
    return None if content is None else str(content.get(field))


async def _elicit(asking: Asking, call: Call) -> Outcome:
    name = _typed(call, "user_name", "name")
    return _text(f"Hello, {name}!") if name else _asks(user_name=_form("Your name?", "name"))


async def _sampling(asking: Asking, call: Call) -> Outcome:
    if "capital_question" in (call.input_responses or {}):
        return _text("the model answered")
    return _asks(capital_question=_sample("What is the capital of France?"))


async def _roots(asking: Asking, call: Call) -> Outcome:
    if "client_roots" in (call.input_responses or {}):
        return _text("the client named its roots")
    return _asks(client_roots=types.ListRootsRequest())


async def _request_state(asking: Asking, call: Call) -> Outcome:
    if _typed(call, "confirm", "ok") and call.request_state == "nonce":
        return _text("state-ok: confirmed")
    return _asks("nonce", confirm=_form("Confirm?", "ok", "boolean"))


async def _several(asking: Asking, call: Call) -> Outcome:
    if len(call.input_responses or {}) == 3:
        return _text("all three came")
    return _asks(
        "several",
        user_name=_form("Your name?", "name"),
        greeting=_sample("Generate a greeting"),
        client_roots=types.ListRootsRequest(),
    )


async def _rounds(asking: Asking, call: Call) -> Outcome:
    name, color = _typed(call, "step1", "name"), _typed(call, "step2", "color")
    before: dict[str, Any] = json.loads(call.request_state) if call.request_state else {}
    if name:
        return _asks(json.dumps({"name": name}), step2=_form("Your favourite color?", "color"))
    if color and before.get("name"):
        return _text(f"{before['name']} likes {color}")
    return _asks(json.dumps({"round": 1}), step1=_form("Your name?", "name"))


async def _tampered(asking: Asking, call: Call) -> Outcome:
    if call.request_state is None:
        return _asks("round-1", confirm=_form("Confirm?", "ok", "boolean"))
    return _text(f"state-ok: {call.request_state}")


async def _capabilities(asking: Asking, call: Call) -> Outcome:
    has = asking.session.client_capabilities
    requests: dict[str, Any] = {}
    if has is None or has.sampling is not None:
        requests["sample"] = _sample("Say hello")
    if has is None or has.elicitation is not None:
        requests["ask"] = _form("Your name?", "name")
    return _asks("by capability", **requests)


TOOLS: dict[str, Callable[[Asking, Call], Awaitable[Outcome]]] = {
    "test_simple_text": _answers(
        types.TextContent(text="This is a simple text response for testing.")
    ),
    "test_image_content": _answers(_IMAGE),
    "test_audio_content": _answers(types.AudioContent(data=WAV, mime_type="audio/wav")),
    "test_embedded_resource": _answers(
        _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": _answers(
        types.TextContent(text="Multiple content types test:"),
        _IMAGE,
        _embedded("test://mixed-content-resource", "application/json", '{"test": "data"}'),
    ),
    "test_error_handling": _fail,
    "test_tool_with_progress": _progress,
    "test_logging_tool": _log,
    "test_streaming_elicitation": _stream,
    "test_missing_capability": _missing_capability,
    "test_trigger_tool_change": _tools_changed,
    "test_trigger_prompt_change": _prompts_changed,
    "test_input_required_result_elicitation": _elicit,
    "test_input_required_result_sampling": _sampling,
    "test_input_required_result_list_roots": _roots,
    "test_input_required_result_request_state": _request_state,
    "test_input_required_result_multiple_inputs": _several,
    "test_input_required_result_multi_round": _rounds,
    "test_input_required_result_tampered_state": _tampered,
    "test_input_required_result_capabilities": _capabilities,
    **fixtures_2025.TOOLS,
}


# Prompts and resources

_SAID: dict[str, Callable[[dict[str, str]], list[types.ContentBlock]]] = {
    "test_simple_prompt": lambda given: [
        types.TextContent(text="This is a simple prompt for testing.")
    ],
    "test_prompt_with_arguments": lambda given: [
        types.TextContent(
            text=f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
        )
    ],
    "test_prompt_with_embedded_resource": lambda given: [
        _embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
        types.TextContent(text="Please process the embedded resource above."),
    ],
    "test_prompt_with_image": lambda given: [
        _IMAGE,
        types.TextContent(text="Please analyze the image above."),
    ],
}
_TAKEN = {
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
}
_ASKING_PROMPT = "test_input_required_result_prompt"
PROMPTS = (*_SAID, _ASKING_PROMPT)
STATIC = {
    "test://static-text": "This is the content of the static text resource.",
    "test://static-binary": base64.b64decode(PNG),
    "test://watched-resource": "Watched resource content",
}


async def _get_prompt(params: types.GetPromptRequestParams) -> Any:
    if params.name == _ASKING_PROMPT:
        context = _typed(params, "user_context", "context")
        if context is None:
            return _asks(user_context=_form("Which context?", "context"))
        content: list[types.ContentBlock] = [types.TextContent(text=f"Use this context: {context}")]
    else:
        content = _SAID[params.name](params.arguments or {})
    messages = [types.PromptMessage(role="user", content=each) for each in content]
    return types.GetPromptResult(messages=messages)


def _read(uri: str) -> types.ReadResourceResult:
    body = STATIC.get(uri)
    if body is None:
        id = uri.removeprefix("test://template/").removesuffix("/data")
        body = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
    contents = (
        types.TextResourceContents(uri=uri, mime_type="text/plain", text=body)
        if isinstance(body, str)
        else types.BlobResourceContents(
            uri=uri, mime_type="image/png", blob=base64.b64encode(body).decode()
        )
    )
    return types.ReadResourceResult(contents=[contents])


Ours = Callable[[Asking, Any], Awaitable[Any]]
_listen = ListenHandler(bus)


async def _list_tools(asking: Asking, params: Any, ours: Ours) -> Any:
    listed = await ours(asking, params)
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    more = [types.Tool(name=name, description="A fixture.", input_schema=schema) for name in TOOLS]
    return listed.model_copy(update={"tools": [*listed.tools, *more]})


async def _call_tool(asking: Asking, params: Any, ours: Ours) -> Any:
    act = TOOLS.get(params.name)
    return await (act(asking, params) if act else ours(asking, params))


async def _list_prompts(asking: Asking, params: Any, ours: Ours) -> Any:
    listed = await ours(asking, params)
    more = [
        types.Prompt(
            name=name,
            description="A fixture.",
            arguments=[
                types.PromptArgument(name=each, required=True) for each in _TAKEN.get(name, ())
            ],
        )
        for name in PROMPTS
    ]
    return listed.model_copy(update={"prompts": [*listed.prompts, *more]})


async def _named_prompt(asking: Asking, params: Any, ours: Ours) -> Any:
    is_ours = params.name not in PROMPTS
    return await (ours(asking, params) if is_ours else _get_prompt(params))


async def _list_resources(asking: Asking, params: Any, ours: Ours) -> Any:
    listed = await ours(asking, params)
    more = [types.Resource(uri=uri, name=uri, description="A fixture.") for uri in STATIC]
    return listed.model_copy(update={"resources": [*listed.resources, *more]})


async def _read_resource(asking: Asking, params: Any, ours: Ours) -> Any:
    is_fixture = params.uri in STATIC or params.uri.startswith("test://template/")
    return _read(params.uri) if is_fixture else await ours(asking, params)


async def _subscribe(asking: Asking, params: Any, ours: Ours) -> Any:
    return types.EmptyResult() if params.uri in STATIC else await ours(asking, params)


async def _listen_to(asking: Asking, params: Any, ours: Ours) -> Any:
    wanted = params.notifications
    is_list = wanted.tools_list_changed or wanted.prompts_list_changed
    return await (_listen(asking, params) if is_list else ours(asking, params))


_METHODS: dict[str, Callable[[Asking, Any, Ours], Awaitable[Any]]] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "prompts/list": _list_prompts,
    "prompts/get": _named_prompt,
    "resources/list": _list_resources,
    "resources/read": _read_resource,
    "subscriptions/listen": _listen_to,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _subscribe,
}


def add_to(server: Server[Any]) -> None:
    """Serve the fixtures where they are named, and ours everywhere else."""
    for method, answer in _METHODS.items():
        entry = server.get_request_handler(method)
        if entry is None:  # Only where there are sessions.
            continue
        handle = partial(_answered, answer, entry.handler)
        server.add_request_handler(method, entry.params_type, handle)
    security = RequestStateSecurity(keys=[STATE_KEY])
    server.middleware.append(RequestStateBoundary(security, default_audience="tests"))


async def _answered(answer: Any, ours: Any, asking: Asking, params: Any) -> Any:
    return await answer(asking, params, ours)
