"""The document of the HTTP API describes everything that is there, and so does its page."""

from __future__ import annotations

import re
import shlex
from html import unescape
from typing import Any

import httpx2
import schemathesis

from contextrelay.server.openapi.manual import written
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


def test_who_has_the_document_or_its_page_does_not_get_it_again(served: Served) -> None:
    for path in ("/openapi.json", "/docs"):
        first = httpx2.get(served.url + path)
        again = httpx2.get(served.url + path, headers={"if-none-match": first.headers["etag"]})

        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_the_page_shows_every_operation_and_fetches_nothing(served: Served) -> None:
    """Promise M3. Promise Z2."""
    reply = httpx2.get(f"{served.url}/docs")

    for (method, path), name in operations().items():
        assert f'<details id="{name}">' in reply.text, f"{method} {path}"
    linked = re.findall(r'(?:src|href)="([^"]*)"', reply.text)
    assert linked
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in linked)
    assert not re.search(r"<script|<link|<img|@import|url\(", reply.text)
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def lines(page: str) -> dict[str, str]:
    """The line for a shell of each operation."""
    found = re.findall(r'<details id="([^"]*)">.*?<pre>(.*?)</pre>', page, re.DOTALL)
    return {name: unescape(line) for name, line in found}


def test_its_lines_name_the_address_that_the_page_came_from(served: Served) -> None:
    """Promise M3: also through a forwarded port."""
    for host in (f"127.0.0.1:{served.port}", "localhost:9000"):
        reply = httpx2.get(f"{served.url}/docs", headers={"host": host})

        printed = lines(reply.text)
        assert len(printed) == len(operations())
        assert all(f"'http://{host}/" in line for line in printed.values())
        again = {"host": host, "if-none-match": reply.headers["etag"]}
        assert httpx2.get(f"{served.url}/docs", headers=again).status_code == 304


def test_its_lines_are_right_as_printed_once_capitals_are_filled_in(served: Served) -> None:
    """Promise M3."""
    with httpx2.Client(base_url=served.url) as client:
        printed = lines(client.get("/docs").text)
        for name in printed.keys() - NEEDS_MORE:
            ref = client.post("/push", json={"data": "line\n" * 30}).json()["id"]
            thread = client.post("/v1/threads", json={"name": "n"}).json()["thread_id"]
            line = re.sub(r"\b(REF|OLD|NEW)\b", ref, printed[name])
            line = line.replace("THREAD", thread).replace("PREFIX", ref[:8])

            with client.stream(**request(line)) as reply:
                assert reply.status_code not in (400, 405, 406, 415, 422, 500), f"{name}: {line}"
                assert reply.status_code == 200 or name != "Slice"


# They answer with 400 for want of what no line can show: a key, a hash, a run, a file of ours.
NEEDS_MORE = {
    *("noChannel", "RevokeKey", "ReadUsage", "PushMany", "ImportThread", "Restore", "Pack"),
    *("AcceptHandoff", "ReturnHandoff", "ShowHandoff", "FindResult", "KeepResult"),
    *("mcpListen", "mcpLeave"),
}


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


def test_no_backquote_is_left_on_the_page(served: Served) -> None:
    """Promise M3."""
    assert "`" not in httpx2.get(f"{served.url}/docs").text


def test_what_a_document_holds_cannot_become_part_of_the_page() -> None:
    """Promise Z2."""
    hostile = "<script>alert(1)</script>"
    described = document()
    described = {
        **described,
        "info": {**described["info"], "description": hostile, "title": hostile},
    }

    text = "".join(written(described))

    assert "<script" not in text
    assert "&lt;script&gt;" in text


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
