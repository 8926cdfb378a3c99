"""relay trace: a tree, JSON, a page to keep, and OpenTelemetry spans in a file or sent away."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from contextrelay import Relay
from tests.cli.shell import Shell
from tests.otlp_receiver import attributes, receiving
from tests.runs.recorded import MODEL, record_run


@pytest.fixture
def answer(shell: Shell) -> str:
    """The ref of the answer of a run in the thread `work`, which is the last used one."""
    shell.out("thread", "new", "--name", "work")
    with Relay(shell.home / "store") as relay:
        return record_run(relay.thread("work"), "r1")


def test_a_trace_is_shown_as_a_tree(shell: Shell, answer: str) -> None:
    """Promise X5: runs, calls, tools, refs, tokens, price, time."""
    lines = shell.out("trace", human=True).splitlines()

    assert lines[0] == (
        "work  1 run · 2 calls · 1 tool · 2,000 in (1,600 cached) · 100 out · $0.0030 · 900 ms"
    )
    assert re.match(rf"r1  finished  ask  anthropic:{MODEL}  \d{{4}}-.* from v1$", lines[2])
    assert lines[4].startswith("│  asked  what does the log say?  ref ")
    assert lines[5].startswith(
        f"├─ call 1  {MODEL}  1,000 in (800 cached) · 50 out · $0.0015 · 400 ms  exchange "
    )
    assert lines[6].startswith("│  └─ relay_get  5 ms  ref ")
    assert lines[-1] == f"└─ answer {answer[:8]}"


class Page(HTMLParser):
    """The tags of a page, what they carry, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_trace_is_written_as_a_page_that_needs_and_runs_nothing(
    shell: Shell, answer: str
) -> None:
    """Promise X5: what a model was sent stands there as text, defused and fenced."""
    reply = shell.json("trace", "--html", "trace.html")

    raw = (shell.home / "trace.html").read_text()
    page = Page(raw)
    assert reply == {"file": "trace.html", "size": len(raw.encode()), "runs": 1}
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "link", "a", "iframe"})
    assert not any(name in ("src", "href") for _, attrs in page.tags for name in attrs)
    policies = [attrs["content"] or "" for _, attrs in page.tags if "http-equiv" in attrs]
    assert policies[0].startswith("default-src 'none'")
    assert "<script>alert(1)</script> <U+001B>[31mred" in page.text
    assert "round 1 of r1" in page.text
    assert "BEGIN UNTRUSTED DATA" in page.text
    assert "[SANITIZED]" in page.text
    assert answer in page.text
    assert "\x1b" not in raw


def test_an_exchange_that_is_gone_stops_no_page(shell: Shell, answer: str) -> None:
    """Promise X5."""
    exchange = shell.json("trace")["runs"][0]["calls"][0]["exchange"]
    shell.out("artifact", "rm", exchange)

    shell.out("trace", "--html", "trace.html")

    assert "cannot be read: " in (shell.home / "trace.html").read_text()


def test_a_trace_is_written_as_otlp_json(shell: Shell, answer: str) -> None:
    """Promise X5: the file is what OpenTelemetry's own schema reads, line by line."""
    reply = shell.json("trace", "--otlp", "spans.jsonl")

    lines = (shell.home / "spans.jsonl").read_text().splitlines()
    (request,) = [ParseDict(in_base64(json.loads(line)), request_type()) for line in lines]
    names = [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert reply["runs"] == 1
    assert names == [
        f"invoke_agent anthropic:{MODEL}",
        f"chat {MODEL}",
        "execute_tool relay_get",
        f"chat {MODEL}",
    ]


def request_type() -> Any:
    return ExportTraceServiceRequest()


def in_base64(document: Any) -> Any:
    """OTLP's JSON has ids in hex, where protobuf's has base64."""
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[name] = b64encode(bytes.fromhex(span[name])).decode()
    return document


def test_a_trace_is_sent_to_a_receiver_with_the_names_of_genai(shell: Shell, answer: str) -> None:
    """Promise X5."""
    shell.env["OTEL_SERVICE_NAME"] = "desk"
    with receiving() as receiver:
        shell.out("trace", "--otlp", receiver.url)
        shell.out("trace", "--otlp", receiver.url)

    run, chat, tool, _ = receiver.spans[:4]
    thread = shell.json("trace")["thread_id"]
    assert receiver.paths[0] == "/v1/traces"
    (resource,) = receiver.requests[0].resource_spans
    assert attributes(resource.resource)["service.name"] == "desk"
    assert (
        attributes(run).items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": MODEL,
            "gen_ai.conversation.id": thread,
            "gen_ai.agent.name": f"anthropic:{MODEL}",
            "gen_ai.usage.input_tokens": 2_000,
        }.items()
    )
    assert (
        attributes(chat).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.output_tokens": 50,
            "gen_ai.usage.cache_read.input_tokens": 800,
            "gen_ai.usage.cache_creation.input_tokens": 100,
        }.items()
    )
    assert (
        attributes(tool).items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "relay_get",
            "gen_ai.tool.call.id": "t1",
        }.items()
    )
    assert {chat.parent_span_id, tool.parent_span_id} == {run.span_id}
    assert len({span.trace_id for span in receiver.spans}) == 1
    # A run that is exported twice is the same one.
    assert receiver.requests[0] == receiver.requests[1]
    assert not any("what does the log say" in str(each) for each in receiver.requests)


def test_spans_are_sent_again_where_the_receiver_asks_for_it(shell: Shell, answer: str) -> None:
    """Promise X5."""
    with receiving(503) as receiver:
        shell.out("trace", "--otlp", f"{receiver.url}/otel/v1/traces")

    assert receiver.paths == ["/otel/v1/traces"] * 2
    assert len(receiver.requests) == 1


def test_headers_go_to_the_endpoint_that_they_were_set_for(shell: Shell, answer: str) -> None:
    """Promise X5: they may hold a key, which no other host gets to see."""
    with receiving() as ours, receiving() as other:
        shell.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = ours.url
        shell.env["OTEL_EXPORTER_OTLP_HEADERS"] = "x-key=a%20secret"
        shell.out("trace", "--otlp", ours.url)
        shell.out("trace", "--otlp", other.url)

    assert ours.headers[0]["x-key"] == "a secret"
    assert "x-key" not in other.headers[0]


def test_a_receiver_that_refuses_is_reported(shell: Shell, answer: str) -> None:
    """Promise X5."""
    status = 403
    code = 4
    said = "OTEL_EXPORTER_OTLP_HEADERS"
    with receiving(status) as receiver:
        failed, text = shell.fails("trace", "--otlp", receiver.url)

    assert said in text
    assert failed == code


def test_a_url_that_is_none_is_refused(shell: Shell, answer: str) -> None:
    """Promise Z3."""
    url = "https://name:secret@127.0.0.1/"
    code, text = shell.fails("trace", "--otlp", url)

    assert code == 2
    assert "invalid URL of an OTLP receiver" in text
    assert "secret" not in text
