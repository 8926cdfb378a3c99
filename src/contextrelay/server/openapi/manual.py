"""The manual: GET /docs, the OpenAPI document as a page for people.

Rule: the manual is one page without scripts and external content. Everything in it comes from the
OpenAPI document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from contextrelay.server.openapi.operations import Json

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --blue: #2563eb; --green: #15803d;
  --red: #b91c1c; --brown: #a16207; }
@media (prefers-color-scheme: dark) {
  :root { --blue: #7cb0ff; --green: #5fd38a; --red: #ff8f8f; --brown: #e5b95c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 6rem;
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { margin: 0; } h2 { margin: 3rem 0 .25rem; border-bottom: 1px solid var(--line); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; }
a { color: var(--blue); }
code, pre { font: .875rem/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--soft); border-radius: .4rem; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .75rem; display: flex; flex-wrap: wrap; gap: .1rem .75rem;
  align-items: baseline; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
summary::before { content: "▸"; opacity: .6; } details[open] > summary::before { content: "▾"; }
summary span { flex: 1 1 20rem; opacity: .75; }
details > div { padding: 0 .75rem .75rem; overflow-x: auto; }
details details { border: 0; margin: 0; } details details > summary { padding: .5rem 0; }
details details > div { padding: 0; }
.GET { color: var(--blue); } .POST { color: var(--green); } .DELETE { color: var(--red); }
.PATCH { color: var(--brown); } .method { font-weight: 700; min-width: 4.2rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0;
  border-top: 1px solid var(--line); }
th { font-weight: 600; } td:first-child { white-space: nowrap; }
small { opacity: .75; }
"""


def written(document: Json) -> Iterator[str]:
    """Yield the parts of an HTML page that shows an OpenAPI document."""
    about = document["info"]
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(about['title'])}: HTTP</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(about['title'])}</h1><small>HTTP API, version "
        f'{escape(about["version"])}; <a href="/openapi.json">OpenAPI</a>, '
        '<a href="/ui/">web page</a></small></header>'
    )
    yield _paragraphs(about["description"])
    yield "<nav>"
    for tag in document["tags"]:
        yield f'<a href="#{_anchor(tag["name"])}">{escape(tag["name"])}</a>'
    yield "</nav><main>"
    for tag in document["tags"]:
        yield f'<h2 id="{_anchor(tag["name"])}">{escape(tag["name"])}</h2>'
        yield _paragraphs(tag["description"])
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(document, path, method.upper(), operation)
    yield "</main></body></html>\n"


def _operation(document: Json, path: str, method: str, operation: Json) -> Iterator[str]:
    yield (
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<code class="method {method}">{method}</code><code>{escape(path)}</code>'
        f"<span>{_spelled(operation['summary'])}</span></summary><div>"
    )
    yield _paragraphs(operation.get("description", ""))
    yield f"<pre>{escape(curl(path, method, operation))}</pre>"
    rows = [
        (
            each["name"],
            each["in"] + (", required" if each["required"] else ""),
            _kind(_held(each)),
            each.get("description", ""),
        )
        for each in operation.get("parameters", [])
    ]
    content: Json = operation.get("requestBody", {}).get("content", {})
    for media_type, held in content.items():
        fields = held.get("x-first-line", held.get("schema", {}))
        rows += [
            (
                name,
                media_type + (", required" if name in fields["required"] else ""),
                _kind(each),
                each.get("description", ""),
            )
            for name, each in fields.get("properties", {}).items()
        ] or [("body", media_type, _kind(fields), "")]
    if rows:
        yield _table(("Parameter", "in", "type", ""), rows)
    replies = {
        status: _resolved(document, reply) for status, reply in operation["responses"].items()
    }
    good = [
        (status, ", ".join(reply.get("content", {})), _reply_kind(reply), reply["description"])
        for status, reply in replies.items()
        if status < "400"
    ]
    if good:
        yield _table(("Status", "content", "type", ""), good)
    yield from _errors({status: reply for status, reply in replies.items() if status >= "400"})
    yield "</div></details>"


def _errors(replies: Json) -> Iterator[str]:
    """Yield the HTML table of errors. The table is collapsed, because it is similar for all
    operations.
    """
    if not replies:
        return
    kinds = dict.fromkeys(kind for reply in replies.values() for kind in reply.get("content", {}))
    said = f"{len(replies)} errors" if len(replies) > 1 else "1 error"
    said += f", as {' or '.join(kinds)}" if kinds else ""
    yield f"<details><summary><span>{escape(said)}</span></summary><div>"
    yield _table(
        ("Status", ""), [(status, reply["description"]) for status, reply in replies.items()]
    )
    yield "</div></details>"


# A placeholder that is replaced by the address of the page.
ORIGIN = "http://relay.invalid"
# Query fields, JSON fields and headers that a command line needs, although the schema does not
# require them.
_EXAMPLES: dict[str, Json] = {
    "Slice": {"lines": "1:20"},
    "AddEvent": {"type": "note.added"},
    "NoteRun": {"status": "started"},
    "mcp": {"jsonrpc": "2.0", "id": 1, "method": "ping"},
}
_ACCEPT: dict[str, str] = {
    "mcp": "application/json, text/event-stream",
    "getContent": "application/octet-stream",
    "getContentInThread": "application/octet-stream",
}


def curl(path: str, method: str, operation: Json) -> str:
    """Return a curl command line for an operation. Placeholders are in capitals."""
    name = operation["operationId"]
    target = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
    words = ["curl"] + ([] if method in ("GET", "POST") else ["--request", method])
    content: Json = operation.get("requestBody", {}).get("content", {})
    needed = {
        each["name"]: _example(each["name"], _held(each))
        for each in operation.get("parameters", [])
        if each["in"] == "query" and each["required"]
    }
    if "application/json" in content:
        schema = content["application/json"]["schema"]
        schema = schema.get("anyOf", [schema])[-1]
        value = {each: _example(each, schema["properties"][each]) for each in schema["required"]}
        words += ["--json", f"'{json.dumps(value | _EXAMPLES.get(name, {}))}'"]
    elif "application/octet-stream" in content:
        words += ["--data-binary", "@FILE"]
        for held in content.values():
            fields = held.get("x-first-line", {"required": []})
            needed |= {
                each: _example(each, fields["properties"][each]) for each in fields["required"]
            }
    elif content:
        words += ["--header", f"'content-type: {next(iter(content))}'", "--data-binary", "@FILE"]
    else:
        needed |= _EXAMPLES.get(name, {})
    if name in _ACCEPT:
        words += ["--header", f"'accept: {_ACCEPT[name]}'"]
    query = "?" + "&".join(f"{each}={value}" for each, value in needed.items()) if needed else ""
    return " ".join([*words, f"'{ORIGIN}{target}{query}'"])


def _example(name: str, schema: Json) -> Any:
    kinds: Json = {"array": [], "object": {}, "integer": 1, "number": 1, "boolean": True}
    return kinds.get(schema.get("type", ""), name.upper())


# Parts


def _held(parameter: Json) -> Json:
    return parameter.get("schema") or parameter["content"]["application/json"]["schema"]


def _resolved(document: Json, reply: Json) -> Json:
    name = reply.get("$ref", "").rpartition("/")[2]
    return document["components"]["responses"][name] if name else reply


def _reply_kind(reply: Json) -> str:
    kinds = [
        _kind(held.get("x-first-line") or held.get("schema") or {})
        for held in reply.get("content", {}).values()
    ]
    return " / ".join(dict.fromkeys(kind for kind in kinds if kind))


def _kind(schema: Json) -> str:
    """Return a description of a schema in a few words, for example "integer, 1 to 100"."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"array of {_kind(schema.get('items', {})) or 'anything'}"
    bounds = [schema.get("minimum", schema.get("minLength")), schema.get("maximum")]
    bounds[1] = schema.get("maxLength") if bounds[1] is None else bounds[1]
    if bounds == [None, None]:
        return kind
    low, high = ("" if bound is None else f"{bound:,}" for bound in bounds)
    if low and high:
        return f"{kind}, {low} to {high}"
    return f"{kind}, at most {high}" if high else f"{kind}, at least {low}"


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(
        f"<tr><td><code>{escape(first)}</code></td>"
        + "".join(f"<td>{_spelled(each)}</td>" for each in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><tr>{head}</tr>{lines}</table>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_spelled(each)}</p>" for each in text.split("\n\n") if each.strip())


def _spelled(text: str) -> str:
    """Escape a text for HTML, and mark up the code between backquotes."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(text: str) -> str:
    return re.sub(r"\W+", "-", text)
