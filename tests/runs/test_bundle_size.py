"""What a run is sent does not grow with its thread."""

from __future__ import annotations

from contextrelay import Relay
from contextrelay.client.flow import run
from contextrelay.client.thread import Thread
from contextrelay.runs.bundle import gather


def thread_of(facts: int, artifacts: int) -> Thread:
    thread = Relay("memory:").new_thread("size")
    for start in range(0, facts, 1_000):
        thread.patch(
            [
                {
                    "op": "add",
                    "path": "/facts/-",
                    "value": {"id": f"f{index:06}", "key": "note", "value": f"fact {index:06}"},
                }
                for index in range(start, min(start + 1_000, facts))
            ]
        )
    for index in range(artifacts):
        thread.put(f"# Report {index:06}\n" + "what it says\n" * 300, name=f"{index:06}.md")
    return thread


def sent_bytes(thread: Thread) -> int:
    gathered = run(thread.relay.transport, gather(thread.id, "which port?"))
    sent = (gathered.bundle.system, *(turn.text for turn in gathered.bundle.messages()))
    return sum(len(text.encode()) for text in sent)


def test_a_bundle_of_10_000_facts_is_as_long_as_one_of_20() -> None:
    """Promise X1: the prompt stops growing with the thread."""
    small, large = thread_of(20, 12), thread_of(10_000, 1_000)

    # Counts of what is left out have more digits; nothing else may be longer.
    assert abs(sent_bytes(large) - sent_bytes(small)) < 100


def test_turns_take_the_place_of_the_previews_of_answers() -> None:
    """Promise X1: an answer is sent once, and a hundred runs are sent as few as four."""
    thread = thread_of(5, 2)
    for index in range(4):
        thread.run(f"question {index:03}", "echo")
    before = sent_bytes(thread)

    for index in range(4, 40):
        thread.run(f"question {index:03}", "echo")

    assert abs(sent_bytes(thread) - before) < 5_000
    gathered = run(thread.relay.transport, gather(thread.id, "and now?"))
    texts = [turn.text for turn in gathered.bundle.turns]
    assert texts == [f"question {index:03}" for index in (36, 36, 37, 37, 38, 38, 39, 39)]
