"""A server's own spans: one a request, sent where the environment says, and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from contextrelay import Relay
from tests.otlp_receiver import Receiver, attributes, receiving
from tests.server.serving import Served, serving
from tests.store.engines import free_port

PARENT = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    """A receiver that the environment names."""
    for name in ("HEADERS", "TRACES_ENDPOINT", "PROTOCOL", "COMPRESSION"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with receiving() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


@pytest.fixture
def traced(receiver: Receiver, tmp_path: Path) -> Generator[Served]:
    with serving(tmp_path / "store") as served:
        yield served


def answer(span: Any) -> tuple[Any, ...]:
    found = attributes(span)
    names = ("http.request.method", "http.route", "http.response.status_code", "contextrelay.verb")
    return tuple(found.get(name) for name in names)


def test_every_request_is_a_span_with_its_route_verb_and_status(
    receiver: Receiver, traced: Served
) -> None:
    """Promise U4: a quick answer, one of a verb, one that is refused, one of nothing."""
    with Relay(traced.url) as relay:
        ref = relay.push("a secret text", metadata={"name": "secret"}).ref
    with httpx2.Client(base_url=traced.url) as web:
        assert web.get(f"/pull/{ref}").status_code == 200
        web.get(f"/v1/artifacts/{ref}", params={"shown_chars": 5})
        web.get("/secret/path", headers={"authorization": "Bearer secret-token"})

    spans = receiver.wait_for(4)

    assert [answer(span) for span in spans] == [
        ("POST", "/v1/artifacts", 201, "Push"),
        ("GET", "/pull/{ref}", 200, None),
        ("GET", "/v1/artifacts/{ref}", 200, "Peek"),
        ("GET", None, 401, None),
    ]
    assert spans[1].name == "GET /pull/{ref}"
    assert spans[1].kind == spans[1].SPAN_KIND_SERVER
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in spans)
    sent = str(receiver.requests)
    assert "secret" not in sent
    assert ref not in sent


def test_a_span_is_part_of_its_callers_trace(receiver: Receiver, traced: Served) -> None:
    """Promise U4: by traceparent; one that is not recorded there is not recorded here."""
    with httpx2.Client(base_url=traced.url) as web:
        web.get("/health", headers={"traceparent": f"00-{PARENT}-{CALLER}-00"})
        web.get("/health", headers={"traceparent": f"00-{PARENT}-{CALLER}-01"})
        web.get("/health", headers={"traceparent": "made up"})

    ours, own = receiver.wait_for(2)

    assert (ours.trace_id.hex(), ours.parent_span_id.hex()) == (PARENT, CALLER)
    assert (len(own.trace_id), own.parent_span_id) == (16, b"")


def test_the_last_spans_are_sent_when_a_server_ends(receiver: Receiver, tmp_path: Path) -> None:
    """Promise U4."""
    with serving(tmp_path / "store") as served:
        httpx2.get(f"{served.url}/health")

    assert [answer(span)[1] for span in receiver.spans] == ["/health"]


def test_a_server_whose_receiver_is_not_there_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise U4: the log says that spans could not be exported."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with caplog.at_level(logging.WARNING), serving(tmp_path / "store") as served:
        for _ in range(3):
            assert httpx2.get(f"{served.url}/health").status_code == 200

    assert any("Failed to export" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "set_to",
    [
        {},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        },
    ],
)
def test_no_spans_are_made_where_there_is_no_receiver_for_them(
    set_to: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise U4: it costs nothing where nobody asked for it."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    with serving(tmp_path / "store") as served:
        assert httpx2.get(f"{served.url}/health").status_code == 200
        assert served.door.spans is None
