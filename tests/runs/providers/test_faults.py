"""Faults of a provider on the wire: what is asked again, what is an error, what is kept."""

from __future__ import annotations

import json

import pytest

from contextrelay.errors import Failed, Forbidden, Limited, Unavailable
from contextrelay.runs.provider import Message, Reply, ToolResult
from contextrelay.runs.providers.answer import ANSWER_BYTES_MAX
from contextrelay.runs.providers.transport import PROVIDER_PAUSE_S_MAX, PROVIDER_RETRIES_MAX
from tests.runs.providers.raw_server import raw_server, refusal, stream, torn
from tests.runs.providers.vendors import (
    KEY,
    VENDORS,
    Vendor,
    answer_of,
    anthropic_said,
    asked,
)

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=[each.id for each in VENDORS])
by_pieces = [each for each in VENDORS if each.id != "ollama"]


def never(_: float) -> None:
    pytest.fail("there is nothing to wait for")


@every_vendor
def test_a_stream_cut_in_a_tool_call_is_an_error_and_is_not_asked_again(vendor: Vendor) -> None:
    """Promise X2."""
    events = vendor.called(['{"ref": "ctx_', '1"}'])
    for cut in (torn, stream):
        with raw_server(cut(vendor.kind, *events[:-2])) as server:
            provider = vendor.open(server.url, never)

            with pytest.raises(Failed, match="was cut off") as raised:
                list(provider.answer(asked(provider, "look")))

            assert raised.value.hint == "run it again"
            assert len(server.requests) == 1


@every_vendor
def test_a_stream_cut_in_its_text_gives_what_came_and_then_an_error(vendor: Vendor) -> None:
    """Promise X2."""
    events = vendor.said("Half of it")
    last = 1 if vendor.id == "ollama" else 2
    with raw_server(torn(vendor.kind, *events[:-last])) as server:
        provider = vendor.open(server.url, never)
        pieces = provider.answer(asked(provider, "look"))

        assert next(pieces) == "Half of it"
        with pytest.raises(Failed, match="was cut off"):
            next(pieces)
        assert len(server.requests) == 1


@pytest.mark.parametrize("vendor", by_pieces, ids=[each.id for each in by_pieces])
def test_a_tool_call_that_is_no_json_is_passed_on_and_can_be_answered(vendor: Vendor) -> None:
    """Promise X2."""
    called = stream(vendor.kind, *vendor.called(['{"ref": ', "oops"]))
    with raw_server(called, stream(vendor.kind, *vendor.said("Sorry."))) as server:
        provider = vendor.open(server.url, never)
        _, first = answer_of(provider, asked(provider, "look"))
        result = ToolResult(first.calls[0].id, "that is no JSON", is_error=True)
        answer = Message(role="user", results=(result,))

        _, second = answer_of(provider, asked(provider, "look", first.message(), answer))

        assert first.calls[0].arguments == '{"ref": oops'
        assert first.stop == "tools"
        assert second.text == "Sorry."
        assert "oops" in json.dumps(server.requests[1])


@every_vendor
def test_a_connection_dropped_before_the_answer_is_made_again(vendor: Vendor) -> None:
    """Promise X2."""
    slept: list[float] = []
    with raw_server(b"", b"", stream(vendor.kind, *vendor.said("Here."))) as server:
        provider = vendor.open(server.url, slept.append)

        _, reply = answer_of(provider, asked(provider, "look"))

        assert reply.text == "Here."
        assert len(server.requests) == 3
        assert len(slept) == 2
        assert slept[0] < slept[1]


@every_vendor
def test_a_busy_provider_is_asked_five_times_more_and_no_oftener(vendor: Vendor) -> None:
    """Promise X2."""
    slept: list[float] = []
    with raw_server(refusal(503, {"error": {"message": "busy"}}, retry_after="3")) as server:
        provider = vendor.open(server.url, slept.append)

        with pytest.raises(Unavailable, match="busy"):
            list(provider.answer(asked(provider, "look")))

        assert len(server.requests) == 1 + PROVIDER_RETRIES_MAX
        assert slept == [3.0] * PROVIDER_RETRIES_MAX


@every_vendor
def test_a_pause_that_is_too_long_is_not_waited_for(vendor: Vendor) -> None:
    """Promise X2."""
    long = str(PROVIDER_PAUSE_S_MAX + 1)
    with raw_server(refusal(429, {"error": {"message": "enough"}}, retry_after=long)) as server:
        provider = vendor.open(server.url, never)

        with pytest.raises(Limited, match="enough"):
            list(provider.answer(asked(provider, "look")))

        assert len(server.requests) == 1


@every_vendor
def test_a_refused_key_is_said_and_never_shown(vendor: Vendor) -> None:
    """Promise X2."""
    said = {"error": {"message": f"bad key: {KEY}, {KEY[:12]}***", "type": "authentication_error"}}
    for status in (401, 403):
        with raw_server(refusal(status, said)) as server:
            provider = vendor.open(server.url, never)

            with pytest.raises(Forbidden) as raised:
                list(provider.answer(asked(provider, "look")))

            shown = f"{raised.value!r} {raised.value} {raised.value.details} {raised.value.hint}"
            assert KEY[:12] not in shown
            assert raised.value.__suppress_context__
            assert "echo" in raised.value.hint
            assert any(KEY in head for head in server.heads)


@every_vendor
def test_an_answer_of_two_megabytes_is_cut_and_marked(vendor: Vendor) -> None:
    """Promise X2."""
    long = stream(vendor.kind, *vendor.said("é" * 1_000_000))
    with raw_server(long) as server:
        provider = vendor.open(server.url, never)

        _, reply = answer_of(provider, asked(provider, "look"))

    assert len(reply.text.encode()) == ANSWER_BYTES_MAX
    assert reply.stop == "length"
    assert reply.tokens.basis == "estimated"
    assert reply.tokens.output > 0


@every_vendor
def test_tool_calls_without_end_are_an_error(vendor: Vendor) -> None:
    """Promise X2."""
    pieces = ['{"ref": "', "x" * (ANSWER_BYTES_MAX + 1), '"}']
    with raw_server(stream(vendor.kind, *vendor.called(pieces))) as server:
        provider = vendor.open(server.url, never)

        with pytest.raises(Failed, match="too many tool calls"):
            list(provider.answer(asked(provider, "look")))


@every_vendor
def test_closing_an_answer_ends_the_call(vendor: Vendor) -> None:
    """Promise X2."""
    with raw_server(stream(vendor.kind, *vendor.said("One."), *vendor.said("Two."))) as server:
        provider = vendor.open(server.url, never)
        pieces = provider.answer(asked(provider, "look"))
        assert next(pieces) == "One."

        getattr(pieces, "close")()  # noqa: B009 (an Iterator need not have it)

        assert list(pieces) == []


def test_an_overloaded_claude_is_asked_again_also_when_it_says_so_in_its_stream() -> None:
    """Promise X2."""
    vendor, slept = VENDORS[0], list[float]()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    late = f"event: error\ndata: {json.dumps(error)}\n\n".encode()
    begun = anthropic_said("x")[0]
    scripts = (stream(vendor.kind, begun, late), stream(vendor.kind, *anthropic_said("Here.")))
    with raw_server(*scripts) as server:
        provider = vendor.open(server.url, slept.append)

        _, reply = answer_of(provider, asked(provider, "look"))

        assert (reply.text, len(slept)) == ("Here.", 1)


def test_what_claude_read_from_and_wrote_to_its_cache_is_counted() -> None:
    """Promise X2."""
    vendor = VENDORS[0]
    usage = {
        "input_tokens": 7,
        "output_tokens": 1,
        "cache_read_input_tokens": 2_000,
        "cache_creation_input_tokens": 300,
    }
    with raw_server(stream(vendor.kind, *anthropic_said("Here.", usage))) as server:
        provider = vendor.open(server.url, never)
        _, reply = answer_of(provider, asked(provider, "look"))

    tokens = reply.tokens
    assert (tokens.input, tokens.output, tokens.basis) == (2_307, 9, "measured")
    assert (tokens.cache_read, tokens.cache_write) == (2_000, 300)


@pytest.mark.parametrize("vendor", VENDORS[1:3], ids=["chat", "responses"])
def test_an_empty_purse_is_not_waited_for(vendor: Vendor) -> None:
    """Promise X2."""
    said = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with raw_server(refusal(429, said)) as server:
        provider = vendor.open(server.url, never)

        with pytest.raises(Limited, match="quota"):
            list(provider.answer(asked(provider, "look")))


def test_a_model_that_keeps_its_reasoning_is_asked_without_it() -> None:
    """Promise X2."""
    vendor = VENDORS[2]
    said = {"error": {"message": "Encrypted content is not supported with this model."}}
    with raw_server(refusal(400, said), stream(vendor.kind, *vendor.said("Here."))) as server:
        provider = vendor.open(server.url, never)

        replies = [answer_of(provider, asked(provider, "look"))[1] for _ in range(2)]

        assert all(isinstance(reply, Reply) and reply.text == "Here." for reply in replies)
        assert ["include" in each for each in server.requests] == [True, False, False]
