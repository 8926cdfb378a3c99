"""Packs of a thread: one relevance index is kept, and gives what a new one would give."""

from __future__ import annotations

import random
from typing import Any

import pytest

from contextrelay.client.transport.local import Local
from contextrelay.content.tokens import count_tokens
from contextrelay.core.stores import Stores
from contextrelay.verbs import (
    ListThreadArtifacts,
    NewThread,
    Pack,
    PatchState,
    Push,
    Remove,
)
from tests.core.clock import Clock, local

_WORDS = ("red", "green", "blue", "amber", "violet", "when", "did", "Ada:", "yesterday?", "ships")


def _fact(chance: random.Random, number: int) -> dict[str, object]:
    text = " ".join(chance.choices(_WORDS, k=6))
    return {"id": f"f{number}", "key": f"k{number}", "value": text, "confidence": 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_kept_index_packs_as_a_new_one_whatever_changed(seed: int) -> None:
    """Promise K4. Facts and talk are added, changed and removed between packs."""
    chance, core = random.Random(seed), local(Clock())
    thread = core.ask(NewThread("talk", "ada")).thread_id
    core.ask(Push(thread=thread), b"so that there is something to pack")
    facts = 0
    for number in range(40):
        step = chance.choice(("fact", "fact", "change", "drop", "talk", "talk", "remove"))
        operation = {"op": "add", "path": "/facts/-", "value": _fact(chance, number)}
        if step == "change" and facts:
            operation = {**operation, "op": "replace", "path": f"/facts/{chance.randrange(facts)}"}
        elif step == "drop" and facts:
            operation = {"op": "remove", "path": f"/facts/{chance.randrange(facts)}"}
        if step in ("fact", "change", "drop"):
            core.ask(PatchState(thread, [operation], by="ada"))
            facts += {"add": 1, "replace": 0, "remove": -1}[str(operation["op"])]
        elif step == "talk":
            said = f"{chance.choice(['Ada', 'Bob'])}: {' '.join(chance.choices(_WORDS, k=8))}"
            block = {"type": "USER", "group": chance.choice(["one", "two"])}
            core.ask(Push(thread=thread, metadata={"block": block}), said.encode())
        elif there := core.ask(ListThreadArtifacts(thread))[:-1]:
            core.ask(Remove(chance.choice(there).ref))
        ask = Pack(thread, query=" ".join(chance.choices(_WORDS, k=3)), budget_tokens=120)

        kept = core.ask(ask)

        assert kept == Local(Stores(core.stores.engine, now_ms=core.stores.now_ms)).ask(ask)


def test_packing_again_makes_no_new_index() -> None:
    """Promise K4: a fact more costs what that fact is long."""
    chance, core = random.Random(5), local(Clock())
    thread = core.ask(NewThread("talk", "ada")).thread_id
    indexes: list[Any] = []
    for number in range(3):
        add = {"op": "add", "path": "/facts/-", "value": _fact(chance, number)}
        core.ask(PatchState(thread, [add], by="ada"))
        core.ask(Pack(thread, query="red"))
        indexes.append(core.stores.live_states.index(thread))

    assert len({id(index.relevance) for index in indexes}) == 1
    assert len(indexes[0].relevance) == 3


def test_what_stands_for_an_artifact_is_never_longer_than_it() -> None:
    """Promise L1. Tables, records, code and prose of all sizes, with and without a name."""
    core = local(Clock())
    thread = core.ask(NewThread("files", "ada")).thread_id
    texts: dict[str, str] = {}
    for line in ("id,name\n", '{"id": 1, "name": "Ada"}\n', "def run(): ...\n", "# Ships\n", "w "):
        for times in (1, 4, 40, 200):
            for name in ("body.csv", "body.py", None):
                pushed = core.ask(Push(thread=thread, name=name), (line * times).encode())
                texts[pushed.ref] = line * times

    package = core.ask(Pack(thread, budget_tokens=100_000))

    shown = {block.metadata["ref"]: block.content.partition("\n")[2] for block in package.blocks}
    longer = [ref for ref, text in shown.items() if count_tokens(text) > count_tokens(texts[ref])]
    assert len(shown) == len(texts)
    assert longer == []
