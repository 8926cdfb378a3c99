"""Every operation of the OpenAPI document is asked, rightly and wrongly, and its answers compared.

Two streams of events never end by themselves, so they are left out here; test_signals.py reads
them. Long-polls are asked to wait for milliseconds only.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from msgspec import Struct
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from contextrelay.limits import WAIT_S_MAX
from contextrelay.model.ref import is_ref
from contextrelay.server.openapi.openapi import document
from contextrelay.server.openapi.operations import KEY
from contextrelay.verbs.routes import FRAMED, KEY_HEADER
from tests.rigs import length, rig, some
from tests.server.serving import serving

# Its types are not all known, so it is looked at from outside.
conformance: Any = import_module("schemathesis.specs.openapi.checks")
Case = Any

CHECKS: list[Any] = [
    import_module("schemathesis.checks").not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_headers_conformance,
    conformance.response_schema_conformance,
    conformance.allow_header_conformance,
    conformance.unsupported_method,
]
REJECTS = conformance.negative_data_rejection
ACCEPTS: Any = import_module("schemathesis.checks").CHECKS.get_one("positive_data_acceptance")
MEANING = {
    "(DELETE|GET) needs a session": "The header mcp-session-id is missing.",
    "WebSocket|Missing channel": "OpenAPI does not describe WebSockets.",
    "raw content requires": "Seed 002: raw content needs an Accept header.",
    "request a range within": "The range is behind the end of the body.",
    "a ref or a thread, not both|after_line requires": "OpenAPI cannot relate two parameters.",
    "a slice (takes|needs)|columns cannot be combined": "OpenAPI cannot relate two parameters.",
    "missing field|is missing|framed request (has|must)": "A field is in query or body.",
    "stands twice in the query|duplicate query field": "Several patterns are written as JSON.",
    "is not a (valid )?handoff|not among the blocks": "It is in the store, but of another kind.",
    "invalid JSON|not a valid backup|not a valid thread archive": "The body is a random file.",
    "invalid span|is not a table": "What a span means depends on the body.",
    "no unfinished restore or migration": "It depends on the store.",
    "the message is null": "Any JSON value but null.",
    "(capability|thread_id) is required": "Seed 002 has its own words for it.",
    "budget_too_small": "It depends on what is in the thread.",
    "operation [0-9]": "RFC 6902 describes operations.",
    "invalid media type": "RFC 9110 describes media types.",
    "an admin key cannot be limited": "OpenAPI cannot relate two fields.",
    "invalid pattern": "RE2 describes patterns.",
    "missing line of JSON": "The body is a random file.",
    "Missing body|must include": "Bytes of any type are in the body, but none, or JSON.",
    "more than 64 bits": "JSON Schema has no bound for numbers in free JSON.",
}
"""Answers that refuse what the schema allows: a regular expression, and why no schema says it."""
SEED = 20_000
EXAMPLES = length(thin=1, long=8, full=200)
EDGES_MAX = length(thin=3, long=25, full=200)
ANSWER_S_MAX = 30
WAIT_S = 0.01
TOO_LARGE = 413  # A refusal, which the check of invalid data does not know.
TOO_LONG = 431  # A URL over the bound of all requests, refused before its operation is known.
STREAMS = ("streamSignals", "streamEvents")
OWN_THREAD = ("Remove", "RemoveThread", "CloseThread", "AddBlocks")
"""They end a thread, or fill it with thousands of blocks."""

schemathesis.openapi.media_type(FRAMED, st.binary(max_size=64).map(lambda body: b"{}\n" + body))


class Asked(Struct):
    """A server, its document, and what is in its store."""

    client: httpx2.Client
    schema: Any
    there: dict[str, str]

    def ask(self, case: Case) -> None:
        """Ask one thing and compare the answer; half of the refs are of what is there."""
        has_own = case.operation.definition.raw["operationId"] in OWN_THREAD
        for name, value in case.path_parameters.items():
            if name in self.there and is_ref(str(value)) and str(value)[0] < "8":
                there = filled(self.client) if has_own else self.there
                case.path_parameters[name] = there[name]
        with suppress(KeyError, TypeError, ValueError):
            if WAIT_S < float(case.query["wait"]) <= WAIT_S_MAX:
                case.query["wait"] = WAIT_S
        if KEY_HEADER in (case.headers or {}) and is_key(case.headers[KEY_HEADER]):
            case.headers[KEY_HEADER] = uuid4().hex  # Of one request alone.
        response = case.call(timeout=ANSWER_S_MAX)
        if response.status_code == TOO_LONG:
            return
        said = response.content.decode(errors="replace")
        checks = [*CHECKS]
        if response.status_code != TOO_LARGE:
            has_meaning = any(re.search(words, said) for words in MEANING)
            checks += [REJECTS] if has_meaning else [REJECTS, ACCEPTS]
        case.validate_response(response, checks=checks)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Asked]:
    with (
        serving(tmp_path_factory.mktemp("store")) as served,
        httpx2.Client(base_url=served.url) as client,
    ):
        config = SchemathesisConfig(seed=SEED)
        schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json", config=config)
        yield Asked(client, schema, filled(client))


def filled(client: httpx2.Client) -> dict[str, str]:
    """Put something into a store: an artifact's ref, and the thread that it is in."""
    thread = client.post("/threads", json={"name": "one"}).json()["thread_id"]
    put = {"content": '{"one": 1}', "type": "json", "name": "one.json"}
    ref = client.post(f"/threads/{thread}/artifacts", json=put).json()["ref"]
    return {"ref": ref, "thread": thread}


def is_key(text: object) -> bool:
    return re.fullmatch(KEY["schema"]["pattern"], str(text)) is not None


def names() -> list[str]:
    return sorted(
        operation["operationId"]
        for methods in document()["paths"].values()
        for operation in methods.values()
        if operation["operationId"] not in STREAMS
    )


@rig
@pytest.mark.parametrize("name", some(names(), 20))
def test_no_request_gets_an_answer_that_is_not_documented(asked: Asked, name: str) -> None:
    """Promise M3. Promise Z3."""
    operation = asked.schema.find_operation_by_id(name)

    for case in islice(at_the_edges(asked, operation), EDGES_MAX):
        asked.ask(case)
    for mode in GenerationMode:
        with suppress(Unsatisfiable):  # Some operations cannot be asked wrongly.
            ask_some(asked, operation.as_strategy(generation_mode=mode))


def at_the_edges(asked: Asked, operation: Any) -> Iterator[Case]:
    """Values just inside and just outside of every bound, and methods that are not answered."""
    return asked.schema.iter_coverage_cases(
        operation,
        generation_modes=list(GenerationMode),
        generation_config=asked.schema.config.generation_for(operation=operation),
    )


def ask_some(asked: Asked, cases: st.SearchStrategy[Case]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=cases)
    def each(case: Case) -> None:
        asked.ask(case)

    each()
