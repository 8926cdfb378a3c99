"""Asking agents elsewhere: by the command line and Python, ours and those of the official SDK."""

from __future__ import annotations

from collections.abc import Generator
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.json import decode, encode

from contextrelay import Relay
from contextrelay.a2a.peer import Peer
from contextrelay.errors import Invalid, RelayError, TooLarge, Unavailable
from contextrelay.model.settings import Settings
from tests.a2a import agents as own
from tests.cli.shell import Shell
from tests.core import served as raw_server
from tests.server.serving import Served, serving


@pytest.fixture
def relay() -> Generator[Relay]:
    with Relay("memory:") as relay:
        yield relay


def test_a_card_is_shown_with_how_the_agent_is_asked(agents: Served, shell: Shell) -> None:
    """Promise M2."""
    shown = shell.run("a2a", "card", f"{agents.url}/a2a/counts", human=True).stdout.decode()

    assert "Counts to three, word by word." in shown
    assert shell.json("a2a", "card", f"{agents.url}/a2a/counts")["name"] == "counts"


def test_an_answer_becomes_artifacts_of_the_thread(agents: Served, relay: Relay) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    answer = thread.send_to(f"{agents.url}/a2a/echo", "are you there?")

    assert (answer.text, answer.state) == ("are you there?", "completed")
    assert [relay.pull(ref) for ref in answer.refs] == [b"are you there?"]
    assert [each.ref for each in thread.artifacts()] == list(answer.refs)
    assert thread.artifacts()[0].provenance.created_by == "a2a/echo"


def test_the_command_line_sends_and_streams(agents: Served, shell: Shell) -> None:
    """Promise M2."""
    whole = shell.out("a2a", "send", f"{agents.url}/a2a/counts", "go")
    streamed = shell.out("a2a", "send", f"{agents.url}/a2a/counts", "go", "--stream")

    assert whole.strip() == streamed.strip() == "one two three"
    assert len(shell.json("artifact", "list")) >= 1


@pytest.mark.parametrize("option", ["--stream", "--json"])
def test_a_task_that_failed_fails_the_command(agents: Served, shell: Shell, option: str) -> None:
    """Promise M2."""
    assert shell.run("a2a", "send", f"{agents.url}/a2a/fails", "go", option).returncode == 1
    assert shell.run("a2a", "send", f"{agents.url}/a2a/counts", "go", option).returncode == 0


def test_the_next_message_in_a_thread_goes_on_with_the_task(agents: Served, relay: Relay) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    first = thread.send_to(f"{agents.url}/a2a/asks_back", "which?")
    second = thread.send_to(f"{agents.url}/a2a/asks_back", "this one")

    assert (first.state, first.text) == ("input-required", "that one or this one?")
    assert (second.task, second.context) == (first.task, first.context)
    assert second.text == "so: this one"


def test_a_local_ref_travels_whole_and_arrives_as_it_was(agents: Served, relay: Relay) -> None:
    """Promise M2."""
    body = b"\x00binary\xff" * 2_000
    artifact = relay.push(body, name="x.bin")
    answer = relay.new_thread("asking").send_to(f"{agents.url}/a2a/hashes", "", refs=[artifact.ref])

    assert decode(relay.pull(answer.refs[0])) == {"sha256": [sha256(body).hexdigest()]}
    assert answer.text.encode() == relay.pull(answer.refs[0])


def test_two_relays_hand_a_task_back_and_forth_by_refs(tmp_path: Path) -> None:
    """Promise M2, K7: 50 KB of context in under 3 KB of messages, pulled when it is read."""
    context = "a fact of the project, with its reasons\n" * 1_300
    allowed = Settings(fetch_private=True)
    hashes = ("hashes=py:tests.a2a.agents:hashes", "long=py:tests.a2a.agents:long")
    with (
        serving(tmp_path / "here", settings=allowed, a2a=hashes) as here,
        serving(tmp_path / "there", settings=allowed, a2a=hashes) as there,
        Relay(here.url) as ours,
        Relay(there.url) as theirs,
    ):
        thread = ours.new_thread("release")
        brought = thread.put(context, name="context.md")
        given = thread.hand_off(f"a2a:{there.url}", "check it", refs=(brought.ref,))
        answer = thread.send_to(
            f"{there.url}/a2a/hashes", "check it", refs=(brought.ref,), handoff=given.ref
        )
        there_thread = theirs.thread(answer.task)
        back = there_thread.send_to(f"{here.url}/a2a/long", "and at length?")

        said = decode(ours.pull(answer.refs[0]))["sha256"]
        assert said[1:] == [given.sha256, sha256(context.encode()).hexdigest()]
        assert answer.sent_bytes + answer.received_bytes < 3_000 < len(context)
        kept = [each for each in there_thread.artifacts() if each.sha256 == brought.sha256]
        assert len(kept) == 1
        assert theirs.pull(kept[0].ref) == context.encode()
        assert ours.handoff(given.ref).returned == answer.refs
        assert theirs.pull(back.refs[0]) == own.LONG_BODY.encode()
        assert back.sent_bytes + back.received_bytes < 3_000


def test_a_handoff_is_given_by_the_command_line_to_an_agent_elsewhere(
    agents: Served, shell: Shell
) -> None:
    """Promise K7."""
    shell.run("thread", "new", "--name", "release")
    shell.run("state", "add", "fact", "the cache is cold")
    to = f"a2a:{agents.url}/a2a/echo"
    given = shell.json("handoff", "give", "--to", to, "--ask", "warm it up")

    assert given["state"] == "completed"
    assert "the cache is cold" in given["text"]
    assert shell.json("handoff", "list")["handoffs"][0]["returned"] == given["refs"]


# Hostile agents


def card(url: str, **fields: object) -> bytes:
    interface = {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    return encode({"name": "x", "supportedInterfaces": [interface], **fields})


CARD = "/.well-known/agent-card.json"


def test_a_card_that_is_too_large_wrong_or_leads_elsewhere_is_refused(relay: Relay) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    with raw_server.serving() as server:
        for body, status, headers in (
            (b"x" * 10_000_000, "200 OK", ""),
            (b"[]", "200 OK", ""),
            (b"\xff", "200 OK", ""),
            (b"{}", "200 OK", ""),
            (card("file:///etc/passwd"), "200 OK", ""),
            (b"", "302 Found", "Location: http://127.0.0.1:1/\r\n"),
            (b"", "500 Broken", ""),
        ):
            server.says(CARD, body, status, headers)
            with pytest.raises(RelayError):
                thread.send_to(server.url(""), "hi")


def test_a_card_does_not_lead_further_in_than_it_is_itself() -> None:
    """Promise M2."""
    with raw_server.serving() as server:
        server.says(CARD, card("http://169.254.169.254/a2a"))
        peer = Peer(server.url(""))
        with pytest.raises(Invalid, match="internal host"):
            peer.card()
        peer.close()


def test_answers_that_are_none_and_streams_without_end_are_refused(relay: Relay) -> None:
    """Promise M2."""
    thread = relay.new_thread("asking")
    with raw_server.serving() as server:
        base = server.url("")
        for body in (b"[]", b'{"task": 7}', b'{"task":{"id":""}}', b"x" * 17_000_000, b"{"):
            server.says(CARD, card(base))
            server.says("/message:send", body)
            with pytest.raises(RelayError):
                thread.send_to(base, "hi")
        server.says(CARD, card(base, capabilities={"streaming": True}))
        piece = b'data: {"artifactUpdate":{"artifact":{"parts":[{"text":"x"}]}}}\n\n'
        kind = "Content-Type: text/event-stream\r\n"
        server.says("/message:stream", piece * 10_002, headers=kind)
        with pytest.raises(TooLarge):
            thread.send_to(base, "hi", on_words=lambda words: None)
    with pytest.raises(Unavailable):
        thread.send_to(base, "hi")


def test_what_an_agent_says_does_not_act_on_a_terminal(shell: Shell) -> None:
    """Promise M2."""
    wild = "\x1b]0;owned\x07\u202e"
    with raw_server.serving() as server:
        base = server.url("")
        server.says(CARD, card(base, name=wild, description=wild, version=wild))
        part = {"text": wild}
        task = {"id": "1", "status": {"state": wild}, "artifacts": [{"parts": [part]}]}
        server.says("/message:send", encode({"task": task}))
        shown = shell.run("a2a", "card", base, human=True)
        sent = shell.run("a2a", "send", base, "hi", human=True)

    for each in (shown.stdout, shown.stderr, sent.stdout, sent.stderr):
        assert b"\x1b" not in each
        assert b"\x07" not in each
    assert sent.returncode == 0, sent.stderr
