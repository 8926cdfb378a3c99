"""The document of the HTTP API describes everything that is there, and so does its page."""

from __future__ import annotations

import re
import shlex
from typing import Any

import httpx2
import schemathesis

from contextrelay.server.openapi.openapi import document
from contextrelay.verbs.routes import routes
from tests.server.serving import Served


def operations() -> dict[tuple[str, str], str]:
    """The name of the operation on each method and path."""
    return {
        (method.upper(), path): operation["operationId"]
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_document_is_valid_openapi(served: Served) -> None:
    """Promise M3."""
    described = httpx2.get(f"{served.url}/openapi.json").json()

    assert described["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(described).validate()


def test_every_verb_is_an_operation_of_its_name() -> None:
    """Promise M3."""
    described = operations()

    assert {
        (route.method, route.path): route.name or route.verb.__name__ for route in routes()
    }.items() <= (described.items())
    # Generators make file names of them, and some file systems do not tell case apart.
    assert len({name.lower() for name in described.values()}) == len(described)


def test_everything_that_is_answered_is_documented_and_nothing_else(served: Served) -> None:
    """Promise M3. What is under the page is for people, and no API."""
    answered = {
        (method, path.replace("...}", "}"))
        for path, place in served.door.paths.places.items()
        for method in place.methods
        if not place.is_page or path == "/ui"
    }

    assert operations().keys() == answered


def request(line: str) -> dict[str, Any]:
    """What curl would send."""
    curl, *words, url = shlex.split(line)
    assert curl == "curl"
    asked: dict[str, Any] = {"method": "GET", "url": url, "headers": {}}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--header":
            header, _, text = value.partition(": ")
            asked["headers"][header] = text
        elif option == "--request":
            asked["method"] = value
        else:
            assert option in ("--json", "--data-binary")
            asked["method"] = asked["method"].replace("GET", "POST")
            asked["content"] = value.replace("@FILE", "what a file holds")
            if option == "--json":
                asked["headers"] |= {"content-type": "application/json"}
    return asked


def test_every_reply_has_the_security_headers(served: Served) -> None:
    """Promise Z2."""
    pushed = httpx2.post(f"{served.url}/push", json={"data": "hello"})
    url = pushed.json()["url"]
    replies = [
        pushed,
        httpx2.get(url),
        httpx2.get(f"{url}?raw=1"),
        httpx2.get(url.replace("/pull/", "/peek/")),
        httpx2.head(url),
        httpx2.options(url),
        httpx2.put(url),
        httpx2.get(f"{served.url}/no/such/path"),
        httpx2.get(f"{served.url}/threads/none"),
        httpx2.get(served.url, headers={"host": "elsewhere.example"}),
        httpx2.get(f"{served.url}/ws/news"),
        httpx2.get(f"{served.url}/ui/"),
        httpx2.get(f"{served.url}/docs"),
        httpx2.get(f"{served.url}/openapi.json"),
    ]

    for reply in replies:
        assert reply.headers.get_list("x-content-type-options") == ["nosniff"], reply.url
        # Of two the last counts: the forms of the page have to say where they come from.
        policies = reply.headers.get_list("referrer-policy")
        is_page = reply.url.path.startswith("/ui")
        assert policies == ["no-referrer", *(["same-origin"] if is_page else [])]
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    for page in replies[-3:-1]:
        assert page.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_head_options_and_other_methods_behave_on_every_path(served: Served) -> None:
    """Promise T11. Promise M3."""
    with httpx2.Client(base_url=served.url) as client:
        for path, place in served.door.paths.places.items():
            target = re.sub(r"\{[^}]*\}", "x", path)
            allowed = place.allowed()

            options = client.options(target)
            other = client.request("TRACE", target)

            assert (options.status_code, options.headers["allow"]) == (204, allowed), path
            assert (other.status_code, other.headers["allow"]) == (405, allowed), path
            if "GET" not in place.methods:
                assert client.head(target).status_code == 405, path
            elif not path.endswith(("/backup", "/stream", "/events")):
                head, get = client.head(target), client.get(target)
                assert (head.status_code, head.content) == (get.status_code, b""), path
                assert head.headers.get("content-type") == get.headers.get("content-type"), path
