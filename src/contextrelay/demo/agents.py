"""Agents: three of them share a thread. What each gets is a header, refs and slices; not documents.

Rule: everything that would be sent to a model is counted, as it is, by the tokenizer: the prompt
with refs, the slices pulled, and next to it the prompt that pastes everything.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.json import decode, encode

from contextrelay.client.thread import Thread
from contextrelay.content.tokens import count_tokens
from contextrelay.content.untrusted.fence import fence
from contextrelay.demo.documents import document
from contextrelay.documents.patch import Operation
from contextrelay.model.artifact import Artifact
from contextrelay.state import schema as states


class Look(Struct, frozen=True):
    """A slice that an agent pulls: so many bytes of a document, from where a text is."""

    document: str
    begins_with: str
    size_bytes: int


class Hop(Struct, frozen=True):
    """One call of one agent, whose answer is a patch: entries for the state, written as

    fact KEY TEXT · constraint SEVERITY TEXT · question TEXT · step TEXT · decision TEXT
    resolved ID · done ID
    """

    agent: str
    asked: str
    answer: tuple[tuple[str, ...], ...]
    looks: tuple[Look, ...] = ()
    brings: str = ""
    """A document that comes into the thread with this hop."""
    writes: tuple[str, str] | None = None
    """A new artifact: its name and its text."""


@cache
def script() -> tuple[Hop, ...]:
    """What the agents are asked, look at and answer, hop by hop."""
    return decode(document("script.json"), type=tuple[Hop, ...])


class Sent(NamedTuple):
    """What one hop costs, in tokens."""

    pasted_tokens: int
    """If every document and every earlier message were in the prompt."""
    relay_tokens: int
    """Header, previews of what is new to the agent, and slices."""
    pulled_tokens: int
    """The slices alone."""
    repeated_tokens: int
    """Of what is pasted, what the hop before has pasted too: a prompt cache may hold it."""


class Team:
    """The agents' thread, and what each of them has seen."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self._stored: dict[str, Artifact] = {}
        # What pasting would send, kept here: a pull would count as one of the agents'.
        self._texts: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._transcript: list[str] = []
        self._counts: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._pasted_before = 0

    def act(self, hop: Hop) -> Sent:
        """One hop: bring what is new, look, answer with a patch, count."""
        if hop.brings:
            self._put(hop.brings, document(hop.brings), "you")
        header = self.thread.header()
        slices = [self._pull(look) for look in hop.looks]
        prompt = [hop.asked, encode(header).decode(), *self._news(hop.agent), *slices]
        pasted = self._count([*self._texts.values(), *self._transcript])

        operations = [self._operation(*entry) for entry in hop.answer]
        patch: list[dict[str, Any]] = to_builtins(operations)
        self.thread.patch(patch, by=hop.agent)
        if hop.writes:
            self._put(*hop.writes, hop.agent)
        self._transcript += [hop.asked, encode(patch).decode()]
        repeated, self._pasted_before = self._pasted_before, pasted
        asked = self._count([hop.asked])
        return Sent(pasted + asked, self._count(prompt), self._count(slices), repeated)

    def _count(self, texts: list[str]) -> int:
        """The tokens of some texts; each is counted once, however often it is pasted."""
        for text in texts:
            if text not in self._tokens:
                self._tokens[text] = count_tokens(text)
        return sum(self._tokens[text] for text in texts)

    def _put(self, name: str, text: str, by: str) -> None:
        self._stored[name] = self.thread.put(text, name=name, created_by=by)
        self._texts[name] = text

    def _pull(self, look: Look) -> str:
        """A slice by byte range. The script knows where to look; an agent would search."""
        start = document(look.document).encode().index(look.begins_with.encode())
        ref = self._stored[look.document].ref
        body = self.thread.relay.pull(ref, start, start + look.size_bytes)
        return body.decode(errors="replace")

    def _news(self, agent: str) -> list[str]:
        """Previews of what this agent has not seen, fenced as untrusted."""
        new = [each for name, each in self._stored.items() if (agent, name) not in self._seen]
        self._seen |= {(agent, name) for name in self._stored}
        return [fence(self.thread.relay.peek(artifact.ref)) for artifact in new]

    def _operation(self, kind: str, *words: str) -> Operation:
        match kind:
            case "fact":
                return states.fact(words[0], words[1], self._next("f"))
            case "constraint":
                return states.constraint(words[1], self._next("c"), words[0])
            case "question":
                return states.question(words[0], self._next("q"))
            case "step":
                return states.step(words[0], self._next("s"))
            case "decision":
                evidence = [self._stored[name].ref for name in ("checkout.ts", "worker.log")]
                return states.decision(words[0], self._next("d"), (), evidence, 0.9)
            case "resolved":
                return Operation("replace", f"/open_questions/{_index(words[0])}/status", kind)
            case _:
                return Operation("replace", f"/plan/{_index(words[0])}/status", "done")

    def _next(self, letter: str) -> str:
        self._counts[letter] = self._counts.get(letter, 0) + 1
        return f"{letter}{self._counts[letter]}"


def _index(id: str) -> int:
    return int(id[1:]) - 1
