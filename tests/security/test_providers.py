"""Hostile providers: replies without end, compressed, redirected, or with the key in them."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contextrelay import Relay
from contextrelay.errors import Failed, Invalid, RelayError, Unavailable
from contextrelay.limits import MIB, PROVIDER_ERROR_CHARS_MAX
from contextrelay.runs.otlp import Sender
from contextrelay.runs.providers.transport import Bounds
from tests.runs.providers.raw_server import raw_server, refusal, stream
from tests.runs.providers.vendors import KEY, VENDORS, Vendor, asked
from tests.security.endless import endless, replies

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=[each.id for each in VENDORS])
MEMORY_BYTES_MAX = 300 * MIB
# Asks a provider at each URL, says how each ends, and last the memory that was needed at most.
ASK = """
import json, re, resource, sys
from pathlib import Path
from contextrelay.errors import RelayError
from tests.runs.providers.vendors import VENDORS, asked

_, index, *urls = sys.argv
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, -1))
ends = []
for url in urls:
    provider = VENDORS[int(index)].open(url, lambda seconds: None)
    try:
        list(provider.answer(asked(provider, "look")))
        ends.append("answered")
    except RelayError as error:
        ends.append(str(error))
# Not ru_maxrss: it counts what the parent had when it forked.
most = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps([ends, int(most[1]) * 1024]))
"""


def never(_: float) -> None:
    pytest.fail("there is nothing to wait for")


@every_vendor
def test_a_reply_without_end_takes_neither_memory_nor_time_without_end(vendor: Vendor) -> None:
    """Promise X2."""
    names = [each for each in replies(vendor) if each != "words"]
    with endless(vendor) as server:
        urls = [f"{server.url}/{name}" for name in names]
        command = [sys.executable, "-c", ASK, str(VENDORS.index(vendor)), *urls]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr[-2_000:]
    ends, memory_bytes = json.loads(done.stdout)
    assert memory_bytes < MEMORY_BYTES_MAX
    for name, end in zip(names, ends, strict=True):
        said = {"thinking": "bytes of reasoning", "gzip": "compressed"}
        if vendor.id == "ollama":  # Its lines are JSON each.
            said["comments"] = "invalid answer"
        assert said.get(name, "without content") in end, (name, end)
        assert "-m" in end


@every_vendor
def test_a_reply_of_more_bytes_or_time_than_allowed_is_ended(vendor: Vendor) -> None:
    """Promise X2."""
    with endless(vendor) as server:
        provider = vendor.open(f"{server.url}/words", never, Bounds(reply_bytes=100_000))
        with pytest.raises(Failed, match="more than 100,000 bytes"):
            list(provider.answer(asked(provider, "look")))

        provider = vendor.open(f"{server.url}/words", never, Bounds(reply_s=0.001))
        with pytest.raises(Unavailable, match="took more than"):
            list(provider.answer(asked(provider, "look")))


@every_vendor
@pytest.mark.parametrize("attack", ["empty", "progress"])
def test_a_reply_that_goes_on_and_says_nothing_is_ended(vendor: Vendor, attack: str) -> None:
    """Promise X2."""
    with endless(vendor, pause_s=0.02) as server:
        provider = vendor.open(f"{server.url}/{attack}", never, Bounds(idle_s=0.2))

        with pytest.raises(Unavailable, match=r"no content for 0\.2 seconds") as raised:
            list(provider.answer(asked(provider, "look")))

    assert "-m" in raised.value.hint


@every_vendor
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_sends_the_prompt_nowhere(vendor: Vendor, status: int) -> None:
    """Promise X2."""
    with raw_server(stream(vendor.kind, *vendor.said("Here."))) as other:
        moved = refusal(status, {}, location=f"{other.url}/v1/elsewhere?key={KEY}")
        with raw_server(moved) as server:
            provider = vendor.open(server.url, never)

            with pytest.raises(Invalid, match=f"redirects to '{other.url}'") as raised:
                list(provider.answer(asked(provider, "look")))

        assert other.requests == []
    variable = {"anthropic": "ANTHROPIC_BASE_URL", "ollama": "OLLAMA_HOST"}
    assert variable.get(vendor.id, "OPENAI_BASE_URL") in raised.value.hint
    assert KEY not in str(raised.value)


@every_vendor
def test_a_redirect_to_a_host_with_the_key_in_its_name_does_not_show_it(vendor: Vendor) -> None:
    """Promise X2."""
    moved = refusal(307, {}, location=f"http://{KEY}.example/v1")
    with raw_server(moved) as server:
        provider = vendor.open(server.url, never)

        with pytest.raises(Invalid, match="redirects to") as raised:
            list(provider.answer(asked(provider, "look")))

    assert KEY.lower() not in str(raised.value).lower()


# Asks a command line, with as much memory.
ASK_COMMAND = """
import resource, sys
from contextrelay.errors import RelayError
from contextrelay.runs.providers.cli import CommandLine
from tests.runs.providers.vendors import asked

resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, -1))
provider = CommandLine(sys.argv[1], reply_s=float(sys.argv[2]))
try:
    list(provider.answer(asked(provider, "look")))
except RelayError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("line", "reply_s", "said"),
    [
        ("yes", 60, "wrote more than"),
        ("yes; true", 60, "wrote more than"),  # Now yes is a process of its own.
        ("yes >&2; true", 60, "wrote more than"),
        ("sleep 60", 0.3, "exceeded its time limit"),
        ("exec >&-; sleep 60; true", 0.3, "exceeded its time limit"),
    ],
)
def test_a_command_that_does_not_end_takes_neither_memory_nor_time_without_end(
    tmp_path: Path, line: str, reply_s: float, said: str
) -> None:
    """Promise X2. What it started ends with it."""
    command = tmp_path / "agent"
    command.write_text(f"#!/bin/sh\n{line}\n")
    command.chmod(0o755)

    done = subprocess.run(
        [sys.executable, "-c", ASK_COMMAND, str(command), str(reply_s)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert said in done.stdout, done.stderr[-2_000:]


# Keys


def malformed(vendor: Vendor) -> list[bytes]:
    """Answers that an SDK cannot read, each with the key in it."""
    values: list[Any] = [KEY, [KEY], {"a": KEY}, {KEY: KEY}]
    wrong = [{**base, name: value} for value in values for base, name in _fields(vendor)]
    if vendor.id == "ollama":
        return [json.dumps(each).encode() + b"\n" for each in wrong]
    return [
        f"event: {each.get('type', '')}\ndata: {json.dumps(each)}\n\n".encode() for each in wrong
    ]


def _fields(vendor: Vendor) -> list[tuple[dict[str, Any], str]]:
    """Objects of an answer, each with a field of it that is to be made wrong."""
    match vendor.id:
        case "anthropic":
            start: dict[str, Any] = {"type": "content_block_start", "index": 0}
            delta: dict[str, Any] = {"type": "content_block_delta", "index": 0}
            return [
                ({"type": "message_start"}, "message"),
                (start, "content_block"),
                (delta, "delta"),
                ({"type": "message_delta"}, "delta"),
                ({"type": "error"}, "error"),
            ]
        case "responses":
            return [
                ({"type": "response.output_text.delta"}, "delta"),
                ({"type": "response.output_item.added"}, "item"),
                ({"type": "response.completed"}, "response"),
                ({"type": "response.failed"}, "response"),
                ({"type": "error"}, "message"),
            ]
        case "chat":
            return [({"id": "c"}, "choices"), ({"id": "c", "choices": []}, "usage"), ({}, "error")]
        case _:
            return [({}, "message"), ({"message": {"role": "a"}}, "done"), ({}, "error")]


@every_vendor
def test_a_key_in_a_malformed_answer_is_in_no_error_and_no_store(
    vendor: Vendor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Promise X2."""
    shown: list[str] = []
    scripts = [stream(vendor.kind, each) for each in malformed(vendor)]
    with raw_server(*scripts) as server, Relay(tmp_path / "store") as relay:
        for number in range(len(scripts)):
            # Each provider has a model of its own, so that each asks once.
            provider = vendor.open(server.url, lambda seconds: None)
            thread = relay.thread(f"t{number}")
            try:
                thread.run("look", model=provider)
            except RelayError:
                shown.append(traceback.format_exc())
        shown += [repr(event) for event in relay.thread("t0").events()]

    assert len(shown) > len(scripts) / 2
    shown += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*.db*")]
    shown += capfd.readouterr()
    for part in _parts(KEY):
        assert not any(part in each for each in shown)


def _parts(key: str) -> list[str]:
    return [key[start : start + 6] for start in range(len(key) - 5)]


@every_vendor
@pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
def test_no_part_of_a_key_is_in_what_a_provider_says_of_an_error(
    vendor: Vendor, status: int
) -> None:
    """Promise X2."""
    spelled = f"bad {KEY} {KEY[:10]}... ...{KEY[-4:]} ...{KEY[-8:]} {KEY.upper()} x{KEY[5:15]}y"
    said = {"error": {"message": f"{spelled} {'z ' * 10_000}", "type": KEY, "code": KEY}}
    with raw_server(refusal(status, said)) as server:
        provider = vendor.open(server.url, lambda seconds: None)

        with pytest.raises(RelayError) as raised:
            list(provider.answer(asked(provider, "look")))

    shown = f"{raised.value} {raised.value!r} {raised.value.details}"
    assert "bad" in shown or status == 404
    assert len(shown) < 3 * PROVIDER_ERROR_CHARS_MAX
    for part in (*_parts(KEY.lower()), KEY[-4:]):
        assert part not in shown.lower()


def test_the_reply_of_a_collector_is_not_read() -> None:
    """Promise X2."""
    with endless(VENDORS[0]) as server, closing(Sender(f"{server.url}/line")) as sender:
        sender.send([])
