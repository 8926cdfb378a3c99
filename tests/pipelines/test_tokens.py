"""What a pipeline sends to a model, against pasting: counted in the provider's journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Pipeline, Relay
from contextrelay.content.tokens import count_tokens
from tests.aimock import Aimock, aimock
from tests.pipelines.running import result

SERVICES = 10
CONTEXT_BYTES = 50_000
SHARE_MAX = 0.15
CACHE_READ, CACHE_WRITE = 0.1, 1.25


def context() -> str:
    """A document of 50 KB; each service has a figure somewhere behind what a preview shows."""
    filler = "It takes orders from the queue, checks them, and writes what it did to the ledger. "
    parts: list[str] = ["# Services\n\nTen services, and what is to be known of each.\n"]
    for number in range(SERVICES):
        parts.append(f"\n## service-{number}\n\n" + filler * 60)
        parts.append(f"\nThe port of service-{number} is {port(number)}.\n")
    return "".join(parts)


def port(number: int) -> int:
    return 7_000 + 37 * number


def question(number: int) -> str:
    return f"Which port does service-{number} have?"


def script(ref: str) -> list[dict[str, Any]]:
    """The model looks into the ref; pasted, it answers at once."""
    found: list[dict[str, Any]] = []
    for number in range(SERVICES):
        asked = {"userMessage": question(number)}
        pattern = f"port of service-{number}"
        call = {"name": "relay_get", "arguments": json.dumps({"ref": ref, "grep": pattern})}
        answer = {"content": str(port(number))}
        pasted = {"userMessage": f"Read this. {question(number)}"}
        found.append({"match": pasted, "response": answer})
        found.append(
            {"match": {**asked, "hasToolResult": False}, "response": {"toolCalls": [call]}}
        )
        found.append({"match": {**asked, "hasToolResult": True}, "response": answer})
    return found


def pipeline(is_pasted: bool) -> Pipeline:
    inputs = {"doc": {"type": "ref"}, "text": ""}
    made = Pipeline("ports", inputs=inputs, defaults={"model": "openai:m"})
    for number in range(SERVICES):
        asked = question(number)
        if is_pasted:
            made.step(f"s{number}", prompt=f"Read this. {asked} {{{{inputs.text}}}}")
        else:
            words = f"{asked} See {{{{inputs.doc}}}}"
            made.step(f"s{number}", prompt=words, refs=["{{inputs.doc}}"])
    return made


def sent(model: Aimock, is_pasted: bool) -> list[str]:
    """The bodies that were sent, one after the other; as they are sent, so with every word."""
    bodies: list[dict[str, Any]] = model.bodies("Which port")
    for body in bodies:
        body.pop("_endpointType", None)  # The journal's own.
    if is_pasted:  # Who pastes needs no tools.
        bodies = [{name: each for name, each in body.items() if name != "tools"} for body in bodies]
    every = [json.dumps(body) for body in bodies]
    return [body for body in every if ("Read this. Which" in body) == is_pasted]


def cached(bodies: list[str]) -> float:
    """What these cost in tokens where the longest prefix that was sent before is read cheaply."""
    total, before = 0.0, [""]
    for body in bodies:
        prefix = max(len(_same(body, each)) for each in before)
        read, new = count_tokens(body[:prefix]), count_tokens(body[prefix:])
        total += read * CACHE_READ + new * CACHE_WRITE
        before.append(body)
    return total


def _same(one: str, other: str) -> str:
    length = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return one[:length]


def test_ten_steps_over_a_document_send_little_of_what_pasting_would(
    relay: Relay,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Promise X4."""
    text = context()
    ref = relay.push(text, name="services.md", ttl_s=None).ref
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with aimock(tmp_path, script(ref)) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        by_ref = pipeline(is_pasted=False).run(relay, {"doc": ref}, parallel=1)
        pasted = pipeline(is_pasted=True).run(relay, {"doc": ref, "text": text}, parallel=1)
        ours, theirs = sent(model, False), sent(model, True)

    for ended in (by_ref, pasted):
        assert ended.status == "done", ended.reason
        assert [result(relay, ended, f"s{number}") for number in range(SERVICES)] == [
            str(port(number)) for number in range(SERVICES)
        ]
    # Each had to look: no first call shows the figure, every second one does.
    for number, (first, second) in enumerate(zip(ours[::2], ours[1::2], strict=True)):
        assert f"is {port(number)}" not in first
        assert f"is {port(number)}" in second
    assert len(text) >= CONTEXT_BYTES
    share = sum(map(count_tokens, ours)) / sum(map(count_tokens, theirs))
    share_cached = cached(ours) / cached(theirs)
    record_property("share of tokens", f"{share:.3f}")
    record_property("share with a prompt cache", f"{share_cached:.3f}")
    assert share <= SHARE_MAX
    assert share_cached <= SHARE_MAX
