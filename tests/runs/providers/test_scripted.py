"""Every vendor's language, spoken with aimock: what was sent is read in its journal."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from contextrelay.runs.provider import Message, ToolResult
from tests.aimock import Aimock, aimock
from tests.runs.providers.vendors import KEY, TOOL, VENDORS, Vendor, answer_of, asked

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=[each.id for each in VENDORS])
CALL = {"name": "look", "arguments": '{"ref": "ctx_1"}'}
LONG = "One word after another, so that it takes a few pieces to say all of it."


def _script(vendor: str) -> list[dict[str, Any]]:
    """What the model says to this vendor; aimock counts for itself how often it was asked."""

    def on(words: str, response: dict[str, Any], **more: Any) -> dict[str, Any]:
        match = {"userMessage": f"{vendor}: {words}", **more.pop("match", {})}
        return {"match": match, "response": response, **more}

    def error(status: int, **fields: Any) -> dict[str, Any]:
        return {"error": {"message": f"no: {status}"}, "status": status, **fields}

    busy = [error(429, retryAfter=7), error(503), error(529), {"content": "At last."}]
    thought = {"reasoning": "It must be in the ref.", "reasoningSignature": "c2lnbmVk"}
    return [
        on("say it", {"content": LONG}),
        on("slowly", {"content": LONG}, latency=20),
        on("look", {"toolCalls": [CALL], **thought}, match={"hasToolResult": False}),
        on("look", {"content": "It says 42."}, match={"hasToolResult": True}),
        *(on("busy", each, match={"sequenceIndex": index}) for index, each in enumerate(busy)),
        on("wrong key", error(401)),
        on("no model", error(404)),
        on("cut", {"content": LONG}, latency=20, chunkSize=5, truncateAfterChunks=10),
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Generator[Aimock]:
    folder: Path = tmp_path_factory.mktemp("aimock")
    with aimock(folder, [each for vendor in VENDORS for each in _script(vendor.id)]) as running:
        yield running


def never(_: float) -> None:
    pytest.fail("there is nothing to wait for")


@every_vendor
def test_an_answer_comes_in_pieces_and_whole(vendor: Vendor, model: Aimock) -> None:
    """Promise X2."""
    provider = vendor.open(model.url, never)

    pieces, reply = answer_of(provider, asked(provider, f"{vendor.id}: say it"))

    assert len(pieces) > 1
    assert (reply.text, reply.stop, reply.calls) == (LONG, "end", ())
    assert reply.tokens.input > 0
    assert reply.tokens.output > 0


@every_vendor
def test_what_is_sent_is_the_prompt_and_the_key_is_in_no_body(
    vendor: Vendor, model: Aimock
) -> None:
    """Promise X2."""
    provider = vendor.open(model.url, never)

    answer_of(provider, asked(provider, f"{vendor.id}: slowly", tokens_max=321))

    (sent,) = model.requests(f"{vendor.id}: slowly")
    body = json.dumps(sent["body"])
    assert sent["body"]["model"] == f"{vendor.id}-model"
    assert sent["body"]["stream"] is True
    assert "You are terse." in body
    assert TOOL.description in body
    assert "321" in body
    assert KEY not in body
    assert KEY not in sent["path"]


@every_vendor
def test_a_tool_loop_goes_round(vendor: Vendor, model: Aimock) -> None:
    """Promise X2."""
    provider = vendor.open(model.url, never)
    question = f"{vendor.id}: look"
    _, first = answer_of(provider, asked(provider, question))
    (call,) = first.calls
    found = Message(role="user", results=(ToolResult(call.id, "it is 42"),))

    _, second = answer_of(provider, asked(provider, question, first.message(), found))

    assert (first.stop, call.name) == ("tools", "look")
    assert json.loads(call.arguments) == {"ref": "ctx_1"}
    assert (second.text, second.stop) == ("It says 42.", "end")
    body = model.bodies(question)[-1]
    sent = json.dumps(body.get("messages") or body["input"])
    assert "it is 42" in sent
    assert "ctx_1" in sent
    if vendor.id != "ollama":  # It has no ids: calls and results go by their order.
        assert sent.count(call.id) == 2
